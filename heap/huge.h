/* huge.h: where in the window huge pages were asked for, so that memory which is mapped anew there can be asked for alike: neighbours
   that differ in it are never one mapping.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_HUGE_H
#define GLEANER_HUGE_H

#include "heap/base.h"

/* Asks for them in a range of the window, and notes it. Any thread. */
void huge_prefer(void *at, size_t bytes);

/* Were they asked for around the address?  Within 4 MiB. */
bool huge_is_preferred(uintptr_t address);

#endif
