/* unwind.h: takes the calling thread's stack: by our own walker of unwind tables (walk.h), by
   libunwind where that gives up, by frame pointers where the user says so. SPDX-License-Identifier:
   LGPL-2.1-or-later */
#ifndef GLEANER_UNWIND_H
#define GLEANER_UNWIND_H

#include "sampler/sampler.h"
#include "sampler/walk.h"

/* Once, from start-up; stacks may be taken before. */
void unwind_start(const struct sampler_options *options);

/* Fills return addresses, innermost first (our own frames included), at most `max`; returns how
   many.  See stack_capture for the conditions. */
unsigned unwind_here(uintptr_t *frames, unsigned max) NOINLINE;

/* May a stack be taken by walk_again? */
bool unwind_by_walking(void);

/* What counts as our own code: set from start-up, before there are threads. */
extern uintptr_t unwind_own_from, unwind_own_bytes;

/* Looks at the first stacks, of `depth` frames, and warns when all are one frame deep. */
extern _Atomic uint32_t unwind_judged;
void unwind_judge_one(unsigned depth);
#define UNWIND_JUDGED 100
static inline void unwind_judge(unsigned depth)
{
    if (unlikely(atomic_load_explicit(&unwind_judged, memory_order_relaxed) < UNWIND_JUDGED))
        unwind_judge_one(depth);
}

/* Opens libunwind if it will be needed and can be opened safely now. */
void unwind_prepare_threads(void);

bool unwind_has_libunwind(void);

/* In the child of a process with threads libunwind is not called any more. */
void unwind_fork_prepare(void);
void unwind_fork_parent(void);
void unwind_fork_child(void);

struct unwind_stats {
    uint64_t fallbacks; /* stacks that the walker could not follow to their end */
    uint64_t refused;   /* of them: libunwind was not there, or its gate was closed */
};
void unwind_stats(struct unwind_stats *to);

#endif
