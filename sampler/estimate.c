/* estimate.c: Garwood's interval in closed form.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sampler/estimate.h"

#define Z 1.959963984540054 /* 97.5 % quantile of the normal distribution */

/* 95 % limits of a Poisson mean of which n were seen: the m with P(N >= n | m) = 0.025, and with
   P(N <= n | m) = 0.025.  Solved by bisection in 30 digits. */
static const struct {
    double lo, hi;
} exact[] = {
    {0, 3.6888795},          {0.025317808, 5.5716434}, {0.24220928, 7.2246877},
    {0.61867212, 8.7672731}, {1.0898654, 10.241589},   {1.6234864, 11.668332},
    {2.2018943, 13.059474},  {2.8143631, 14.422675},   {3.4538322, 15.763189},
    {4.1153731, 17.084803},  {4.7953887, 18.390356},
};
#define LAST_EXACT 10

/* Newton's method from a first guess by halving the exponent: 4 steps reach a double's precision. */
double estimate_square_root(double x)
{
    if (!(x > 0)) return 0;
    union {
        double d;
        uint64_t u;
    } guess = {x};
    guess.u = (guess.u >> 1) + ((uint64_t)1023 << 51);
    for (int i = 0; i < 5; i++) guess.d = 0.5 * (guess.d + x / guess.d);
    return guess.d;
}

/* Wilson and Hilferty (PNAS 17, 1931): the cube root of a chi-squared variable is nearly normal. */
static double wilson_hilferty(double k, double z)
{
    double c = 1 - 1 / (9 * k) + z / (3 * estimate_square_root(k));
    return k * c * c * c;
}

/* The limits for n that need not be whole (a weighted sum has an effective n): exact values joined
   by straight lines up to 10, within 0.2 % beyond. */
static void garwood(double n, double *lo, double *hi)
{
    if (n < LAST_EXACT) {
        unsigned i = (unsigned)n;
        double part = n - i;
        *lo = exact[i].lo + part * (exact[i + 1].lo - exact[i].lo);
        *hi = exact[i].hi + part * (exact[i + 1].hi - exact[i].hi);
    } else {
        *lo = wilson_hilferty(n, -Z);
        *hi = wilson_hilferty(n + 1, Z);
    }
}

/* `n` effective sample points, each of which stands for `weight`. */
static struct estimate around(double n, double weight, uint64_t interval)
{
    struct estimate e;
    e.value = e.lo = e.hi = n * weight;
    if (interval <= ESTIMATE_WORD) return e;
    double lambda = (double)ESTIMATE_WORD / (double)interval;
    double shrink = estimate_square_root(1 - lambda), lo, hi;
    garwood(n, &lo, &hi);
    lo = n - (n - lo) * shrink;
    hi = n + (hi - n) * shrink;
    e.lo = lo * weight;
    e.hi = hi * weight;
    /* What was seen was there: n words at the least. */
    double seen = n * ESTIMATE_WORD * (weight / (double)interval);
    if (e.lo < seen) e.lo = seen;
    return e;
}

struct estimate estimate_bytes(uint64_t n, uint64_t interval)
{
    if (interval < ESTIMATE_WORD) interval = ESTIMATE_WORD;
    return around((double)n, (double)interval, interval);
}

struct estimate estimate_objects(uint64_t n, uint64_t interval, size_t given)
{
    if (interval < ESTIMATE_WORD) interval = ESTIMATE_WORD;
    return around((double)n, (double)interval / (double)given, interval);
}

struct estimate estimate_sum(double sum, double squares, double weight, uint64_t interval)
{
    if (!(sum > 0) || !(squares > 0)) return around(0, weight, interval);
    /* A compound Poisson sum behaves as one of sum^2 / squares points of equal weight: the same
       mean and variance (Fay and Feuer, Statistics in Medicine 16, 1997, have the same idea). */
    return around(sum * sum / squares, squares / sum, interval);
}

struct estimate estimate_share(double part, double n)
{
    double zz = Z * Z, scale = 2 * (n + zz), centre = 2 * n * part + zz, rest = 1 - part;
    double below = estimate_square_root(zz - 2 - 1 / n + 4 * part * (n * rest + 1));
    double above = estimate_square_root(zz + 2 - 1 / n + 4 * part * (n * rest - 1));
    struct estimate e = {part, (centre - 1 - Z * below) / scale, (centre + 1 + Z * above) / scale};
    if (!(part > 0) || e.lo < 0) e.lo = 0;
    if (!(part < 1) || e.hi > 1) e.hi = 1;
    if (e.lo > part) e.lo = part;
    if (e.hi < part) e.hi = part;
    return e;
}
