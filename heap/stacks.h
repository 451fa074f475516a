/* stacks.h: which parts of the threads' own stacks are in use.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_STACKS_H
#define GLEANER_STACKS_H

#include "heap/maps.h"
#include "heap/ranges.h"

/* Adds the parts of known stacks to `used`, from below the stack pointer (the red zone) up, and those that hold nothing
   that counts to `unused`; both settled.  A stack is known where the cut says so, or where it is the main thread's. */
void stacks_find(const struct cut *, const struct maps *, struct ranges *used,
                 struct ranges *unused);

#endif
