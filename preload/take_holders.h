/* take_holders.h: a dump that says who holds what (heap/holders.h): its cut, and the look at the frozen copy.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_TAKE_HOLDERS_H
#define GLEANER_TAKE_HOLDERS_H

#include "heap/holders.h"

struct stop_result;

/* Inside the pause, before the snapshot is taken: the cut. */
void take_holders_prepare(const struct stop_result *);

/* In the snapshot child.  NULL, and why in *why_not, where it cannot be known. */
struct holders *take_holders(const char **why_not);

#endif
