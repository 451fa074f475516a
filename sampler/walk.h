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

#define WALK_TRACE 256     /* frames that a trace remembers */
#define WALK_QUICK 1024    /* rules that a thread keeps at hand, in sets of two */
#define WALK_OWN_PATHS 8   /* ways through our own code that a thread remembers */
#define WALK_OWN_FRAMES 12 /* frames of one such way */

/* One frame of a remembered walk, a cache line: its registers, and the words they were read from, which are in
   the frame that it called. */
struct walk_step {
    uintptr_t pc, sp, fp;
    const uintptr_t *pc_at; /* holds pc as long as this frame is as it was */
    uintptr_t same;         /* pc; 0 where that comparison does not suffice */
    const uintptr_t *fp_at; /* NULL: the frame that it called did not save fp */
    uint32_t node;          /* the user's; of new steps unspecified */
    bool uses_fp;           /* its own rule starts from fp */
    bool needs_fp;          /* where the frames further out lie depends on its fp */
    bool check_fp;          /* so *fp_at must be compared, too */
    const uintptr_t *sp_at; /* where the frame that it called aligns its stack: holds sp, and pc lies before that; else NULL */
};
_Static_assert(sizeof(struct walk_step) == 64, "a power of two, for pointers to be subtracted fast");

/* An unwinding rule that starts from sp or fp and loads its words from the frame. */
struct walk_quick {
    uintptr_t pc; /* return address; 0: empty */
    int32_t cfa;  /* offset of the canonical frame address in bytes, plus 1 if it counts from fp, plus 2 if it is loaded from there */
    int16_t ra, fp; /* bytes from there to the return address and to the saved fp; 0: not saved */
};

/* A way out of our own code: return addresses at known places above the sp at which a walk starts. */
struct walk_own {
    uintptr_t start; /* pc at which such a walk starts; 0: unused */
    uint32_t count;
    int32_t delta;   /* from that sp to the sp of the first frame that is not ours */
    int32_t exit_at; /* offset of that frame's pc */
    int32_t fp_at;   /* and of its fp; -1: in the register */
    int32_t at[WALK_OWN_FRAMES];
    uintptr_t pc[WALK_OWN_FRAMES];
};

/* The previous walk of a thread, outermost frame first.  Frames that have not moved since need not
   be looked up again: where a walk arrives at a state (pc, sp, fp) of the previous one, all further
   frames depend only on the words that were read then, so it is enough to compare these. */
struct walk_trace {
    uint32_t count;
    uint32_t generation; /* module_epoch() + 1 of all that is in here */
    uint32_t root;       /* the user's: what the nodes of the steps begin with */
    uint32_t own_last;
    bool complete; /* the outermost step is the outermost frame of the stack */
    struct walk_own own[WALK_OWN_PATHS];
    struct walk_quick quick[WALK_QUICK];
    struct walk_step steps[WALK_TRACE + 1]; /* steps[0] is further out than any and equals none */
    struct walk_step fresh[WALK_TRACE];
};

enum walk_end {
    WALK_COMPLETE, /* the outermost frame was reached, or nothing tells what lies beyond */
    WALK_FULL,     /* `max` frames were found */
    WALK_STUCK     /* a frame whose rule needs more registers than the walker follows */
};

/* A return address that is kept there. */
static ALWAYS_INLINE uintptr_t walk_code_at(const uintptr_t *at)
{
#if defined(__aarch64__)
    return *at & (((uintptr_t)1 << 48) - 1); /* without its signature */
#else
    return *at;
#endif
}

/* The steps of the previous walk, `count` of them, outermost first. */
static inline struct walk_step *walk_steps(struct walk_trace *t)
{
    return t->steps + 1;
}

/* Walks from `from` outwards and stores the return addresses met, `from->pc` itself not among them;
   where a signal interrupted a function, its address plus one.  Returns how many. */
unsigned walk_stack(const struct walk_state *from, uintptr_t *frames, unsigned max,
                    enum walk_end *end);

/* The same from the caller on, or from the frame of `from` on where that is not NULL (its pc a return address), into a trace, which
   belongs to the calling thread and starts zeroed:
   afterwards the last step is the innermost frame, at most `max` (up to WALK_TRACE) of them.  The
   frames innermost on the stack whose code is in the `bytes` from `own` on are left out.  Returns
   how many of the steps, outermost first, are those of before.  With WALK_STUCK the trace is empty. */
unsigned walk_again(struct walk_trace *trace, const struct walk_state *from, uintptr_t own, uintptr_t bytes, unsigned max,
                    enum walk_end *end) NOINLINE;

/* Leaves our own code: steps outwards until pc is outside of the `bytes` from `own` on.  False if a
   frame has no plain rule. */
bool walk_out(struct walk_state *state, uintptr_t own, uintptr_t bytes);

/* The rule of a code address (cfi.h), from the cache. */
struct cfi_rule;
struct cfi_rule walk_rule(uintptr_t pc);

/* Walks by frame pointers from `from->fp` alone; never faults, whatever the register holds. */
unsigned walk_frame_pointers(const struct walk_state *from, uintptr_t *frames, unsigned max);

/* Is the word at this address (a multiple of 8) readable?  One cheap system call. */
bool walk_readable(uintptr_t address);

#endif
