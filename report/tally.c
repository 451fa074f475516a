/* tally.c: adds up what several samples of one site say; the mathematics is sampler/estimate.h's.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/tally.h"

#include <math.h>

static void add(struct tally_sum *to, double value, int64_t points, double weight_unseen)
{
    to->sum += value;
    double weight = points > 0 ? value / (double)points : weight_unseen;
    if (points > 0) to->squares += value * weight;
    if (weight > to->weight) to->weight = weight;
}

void tally_add(struct tally *tally, double objects, double bytes, int64_t points, int64_t period,
               int64_t size)
{
    /* A negative figure is a difference that somebody else made of two profiles. */
    if (objects < 0 || bytes < 0 || ((objects > 0 || bytes > 0) && points <= 0))
        tally->unknown = true;
    add(&tally->objects, objects, points, size > 0 ? (double)period / (double)size : 0);
    add(&tally->bytes, bytes, points, (double)period);
}

static struct estimate sum_figure(const struct tally_sum *sum, bool unknown, int64_t period)
{
    if (period >= 1 && period <= ESTIMATE_WORD) return exactly(sum->sum);
    if (unknown || period < 1) return (struct estimate){sum->sum, NAN, NAN};
    return estimate_sum(sum->sum, sum->squares, sum->weight, (uint64_t)period);
}

struct figure tally_figure(const struct tally *tally, int64_t period)
{
    return (struct figure){.objects = sum_figure(&tally->objects, tally->unknown, period),
                           .bytes = sum_figure(&tally->bytes, tally->unknown, period)};
}
