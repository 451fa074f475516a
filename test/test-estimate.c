/* test-estimate.c: the intervals against tail sums of the Poisson and binomial distributions.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "sampler/estimate.h"
#include "suite.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

/* P(N <= n) of a Poisson variable, summed term by term. */
static double poisson_at_most(int n, double mean)
{
    double sum = 0;
    for (int k = 0; k <= n; k++) sum += exp(k * log(mean) - mean - lgamma(k + 1.0));
    return sum;
}

/* With a huge interval lambda is nothing and the limits are Garwood's: each tail has 2.5 %. */
START_TEST(tails_hold_two_and_a_half_per_cent)
{
    uint64_t interval = (uint64_t)1 << 40;
    for (int n = 0; n <= 400; n++) {
        struct estimate e = estimate_bytes((uint64_t)n, interval);
        double lo = e.lo / (double)interval, hi = e.hi / (double)interval;
        double tolerance = n <= 9 ? 1e-6 : 3e-4;
        ck_assert_double_eq(e.value, (double)n * (double)interval);
        ck_assert_double_eq_tol(poisson_at_most(n, hi), 0.025, tolerance);
        if (n == 0)
            ck_assert_double_eq(lo, 0);
        else
            ck_assert_double_eq_tol(1 - poisson_at_most(n - 1, lo), 0.025, tolerance);
    }
}
END_TEST

START_TEST(every_word_is_exact)
{
    for (uint64_t n = 0; n < 1000; n += 7) {
        struct estimate e = estimate_bytes(n, 8), f = estimate_objects(n, 1, 16);
        ck_assert(e.value == 8.0 * (double)n && e.lo == e.value && e.hi == e.value);
        ck_assert(f.value == (double)n / 2 && f.lo == f.value && f.hi == f.value);
    }
}
END_TEST

/* The probability that the interval holds the true number of words, summed over all n that have
   one: no simulation. */
static double coverage(int words, uint64_t interval)
{
    double lambda = 8.0 / (double)interval, sum = 0;
    for (int n = 0; n <= words; n++) {
        double p = exp(lgamma(words + 1.0) - lgamma(n + 1.0) - lgamma(words - n + 1.0) +
                       n * log(lambda) + (words - n) * log1p(-lambda));
        struct estimate e = estimate_bytes((uint64_t)n, interval);
        ck_assert(e.lo <= e.value && e.value <= e.hi);
        if (e.lo <= words * 8.0 && words * 8.0 <= e.hi) sum += p;
    }
    return sum;
}

START_TEST(truth_is_covered)
{
    static const uint64_t intervals[] = {800, 80, 40, 16, 10};
    uint64_t interval = intervals[_i];
    for (int words = 1; words < 3000; words = words + words / 5 + 1) {
        double c = coverage(words, interval);
        /* Garwood's is at least 95 %; shrinking it by the variance, which is an approximation, may
           cost a few per cent where only a handful of outcomes are likely at all. */
        double least = interval >= 80 ? 0.94 : 0.90;
        ck_assert_msg(c >= least, "%d words at %lu: %g", words, (unsigned long)interval, c);
        /* And it is not so wide that it says nothing. */
        double mean = words * 8.0 / (double)interval;
        if (mean * (1 - 8.0 / (double)interval) > 20)
            ck_assert_msg(c <= 0.975, "%d words at %lu: %g", words, (unsigned long)interval, c);
    }
}
END_TEST

START_TEST(objects_are_bytes_by_size)
{
    struct estimate b = estimate_bytes(17, 524288), o = estimate_objects(17, 524288, 96);
    ck_assert_double_eq_tol(o.value, b.value / 96, 1e-9 * o.value);
    ck_assert_double_eq_tol(o.lo, b.lo / 96, 1e-9 * o.value);
    ck_assert_double_eq_tol(o.hi, b.hi / 96, 1e-9 * o.value);
}
END_TEST

/* Equal weights give back the plain interval; a sum of unequal ones is wider than if all points had
   the mean weight. */
