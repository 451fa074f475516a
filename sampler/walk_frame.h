/* walk_frame.h: in whose frame a word of a stack lies, in a copy of the process.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_WALK_FRAME_H
#define GLEANER_WALK_FRAME_H

#include "heap/base.h"

/* A return address into the function in whose frame `address` lies (for the innermost frame its pc + 1); 0 if that cannot be told.
   `context` is the ucontext_t of the thread whose stack, [low, high), it is.  Nothing beyond that is read but unwind tables. */
uintptr_t walk_frame_of(const void *context, uintptr_t low, uintptr_t high, uintptr_t address);

#endif
