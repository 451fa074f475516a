/* remember_cost.h: which way of remembering is cheaper; arithmetic alone.

   In nanoseconds, with P old pages of which W are written from one collection to the next:

     sweep   P * sweep                      in the pause
     track   P * look + W * (arm + sweep)   in the pause
             W * fault                      the program's, when it writes

   A nanosecond of the program's counts as much as one of the pause.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REMEMBER_COST_H
#define GLEANER_REMEMBER_COST_H

#include <stdbool.h>

struct remember_cost {
    double pages, written;           /* P, W */
    double sweep, look, arm, fault;  /* nanoseconds a page */
};

/* Where the sweep takes less, nothing needs to be known, measured or opened. */
#define COST_WORTH_NS 2e6
/* What is measured varies: a way is only left for one that is so much cheaper. */
#define COST_SURE 1.2
/* Cycles in which it must be paid back that all pages are armed once. */
#define COST_CYCLES 8

static inline double cost_of_sweep(const struct remember_cost *c) { return c->pages * c->sweep; }

static inline double cost_of_track(const struct remember_cost *c)
{
    return c->pages * c->look + c->written * (c->arm + c->sweep + c->fault);
}

/* Is the next cycle to be tracked, if the latest one was (`now`), or was not? */
static inline bool cost_says_track(const struct remember_cost *c, bool now)
{
    double sweep = cost_of_sweep(c), track = cost_of_track(c);
    return now ? track <= sweep * COST_SURE : track * COST_SURE + c->pages * c->arm / COST_CYCLES < sweep;
}

#endif
