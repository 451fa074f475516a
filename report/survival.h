/* survival.h: what share of the blocks still lives at an age, from deaths by age and from the ages of what lives.

   What lives has not died yet, and says only that it lives longer than it is old: its age is *right-censored*.  The product-limit
   estimate (E. Kaplan, P. Meier, "Nonparametric Estimation from Incomplete Observations", Journal of the American Statistical
   Association 53, 1958) uses both:

       S(after step i) = product over j <= i of (1 - died[j] / at_risk[j]),   at_risk[j] = sum over k >= j of died[k] + live[k]

   Ages come in steps (sampler/lifetime_buckets.h).  As Kaplan and Meier have it for ties, what lives in a step counts as at risk in all of it.
   Inside a step deaths are spread evenly.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REPORT_SURVIVAL_H
#define GLEANER_REPORT_SURVIVAL_H

#include "sampler/estimate.h"
#include "sampler/lifetime_buckets.h"

struct survival_steps {
    unsigned count;
    uint64_t (*least)(unsigned step); /* the least age in a step */
};
extern const struct survival_steps survival_times, survival_spans;

struct survival {
    const struct survival_steps *steps;
    double observed;               /* no age can be more */
    double points;                 /* sample points that a unit of weight stands for; 0: every block is known */
    double before[LIFETIME_TIMES]; /* share that is alive when a step begins */
    double after[LIFETIME_TIMES];
    double at_risk[LIFETIME_TIMES]; /* weight that reached the step */
};

/* `died` and `live`: weights by step. */
void survival_make(struct survival *, const struct survival_steps *, const double *died,
                   const double *live, double observed);

/* The share that lives longer than `age`, with its 95 % interval; NANs where nothing was observed so long that it could be said.  The interval
   is that of a share among as many blocks as would give the estimate's variance (R. Peto et al., British Journal of Cancer 35, 1977: S^2 (1 -
   S) / at_risk), by estimate_share. */
struct estimate survival_share(const struct survival *, double age);

/* The least age that half of them do not outlive; NAN if more than half outlive all that was observed, or there is none. */
double survival_median(const struct survival *);

#endif
