/* estimate.h: what sample points say about bytes and blocks, and how surely.

   A program that allocated W words had each of them sampled with probability lambda, so the
   number n of sample points is binomial and n / lambda is an unbiased estimate of W
   (Horvitz-Thompson). For small lambda n is Poisson's, and Garwood's interval (Biometrika 28,
   1936) covers the truth in at least 95 % of cases, for any n, 0 included; its distances from n
   shrink by sqrt(1 - lambda) as lambda grows, since the variance of n is W * lambda * (1 -
   lambda): lambda = 1 is exact. Pure functions: no libc, no state.  The report command uses them
   too.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_ESTIMATE_H
#define GLEANER_ESTIMATE_H

#include "heap/base.h"

#define ESTIMATE_WORD 8 /* bytes of a trial; an interval of so many bytes, or fewer, is exact */

struct estimate {
    double value, lo, hi; /* the truth is in [lo, hi] in 95 % of cases; lo <= value <= hi */
};

/* Bytes given, from n sample points at a mean of `interval` bytes each. */
struct estimate estimate_bytes(uint64_t n, uint64_t interval);

/* Blocks of `given` bytes each (not 0). */
struct estimate estimate_objects(uint64_t n, uint64_t interval, size_t given);

/* A sum over sites whose blocks differ in size: `sum` is the sum of n * weight, where a site's
   weight is what one of its sample points stands for (interval / given for blocks, interval for
   bytes), and `squares` the sum of n * weight^2; `weight` is the largest weight that might have
   been seen, used where nothing was (n = 0). */
struct estimate estimate_sum(double sum, double squares, double weight, uint64_t interval);

/* A share of which `part` (0 to 1) was seen among `n` blocks (at least 1) that are a fair sample: Wilson's interval with continuity
   correction (Newcombe 1998, Statistics in Medicine 17:857-872, method 4), which covers the truth in 95 % of cases or
   a little more also where `part` is 0 or 1.  lo is 0 or more, hi 1 or less. */
struct estimate estimate_share(double part, double n);

/* The square root without libm (which is not loaded into every program for this). */
double estimate_square_root(double);

#endif
