/* verdict.c: what becomes of the memory of a call stack: cache or leak?

   lost         some of its blocks are lost: no pointer reaches them.
   growing      it takes more and more, and what it took stays.  Let T be the time since the start (or the fork).

                  came    live bytes younger than T/2
                  before  live bytes older than T/2
                  went    what died in the later half of what was there when it began.  When a block died is not kept, only its age a.
                          If the blocks of that age were born evenly over the time, a / (T - a) of them were alive in
                          the middle (all, from a = T/2 on): went = sum of these shares of the deaths.

                Growing is what came - went over by more than three standard deviations, by at least a tenth of what is live,
                if before is at least a tenth of came.  The deviation is that of independent points (Poisson's): sqrt of the sum of the squares
                of what each sample point, or with every word sampled each block, adds.  Three: one in some 700 call stacks that do not grow is over
                it by chance.  The last condition leaves out what comes and goes in waves, and what has come only now: nobody can tell
                yet whether it stays.  A process that is younger than a second is judged by bytes allocated instead of time.
   short-lived  half of what it allocates dies within a tenth of the observed time.
   steady       else.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/lifetime.h"

#include <math.h>

const char *const verdict_names[VERDICTS] = {"-", "growing", "lost", "steady", "short-lived"};

#define DEVIATIONS 3
#define PART_OF_LIVE 0.1
#define PART_OF_CAME 0.1
#define LEAST_STEPS 4 /* ticks or units below which halves mean nothing */

struct clock {
    const struct survival_steps *steps;
    const double *died, *live;
    double observed;
};

static bool clock_of(const struct profile *profile, const struct site *site, struct clock *to)
{
    const struct lifetime *of = site->lifetime;
    const struct lifetimes *all = profile->lifetimes;
    if (!of || !all) return false;
    bool by_time = all->observed_time * all->tick >= 1;
    *to = by_time ? (struct clock){&survival_times, of->died_time, of->live_time, all->observed_time}
                  : (struct clock){&survival_spans, of->died_span, of->live_span, all->observed_span};
    return true;
}

/* The part of a step below `age`, and its middle, no step ending after the observation. */
static double part_below(const struct clock *clock, unsigned step, double age, double *middle)
{
    double start = (double)clock->steps->least(step);
    double end = step + 1 < clock->steps->count ? (double)clock->steps->least(step + 1) : INFINITY;
    end = fmax(fmin(end, clock->observed), start + 1);
    *middle = fmin((start + end) / 2, clock->observed);
    return fmin(1, fmax(0, (age - start) / (end - start)));
}

struct lifetime_growth lifetime_growth(const struct profile *profile, const struct site *site)
{
    struct lifetime_growth growth = {0};
    struct clock clock;
    if (!clock_of(profile, site, &clock) || clock.observed < LEAST_STEPS) return growth;
    const struct lifetime *of = site->lifetime;
    double bytes = 0, squares = 0, half = clock.observed / 2;
    for (unsigned i = 0; i < clock.steps->count; i++) {
        double middle, young = part_below(&clock, i, half, &middle);
        double share = middle >= half ? 1 : middle / (clock.observed - middle);
        bytes += clock.live[i] + clock.died[i];
        growth.came += clock.live[i] * young;
        growth.before += clock.live[i] * (1 - young);
        growth.went += clock.died[i] * share;
        squares += clock.live[i] * young + clock.died[i] * share * share;
    }
    double n = profile->exact ? of->blocks : fmin(of->points, of->blocks > 0 ? of->blocks : of->points);
    if (n > 0) growth.noise = sqrt(squares * bytes / n); /* bytes / n: what a point adds, on average */
    growth.known = n > 0;
    return growth;
}

enum verdict lifetime_verdict(const struct profile *profile, const struct site *site)
{
    struct survival survival;
    struct clock clock;
    if (profile->has[MEASURE_LOST] && site->figures[MEASURE_LOST].bytes.value > 0) return VERDICT_LOST;
    if (!clock_of(profile, site, &clock)) return VERDICT_NONE;
    struct lifetime_growth growth = lifetime_growth(profile, site);
    double grew = growth.came - growth.went;
    if (growth.known && grew > DEVIATIONS * growth.noise &&
        grew >= PART_OF_LIVE * (growth.came + growth.before) &&
        growth.before >= PART_OF_CAME * growth.came)
        return VERDICT_GROWING;
    survival_make(&survival, clock.steps, clock.died, clock.live, clock.observed);
    if (survival_median(&survival) <= clock.observed / 10) return VERDICT_SHORT;
    return VERDICT_STEADY;
}