START_TEST(sums_of_unequal_weights)
{
    double w = 1000;
    struct estimate plain = estimate_bytes(25, 1000),
                    sum = estimate_sum(25 * w, 25 * w * w, w, 1000);
    ck_assert_double_eq_tol(plain.value, sum.value, 1e-6);
    ck_assert_double_eq_tol(plain.lo, sum.lo, 1e-6 * plain.lo);
    ck_assert_double_eq_tol(plain.hi, sum.hi, 1e-6 * plain.hi);
    struct estimate mixed =
        estimate_sum(24 * 500 + 13000, 24 * 500.0 * 500 + 13000.0 * 13000, 13000, 1000);
    ck_assert_double_eq_tol(mixed.value, 25000, 1e-6);
    ck_assert_double_lt(mixed.lo, plain.lo);
    ck_assert_double_gt(mixed.hi, plain.hi);
    struct estimate none = estimate_sum(0, 0, 7, (uint64_t)1 << 40);
    ck_assert_double_eq(none.value, 0);
    ck_assert_double_eq(none.lo, 0);
    ck_assert_double_eq_tol(none.hi, -log(0.025) * 7, 1e-5); /* P(N = 0) = exp(-hi) */
}
END_TEST

START_TEST(square_root_agrees_with_libm)
{
    ck_assert_double_eq(estimate_square_root(0), 0);
    ck_assert_double_eq(estimate_square_root(-1), 0);
    for (double x = 1e-12; x < 1e25; x *= 1.37)
        ck_assert_double_eq_tol(estimate_square_root(x) / sqrt(x), 1, 1e-15);
}
END_TEST

/* The limits solve the continuity-corrected score equation |p - limit| - 1/2n = z sqrt(limit (1 - limit) / n), found here by bisection;
   and the four examples of Newcombe's table I, as far as it prints them. */
static double score(double limit, double p, double n)
{
    return fabs(p - limit) - 0.5 / n - 1.959963984540054 * sqrt(limit * (1 - limit) / n);
}

static double solve(double inside, double outside, double p, double n)
{
    for (int i = 0; i < 200; i++) {
        double middle = (inside + outside) / 2;
        *(score(middle, p, n) < 0 ? &inside : &outside) = middle;
    }
    return inside;
}

START_TEST(shares)
{
    static const struct {
        double part, n, lo, hi;
    } table[] = {{81, 263, 0.2535, 0.3682},
                 {15, 148, 0.0598, 0.1644},
                 {0, 20, 0, 0.2005},
                 {1, 29, 0.0018, 0.1963}};
    for (int i = 0; i < 4; i++) {
        struct estimate e = estimate_share(table[i].part / table[i].n, table[i].n);
        ck_assert_double_eq_tol(e.lo, table[i].lo, 6e-5);
        ck_assert_double_eq_tol(e.hi, table[i].hi, 6e-5);
    }
    for (int n = 1; n <= 200; n += n < 20 ? 1 : 13)
        for (int k = 0; k <= n; k++) {
            double p = (double)k / n;
            struct estimate e = estimate_share(p, n);
            ck_assert(0 <= e.lo && e.lo <= p && p <= e.hi && e.hi <= 1);
            if (k > 0) ck_assert_double_eq_tol(e.lo, solve(p, 0, p, n), 1e-9);
            if (k < n) ck_assert_double_eq_tol(e.hi, solve(p, 1, p, n), 1e-9);
        }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("estimate");
    TCase *t = tcase_create("estimate");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, shares);
    tcase_add_test(t, tails_hold_two_and_a_half_per_cent);
    tcase_add_test(t, every_word_is_exact);
    tcase_add_loop_test(t, truth_is_covered, 0, 5);
    tcase_add_test(t, objects_are_bytes_by_size);
    tcase_add_test(t, sums_of_unequal_weights);
    tcase_add_test(t, square_root_agrees_with_libm);
    suite_add_tcase(s, t);
    return suite_run(s);
}
