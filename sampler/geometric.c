/* geometric.c: geometric gaps by inversion, 64 at a time.

   The number of failures before the first success of Bernoulli trials with probability lambda is
   floor(log(u) / log(1 - lambda)) for u uniform in (0, 1] (Devroye, "Non-Uniform Random Variate
   Generation", 1986, X.2).  As in OCaml's memprof the logarithm is a polynomial, so that the
   whole batch is a few loops which compilers vectorise, and libm is not needed.

   The logarithm.  u is 31 random bits, because signed integers become floats in one vector
   instruction; the tail that this cuts off has the probability 2^-32.  u = m * 2^e with m in
   [sqrt(1/2), sqrt(2)), so that u near 1 has e = 0 and nothing cancels: the error is relative,
   also for the short gaps.  With r = m - 1,

       log(u) = e * log(2) + r + r^2 * P(r)

   where P, of degree 6, is the minimax polynomial for (log(1 + r) - r) / r^2 on [sqrt(1/2) - 1,
   sqrt(2) - 1], found by Remez exchange in 40 digits (8 alternations of 9.95e-7). The error of
   the logarithm is r^2 times that: at most 1.71e-7, and at most 4.93e-7 of its value; rounding in
   single precision adds to it.  A relative error x makes gaps longer or shorter by x on average
   and estimates wrong by x: a millionth, where sampling at its best is wrong by a hundredth.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sampler/geometric.h"
#include "sampler/estimate.h"
#include "sampler/float_env.h"

#define LN2 0.693147180559945309417232121458
#define SQRT_HALF_BITS 0x3f3504f3 /* of the float sqrt(1/2) */

union float_bits {
    float f;
    int32_t i;
};

void geometric_log(const uint32_t y[restrict RANDOM_STREAMS], float to[restrict RANDOM_STREAMS])
{
    for (unsigned k = 0; k < RANDOM_STREAMS; k++) {
        union float_bits x;
        x.f = (float)(int32_t)(y[k] >> 1) + 0.5f;
        int32_t e = (x.i - SQRT_HALF_BITS) >> 23;
        x.i -= e * (1 << 23);
        float r = x.f - 1.0f;
        float p = 0.161721264373f + r * -0.106863897807f;
        p = -0.170687929704f + r * p;
        p = 0.19907865058f + r * p;
        p = -0.249846688915f + r * p;
        p = 0.333345824883f + r * p;
        p = -0.500000777639f + r * p;
        to[k] = (float)(e - 31) * (float)LN2 + (r + r * r * p);
    }
}

double geometric_log1m(double lambda)
{
    double x = 1 - lambda, halvings = 0;
    while (x < 0.5) {
        x *= 2;
        halvings++;
    }
    /* log(x) = 2 artanh((x - 1) / (x + 1)), and the argument is at most 1/3: 20 terms are below a
       double's rounding.  Where nothing was halved, x - 1 is -lambda exactly, so that a tiny lambda
       loses no digits. */
    double t = halvings == 0 ? lambda / (2 - lambda) : (1 - x) / (1 + x);
    double sum = 0, square = t * t;
    for (int k = 39; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
    return -2 * t * sum - halvings * LN2;
}

void geometric_set(struct geometric *g, double lambda)
{
    if (!(lambda > 0)) lambda = 0;
    if (lambda > 1) lambda = 1;
    g->lambda = lambda;
    g->scale = 0;
    if (lambda > 0 && lambda < 1) g->scale = (float)(1 / geometric_log1m(lambda));
}

static void fill(uint64_t to[RANDOM_STREAMS], uint64_t with)
{
    for (unsigned i = 0; i < RANDOM_STREAMS; i++) to[i] = with;
}

/* Not inlined: the compiler does not know that floating point depends on the environment and might
   move it out from between taking and restoring. */
static NOINLINE void draw(const struct geometric *g, struct random_streams *streams,
                          uint64_t to[RANDOM_STREAMS])
{
    uint32_t y[RANDOM_STREAMS];
    float f[RANDOM_STREAMS];

    if (g->lambda >= 1 || !(g->lambda > 0)) {
        fill(to, g->lambda >= 1 ? 0 : GEOMETRIC_NEVER);
        return;
    }
    random_batch(streams, y);
    geometric_log(y, f);
    float scale = g->scale;
    for (unsigned i = 0; i < RANDOM_STREAMS; i++) f[i] *= scale;
    for (unsigned i = 0; i < RANDOM_STREAMS; i++) {
        /* The limit is a power of two: the comparison rounds nothing. */
        to[i] = f[i] < (float)GEOMETRIC_NEVER ? (uint64_t)(int64_t)f[i] : GEOMETRIC_NEVER;
    }
}

void geometric_batch(const struct geometric *g, struct random_streams *streams,
                     uint64_t to[RANDOM_STREAMS])
{
    struct float_env env;
    float_env_take(&env);
    draw(g, streams, to);
    float_env_restore(&env);
}

/* A sum of 64 uniform numbers is nearly normal (its kurtosis is 2.98 for 3), with the mean 32 and
   the variance 64/12. */
static NOINLINE uint64_t count(const struct geometric *g, struct random_streams *streams,
                               uint64_t words)
{
    uint32_t y[RANDOM_STREAMS];
    random_batch(streams, y);
    double sum = 0;
    for (unsigned i = 0; i < RANDOM_STREAMS; i++) sum += (double)y[i] + 0.5;
    double z = (sum / 4294967296.0 - 32) / 2.309401076758503;
    double mean = (double)words * g->lambda;
    double n = mean + z * estimate_square_root(mean * (1 - g->lambda)) + 0.5;
    if (!(n > 0)) return 0;
    return n < (double)words ? (uint64_t)n : words;
}

uint64_t geometric_count(const struct geometric *g, struct random_streams *streams, uint64_t words)
{
    struct float_env env;
    float_env_take(&env);
    uint64_t n = count(g, streams, words);
    float_env_restore(&env);
    return n;
}

/* Each point in turn lies there with the chance kept words left / words left. */
unsigned geometric_kept(struct random_streams *streams, unsigned n, uint64_t words, uint64_t kept)
{
    unsigned stay = 0;
    uint32_t u[RANDOM_STREAMS];
    for (unsigned i = 0; i < n && kept > 0; i++, words--) {
        if (i % RANDOM_STREAMS == 0) random_batch(streams, u);
        /* u / 2^32 < kept / words, without a division. */
        if (((unsigned __int128)u[i % RANDOM_STREAMS] * words) >> 32 >= kept) continue;
        stay++;
        kept--;
    }
    return stay;
}
