/* walk.h: walks the calling thread's stack by its unwind tables, without a lock, an allocation or a
   system call.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_WALK_H
#define GLEANER_WALK_H

#include "heap/base.h"

/* The registers that a walk needs. */
struct walk_state {
    uintptr_t pc, sp, fp;
    uintptr_t lr; /* aarch64's link register; only in the innermost frame */
};

#define WALK_TRACE 96 /* frames that a trace remembers */

/* The previous walk of a thread.  Frames that have not moved since need not be looked up again:
   where the walk arrives at a state (pc, sp, fp) of the previous one, all further frames depend only on
   the words that were read then, so it is enough to compare these. */
struct walk_trace {
    uint32_t count, epoch;
    struct {
        uintptr_t pc, sp, fp;
        int32_t fp_slot; /* where the caller's fp was read, relative to the caller's sp; 0: nowhere */
        int32_t pc_slot; /* the same for the caller's pc */
    } at[WALK_TRACE];
};

enum walk_end {
    WALK_COMPLETE, /* the outermost frame was reached */
    WALK_FULL,     /* `max` frames were found */
    WALK_STUCK     /* a frame whose rule the walker does not know */
};

/* Walks from `from` outwards and stores the return addresses met, `from->pc` itself not among them.
   Returns how many. */
unsigned walk_stack(const struct walk_state *from, uintptr_t *frames, unsigned max,
                    struct walk_trace *trace, enum walk_end *end);

/* Walks by frame pointers from `from->fp` alone; never faults, whatever the register holds. */
unsigned walk_frame_pointers(const struct walk_state *from, uintptr_t *frames, unsigned max);

/* Is a word at this address readable?  One cheap system call; remembers nothing. */
bool walk_readable(uintptr_t address);

/* Forgets all cached rules: call it after code was unmapped. */
void walk_forget(void);

#endif
