/* test-geometric.c: the logarithm's error for every input, and the gaps' distribution.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "sampler/geometric.h"
#include "suite.h"

#include <check.h>
#include <fenv.h>
#include <math.h>
#include <stdlib.h>

static double worst;
static unsigned not_below_zero;

/* (Check writes to a pipe at each assertion: too slow for one an input.) */
static void check_logs(const uint32_t y[RANDOM_STREAMS])
{
    float got[RANDOM_STREAMS];
    geometric_log(y, got);
    for (unsigned i = 0; i < RANDOM_STREAMS; i++) {
        float u = (float)(y[i] >> 1) + 0.5f;
        double expected = log((double)u / 2147483648.0);
        if (expected == 0 ? got[i] != 0 : !(got[i] < 0)) not_below_zero++;
        if (expected == 0) continue;
        double error = fabs(got[i] / expected - 1);
        if (error > worst) worst = error;
    }
}

/* All floats that can occur: each number below 2^24, then the multiples of 2, 4 … 128 that the
   nearest float of a larger number is one of. */
START_TEST(logarithm_keeps_its_bound_for_every_input)
{
    uint32_t y[RANDOM_STREAMS];
    unsigned n = 0;
    worst = 0;
    uint64_t step = 1, inputs = 0;
    for (uint64_t x = 0; x <= 0x7fffffff; x += step, inputs++) {
        if (x >= (uint64_t)1 << 24 && (x & (x - 1)) == 0) step *= 2;
        y[n++] = (uint32_t)x << 1 | 1;
        if (n < RANDOM_STREAMS) continue;
        check_logs(y);
        n = 0;
    }
    for (; n < RANDOM_STREAMS; n++) y[n] = UINT32_MAX; /* u = 1, after rounding */
    check_logs(y);
    ck_assert_uint_eq(step, 128);
    ck_assert_uint_eq(inputs, ((uint64_t)2 + 7) << 23);
    ck_assert_uint_eq(not_below_zero, 0);
    ck_assert_msg(worst <= GEOMETRIC_LOG_ERROR, "relative error %g", worst);
    /* The bound is no more generous than need be. */
    ck_assert_msg(worst > GEOMETRIC_LOG_ERROR / 1.5, "relative error %g", worst);
}
END_TEST

START_TEST(log1m_agrees_with_libm)
{
    for (double lambda = 1e-19; lambda < 1; lambda *= 1.07) {
        double expected = log1p(-lambda);
        ck_assert_double_eq_tol(geometric_log1m(lambda) / expected, 1, 1e-14);
    }
    ck_assert_double_eq_tol(geometric_log1m(1 - 1e-9) / log1p(-(1 - 1e-9)), 1, 1e-14);
}
END_TEST

START_TEST(zero_and_one_are_exact)
{
    struct random_streams r;
    struct geometric g;
    uint64_t gap[RANDOM_STREAMS];
    static const double always[] = {1, 1.5, INFINITY}, never[] = {0, -1, -0.0, NAN};
    random_seed(&r, 1);
    for (unsigned k = 0; k < 3; k++) {
        geometric_set(&g, always[k]);
        geometric_batch(&g, &r, gap);
        for (unsigned i = 0; i < RANDOM_STREAMS; i++) ck_assert_uint_eq(gap[i], 0);
    }
    for (unsigned k = 0; k < 4; k++) {
        geometric_set(&g, never[k]);
        geometric_batch(&g, &r, gap);
        for (unsigned i = 0; i < RANDOM_STREAMS; i++) ck_assert_uint_eq(gap[i], GEOMETRIC_NEVER);
    }
}
END_TEST

/* lambda so small that nearly every gap passes what a gap can be: it stops there and raises
 * nothing. */
START_TEST(gaps_saturate)
{
    struct random_streams r;
    struct geometric g;
    uint64_t gap[RANDOM_STREAMS];
    unsigned most = 0;
    random_seed(&r, 2);
    geometric_set(&g, ldexp(1, -66));
    for (unsigned n = 0; n < 100; n++) {
        geometric_batch(&g, &r, gap);
        for (unsigned i = 0; i < RANDOM_STREAMS; i++) {
            ck_assert_uint_le(gap[i], GEOMETRIC_NEVER);
            most += gap[i] == GEOMETRIC_NEVER;
        }
    }
    /* P(gap >= 2^62) = exp(-2^-4) = 0.939 of 6400: 6012, deviation 19. */
    ck_assert_uint_gt(most, 6012 - 100);
    ck_assert_uint_lt(most, 6012 + 100);
}
END_TEST

/* Mean (1 - lambda) / lambda and variance (1 - lambda) / lambda^2.  The mean of N gaps deviates by
   sd / sqrt(N); the variance estimate by sd^2 * sqrt(8 / N), as the fourth central moment of an
   exponential variable is 9 sd^4.  All within 4 deviations, fixed seeds. */
START_TEST(mean_and_variance)
{
    static const double lambdas[] = {0.9, 0.5, 0.1, 1e-2, 1e-3, 1.0 / 65536, 1e-8};
    double lambda = lambdas[_i];
    struct random_streams r;
    struct geometric g;
    uint64_t gap[RANDOM_STREAMS];
    random_seed(&r, 100 + (unsigned)_i);
    geometric_set(&g, lambda);
    double mean = (1 - lambda) / lambda, variance = mean / lambda, sum = 0, squares = 0;
    double batches = 20000, n = batches * RANDOM_STREAMS;
    for (unsigned k = 0; k < batches; k++) {
        geometric_batch(&g, &r, gap);
        for (unsigned i = 0; i < RANDOM_STREAMS; i++) {
            double d = (double)gap[i] - mean;
            sum += d;
            squares += d * d;
        }
    }
    ck_assert_double_lt(fabs(sum / n), 4 * sqrt(variance / n));
    double kurtosis = 9 + lambda * lambda / (1 - lambda); /* of the geometric distribution */
    ck_assert_double_lt(fabs(squares / n - variance), 4 * variance * sqrt((kurtosis - 1) / n));
}
END_TEST

