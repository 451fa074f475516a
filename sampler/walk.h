/* walk.h: walks the calling thread's stack by its unwind tables, without a lock or an allocation.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_WALK_H
#define GLEANER_WALK_H

#include "heap/base.h"

/* The registers that a walk needs. */
struct walk_state {
    uintptr_t pc, sp, fp;
    uintptr_t lr; /* aarch64's link register; only used in the innermost frame */
};

/* The state of the function that expands it. */
#if defined(__x86_64__)
#define WALK_HERE(state)                                                                           \
    __asm__ volatile("leaq 0f(%%rip), %0\n0:\tmovq %%rsp, %1\n\tmovq %%rbp, %2"                    \
                     : "=&r"((state)->pc), "=&r"((state)->sp), "=&r"((state)->fp))
#elif defined(__aarch64__)
#define WALK_HERE(state)                                                                           \
    __asm__ volatile("adr %0, .\n\tmov %1, sp\n\tmov %2, x29\n\tmov %3, x30"                       \
                     : "=&r"((state)->pc), "=&r"((state)->sp), "=&r"((state)->fp),                 \
                       "=&r"((state)->lr))
#endif

#define WALK_TRACE 288 /* frames that a trace remembers */

/* One frame of a remembered walk and where its caller's registers were read. */
struct walk_step {
    uintptr_t pc, sp, fp;
    int32_t pc_slot, fp_slot; /* relative to the caller's sp */
    int32_t sp_step; /* the caller's sp minus this one's where the rule says so; 0: it does not */
    uint32_t node;   /* the user's: 0 in new steps */
};

/* The previous walk of a thread, outermost frame first.  Frames that have not moved since need not
   be looked up again: where a walk arrives at a state (pc, sp, fp) of the previous one, all further
   frames depend only on the words that were read then, so it is enough to compare these. */
struct walk_trace {
    uint32_t count, generation;
    int32_t
        joined;    /* the last walk arrived at at[joined] and all further frames are as before: they
                      are not among those returned, at[joined].pc is the last of these; or -1 */
    bool complete; /* at[0] is the outermost frame of the stack */
    struct walk_step at[WALK_TRACE], fresh[WALK_TRACE];
};

enum walk_end {
    WALK_COMPLETE, /* the outermost frame was reached, or nothing tells what lies beyond */
    WALK_FULL,     /* `max` frames were found */
    WALK_STUCK     /* a frame whose rule needs more registers than the walker follows */
};

/* Walks from `from` outwards and stores the return addresses met, `from->pc` itself not among them;
   where a signal interrupted a function, its address plus one.  Returns how many.  `trace` may be
   NULL; else it belongs to the calling thread and starts zeroed.  After the walk frame i of those
   returned is at[count - 1 - i], unless count is 0. */
unsigned walk_stack(const struct walk_state *from, uintptr_t *frames, unsigned max,
                    struct walk_trace *trace, enum walk_end *end);

/* Leaves our own code: steps outwards until pc is outside of the `bytes` from `own` on.  False if a
   frame has no plain rule. */
bool walk_out(struct walk_state *state, uintptr_t own, uintptr_t bytes);

/* Walks by frame pointers from `from->fp` alone; never faults, whatever the register holds. */
unsigned walk_frame_pointers(const struct walk_state *from, uintptr_t *frames, unsigned max);

/* Is the word at this address (a multiple of 8) readable?  One cheap system call. */
bool walk_readable(uintptr_t address);

#endif
