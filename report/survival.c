/* survival.c: see survival.h.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/survival.h"

#include <math.h>

const struct survival_steps survival_times = {LIFETIME_TIMES, lifetime_time_least};
const struct survival_steps survival_spans = {LIFETIME_SPANS, lifetime_span_least};

static double step_start(const struct survival *s, unsigned step)
{
    return (double)s->steps->least(step);
}

/* Where a step ends: the last one, and the one that the observation's end lies in, there. */
static double step_end(const struct survival *s, unsigned step)
{
    double start = step_start(s, step);
    double end = step + 1 < s->steps->count ? (double)s->steps->least(step + 1) : INFINITY;
    if (s->observed > start && s->observed < end) end = s->observed;
    return isinf(end) ? start + 1 : end;
}

void survival_make(struct survival *s, const struct survival_steps *steps, const double *died,
                   const double *live, double observed)
{
    *s = (struct survival){.steps = steps, .observed = observed};
    double at_risk = 0, share = 1;
    for (unsigned i = steps->count; i-- > 0;) s->at_risk[i] = at_risk += died[i] + live[i];
    for (unsigned i = 0; i < steps->count; i++) {
        s->before[i] = share;
        if (s->at_risk[i] > 0) share *= fmax(0, 1 - died[i] / s->at_risk[i]);
        s->after[i] = share;
    }
}

static unsigned step_of(const struct survival *s, double age)
{
    unsigned i = 0;
    while (i + 1 < s->steps->count && step_start(s, i + 1) <= age) i++;
    return i;
}

struct estimate survival_share(const struct survival *s, double age)
{
    const struct estimate unknown = {NAN, NAN, NAN};
    unsigned i = step_of(s, age);
    if (!(s->at_risk[0] > 0)) return unknown;
    if (s->before[i] <= 0) return (struct estimate){0, 0, 0};
    if (!(s->at_risk[i] > 0)) return unknown;
    double start = step_start(s, i), end = step_end(s, i);
    double part = age >= end ? 1 : (age - start) / (end - start);
    double share = s->before[i] + (s->after[i] - s->before[i]) * part;
    if (age > s->observed && share > 0) return unknown;
    if (s->points <= 0) return (struct estimate){share, share, share};
    double n = s->at_risk[i] * s->points / fmax(share, 1e-9);
    double all = s->at_risk[0] * s->points;
    return estimate_share(share, fmax(1, fmin(n, all)));
}

double survival_median(const struct survival *s)
{
    if (!(s->at_risk[0] > 0)) return NAN;
    for (unsigned i = 0; i < s->steps->count; i++) {
        if (s->after[i] > 0.5) continue;
        double part = (s->before[i] - 0.5) / (s->before[i] - s->after[i]);
        return step_start(s, i) + part * (step_end(s, i) - step_start(s, i));
    }
    return NAN;
}