/* Counts of the gaps 0 … 11 and of all longer ones against the distribution.  The 99.9 % quantile
   of chi-squared with 12 degrees of freedom is 32.91 (tables). */
START_TEST(chi_squared)
{
    static const double lambdas[] = {0.8, 0.5, 0.25, 0.1};
    double lambda = lambdas[_i];
    struct random_streams r;
    struct geometric g;
    uint64_t gap[RANDOM_STREAMS];
    double seen[13] = {0}, n = 20000.0 * RANDOM_STREAMS;
    random_seed(&r, 200 + (unsigned)_i);
    geometric_set(&g, lambda);
    for (unsigned k = 0; k < 20000; k++) {
        geometric_batch(&g, &r, gap);
        for (unsigned i = 0; i < RANDOM_STREAMS; i++) seen[gap[i] < 12 ? gap[i] : 12]++;
    }
    double chi = 0, rest = 1;
    for (unsigned k = 0; k < 13; k++) {
        double p = k < 12 ? rest * lambda : rest;
        rest -= p;
        if (k < 12 && p * n < 5) continue;
        chi += (seen[k] - p * n) * (seen[k] - p * n) / (p * n > 0.5 ? p * n : 0.5);
    }
    ck_assert_msg(chi < 32.91, "lambda %g: chi-squared %g", lambda, chi);
}
END_TEST

/* Successive gaps, which come from different streams, and the gaps of one stream in successive
   batches do not depend on each other: correlation within 4 / sqrt(N). */
START_TEST(gaps_are_independent)
{
    struct random_streams r;
    struct geometric g;
    uint64_t gap[2][RANDOM_STREAMS];
    double lambda = 0.01, mean = 99, variance = 9900, next = 0, later = 0, n = 0;
    random_seed(&r, 300);
    geometric_set(&g, lambda);
    geometric_batch(&g, &r, gap[1]);
    for (unsigned k = 0; k < 10000; k++) {
        __builtin_memcpy(gap[0], gap[1], sizeof gap[0]);
        geometric_batch(&g, &r, gap[1]);
        for (unsigned i = 0; i + 1 < RANDOM_STREAMS; i++, n++) {
            next += ((double)gap[0][i] - mean) * ((double)gap[0][i + 1] - mean);
            later += ((double)gap[0][i] - mean) * ((double)gap[1][i] - mean);
        }
    }
    ck_assert_double_lt(fabs(next / n / variance), 4 / sqrt(n));
    ck_assert_double_lt(fabs(later / n / variance), 4 / sqrt(n));
}
END_TEST

/* The count for a huge block has the binomial mean and variance. */
START_TEST(counts_of_huge_blocks)
{
    struct random_streams r;
    struct geometric g;
    uint64_t words = (uint64_t)1 << 40;
    double lambda = 0.25, mean = lambda * (double)words, variance = mean * (1 - lambda);
    double sum = 0, squares = 0, n = 20000;
    random_seed(&r, 400);
    geometric_set(&g, lambda);
    for (unsigned i = 0; i < n; i++) {
        double d = (double)geometric_count(&g, &r, words) - mean;
        sum += d;
        squares += d * d;
    }
    ck_assert_double_lt(fabs(sum / n), 4 * sqrt(variance / n));
    ck_assert_double_lt(fabs(squares / n / variance - 1), 4 * sqrt(2 / n));
}
END_TEST

/* A program that traps on floating-point exceptions, rounds upwards, and looks at the sticky flags
   sees nothing of us; and it gets the same gaps. */
START_TEST(floating_point_environment_is_untouched)
{
    struct random_streams a, b;
    struct geometric g;
    uint64_t plain[RANDOM_STREAMS], gap[RANDOM_STREAMS];
    random_seed(&a, 3);
    random_seed(&b, 3);
    geometric_set(&g, ldexp(1, -60));
    geometric_batch(&g, &a, plain);
    feclearexcept(FE_ALL_EXCEPT);
    fesetround(FE_UPWARD);
    feenableexcept(FE_ALL_EXCEPT);
    geometric_batch(&g, &b, gap);
    geometric_count(&g, &b, 1000000007);
    int traps = fegetexcept(), round = fegetround();
    fedisableexcept(FE_ALL_EXCEPT);
    int raised = fetestexcept(FE_ALL_EXCEPT);
    fesetround(FE_TONEAREST);
    ck_assert_int_eq(raised, 0);
#ifdef __x86_64__
    ck_assert_int_eq(traps, FE_ALL_EXCEPT);
#else
    (void)traps; /* many arm cores cannot trap */
#endif
    ck_assert_int_eq(round, FE_UPWARD);
    ck_assert_mem_eq(plain, gap, sizeof gap);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("geometric");
    TCase *t = tcase_create("geometric");
    tcase_set_timeout(t, 300);
    tcase_add_test(t, logarithm_keeps_its_bound_for_every_input);
    tcase_add_test(t, log1m_agrees_with_libm);
    tcase_add_test(t, zero_and_one_are_exact);
    tcase_add_test(t, gaps_saturate);
    tcase_add_loop_test(t, mean_and_variance, 0, 7);
    tcase_add_loop_test(t, chi_squared, 0, 4);
    tcase_add_test(t, gaps_are_independent);
    tcase_add_test(t, counts_of_huge_blocks);
    tcase_add_test(t, floating_point_environment_is_untouched);
    suite_add_tcase(s, t);
    return suite_run(s);
}
