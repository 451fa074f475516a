/* geometric.h: gaps between sample points.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_GEOMETRIC_H
#define GLEANER_GEOMETRIC_H

#include "sampler/random.h"

/* A gap so long that no program allocates as many words. */
#define GEOMETRIC_NEVER ((uint64_t)1 << 62)

/* The parameter of a geometric distribution: each word is a sample point with probability lambda. */
struct geometric {
    double lambda;
    float scale; /* 1 / log(1 - lambda), negative; 0 stands for lambda = 1 */
};

/* lambda in [0, 1]; outside it is clipped.  Uses floating point in the caller's environment. */
void geometric_set(struct geometric *, double lambda);

/* 64 gaps: the number of words before the next sample point, so that a gap of k has the probability
   (1 - lambda)^k * lambda.  lambda = 1: all 0.  lambda = 0, and what would pass it:
   GEOMETRIC_NEVER. Leaves the floating-point environment as it was. */
void geometric_batch(const struct geometric *, struct random_streams *,
                     uint64_t to[RANDOM_STREAMS]);

/* The number of sample points in `words` words when that is many (GEOMETRIC_MANY and more on
   average): the binomial distribution by its normal approximation, so that a block of a terabyte is
   not walked point by point. Leaves the floating-point environment as it was. */
#define GEOMETRIC_MANY ((uint64_t)1 << 16)
uint64_t geometric_count(const struct geometric *, struct random_streams *, uint64_t words);

/* How many of `n` points in `words` words (fewer than 2^44) lie in the first `kept` of them, where each word is as likely to
   hold one as another. */
unsigned geometric_kept(struct random_streams *, unsigned n, uint64_t words, uint64_t kept);

/* log(u) for the float u nearest to ((y >> 1) + 1/2) / 2^31, which is in (0, 1]: never positive, 0
   only for u = 1, and wrong by at most GEOMETRIC_LOG_ERROR of itself (tested for every u that
   occurs). */
#define GEOMETRIC_LOG_ERROR 6.5e-7
void geometric_log(const uint32_t y[RANDOM_STREAMS], float to[RANDOM_STREAMS]);

/* log(1 - lambda) in double precision for lambda in (0, 1), without libm. */
double geometric_log1m(double lambda);

#endif
