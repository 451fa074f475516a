/* remember_cost.h: which way of remembering is cheaper: the clock that it is measured by, and the arithmetic.

   In nanoseconds, with P old pages of which W are written from one collection to the next:

     sweep   P * sweep                      in the pause
     track   P * look + W * (arm + sweep)   in the pause
             W * fault                      the program's, when it writes

   A nanosecond of the program's counts as much as one of the pause.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REMEMBER_COST_H
#define GLEANER_REMEMBER_COST_H

#include "heap/syscall.h"

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* The processor's time that this thread has used: what others did meanwhile does not count. */
static inline uint64_t cost_clock(void)
{
    struct timespec ts;
    raw_syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

struct remember_cost {
    double pages, written;          /* P, W */
    double sweep, look, arm, fault; /* nanoseconds a page */
};

/* Where the sweep takes less, nothing needs to be known, measured or opened. */
#define COST_WORTH_NS 2e6
/* What is measured varies: a way is only left for one that is so much cheaper. */
#define COST_SURE 1.2
/* Cycles in which it must be paid back that all pages are armed once. */
#define COST_CYCLES 8

/* Armed pages that are written break the huge pages that they lie in, for good: after one per cent of a GiB was written, none of 512 was left.
   The program pays for that with TLB misses as long as it runs, so where most memory is in huge pages a sweep that takes
   less than this is preferred in any case. */
#define COST_HUGE_NS 2e7

static inline double cost_of_sweep(const struct remember_cost *c)
{
    return c->pages * c->sweep;
}

static inline double cost_of_track(const struct remember_cost *c)
{
    return c->pages * c->look + c->written * (c->arm + c->sweep + c->fault);
}

/* Is the next cycle to be tracked, if the latest one was (`now`), or was not? */
static inline bool cost_says_track(const struct remember_cost *c, bool now)
{
    double sweep = cost_of_sweep(c), track = cost_of_track(c);
    return now ? track <= sweep * COST_SURE
               : track * COST_SURE + c->pages * c->arm / COST_CYCLES < sweep;
}

/* Is the sweep to be kept although tracking is cheaper?  `huge` is the part of the memory that is in huge pages. */
static inline bool cost_keeps_huge(const struct remember_cost *c, double huge)
{
    return huge > 0.5 && cost_of_sweep(c) < COST_HUGE_NS;
}

#endif
