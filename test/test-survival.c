/* test-survival.c: survival curves against values computed by hand, and the verdicts on made programs whose growth is known.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "report/lifetime.h"
#include "suite.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double died[LIFETIME_TIMES], live[LIFETIME_TIMES];

static void near(double got, double expected)
{
    ck_assert_msg(fabs(got - expected) < 1e-9, "%.12g, not %.12g", got, expected);
}

/* The example of Kaplan and Meier's paper (section 2): deaths at 0.8, 3.1, 5.4, 9.2 months, losses at 1.0, 2.7, 7.0, 12.1. */
START_TEST(the_paper_s_example)
{
    static const double ages[8] = {0.8, 1.0, 2.7, 3.1, 5.4, 7.0, 9.2, 12.1};
    static const bool death[8] = {true, false, false, true, true, false, true, false};
    static const double share[8] = {7 / 8., 7 / 8., 7 / 8., 0.7, 0.525, 0.525, 0.2625, 0.2625};
    static const double at_risk[8] = {8, 7, 6, 5, 4, 3, 2, 1};
    struct survival s;
    memset(died, 0, sizeof died);
    memset(live, 0, sizeof live);
    (void)ages; /* only their order counts: one step each, with steps between */
    for (int i = 0; i < 8; i++) (death[i] ? died : live)[10 + 3 * i] = 1;
    survival_make(&s, &survival_times, died, live, 1e6);
    for (int i = 0; i < 8; i++) {
        near(s.after[10 + 3 * i], share[i]);
        near(s.at_risk[10 + 3 * i], at_risk[i]);
        near(s.before[10 + 3 * i + 1], share[i]); /* nothing happens between */
    }
    near(survival_share(&s, (double)lifetime_time_least(10)).value, 1);
    near(survival_share(&s, (double)lifetime_time_least(11)).value, 7 / 8.);
    near(survival_share(&s, (double)lifetime_time_least(20)).value, 0.7);
    /* Inside a step deaths are spread evenly: step 19 goes from 0.875 to 0.7. */
    near(survival_share(&s, ((double)lifetime_time_least(19) + (double)lifetime_time_least(20)) / 2).value,
         (0.875 + 0.7) / 2);
    /* The median is in step 28, where the curve falls from 0.525 to 0.2625: at 0.025 / 0.2625 of it. */
    double start = (double)lifetime_time_least(28), end = (double)lifetime_time_least(29);
    near(survival_median(&s), start + (end - start) * 0.025 / 0.2625);
    /* Older than anything that was seen: not known. */
    ck_assert(isnan(survival_share(&s, (double)lifetime_time_least(10 + 3 * 7 + 1)).value));
}
END_TEST

/* Deaths and what lives in one step: who lives counts as at risk. */
START_TEST(ties)
{
    struct survival s;
    memset(died, 0, sizeof died);
    memset(live, 0, sizeof live);
    died[5] = 3;
    live[5] = 1;
    died[6] = 2;
    live[6] = 2;
    survival_make(&s, &survival_times, died, live, 1000);
    near(s.after[5], 5 / 8.);
    near(s.after[6], 5 / 8. * 2 / 4);
    near(survival_median(&s), lifetime_time_least(6) + (5 / 8. - 0.5) / (5 / 16.));
}
END_TEST

START_TEST(ends_of_curves)
{
    struct survival s;
    memset(died, 0, sizeof died);
    memset(live, 0, sizeof live);
    survival_make(&s, &survival_times, died, live, 1000);
    ck_assert(isnan(survival_share(&s, 0).value) && isnan(survival_median(&s))); /* nothing was seen */
    died[0] = 10;
    survival_make(&s, &survival_times, died, live, 1000);
    near(survival_share(&s, 500).value, 0); /* all are dead, for good */
    near(survival_share(&s, 1e9).value, 0);
    near(survival_median(&s), 0.5);
    memset(died, 0, sizeof died);
    live[10] = 10;
    survival_make(&s, &survival_times, died, live, 1000);
    near(survival_share(&s, (double)lifetime_time_least(10)).value, 1);
    ck_assert(isnan(survival_share(&s, 2000).value) && isnan(survival_median(&s)));
    /* The last step goes as far as the observation. */
    died[LIFETIME_TIMES - 1] = 10;
    double start = (double)lifetime_time_least(LIFETIME_TIMES - 1);
    survival_make(&s, &survival_times, died, live, 3 * start);
    near(survival_share(&s, 2 * start).value, 0.5);
    near(survival_median(&s), 2 * start);
}
END_TEST

/* Exact figures have no interval; of samples Peto's variance: 100 points at the start, 40 of them died: a share of 0.6
   with an effective number of 60 / 0.6. */
START_TEST(intervals)
{
    struct survival s;
    memset(died, 0, sizeof died);
    memset(live, 0, sizeof live);
    died[5] = 40 * 64;
    live[20] = 60 * 64;
    survival_make(&s, &survival_times, died, live, 1000);
    struct estimate e = survival_share(&s, (double)lifetime_time_least(10));
    near(e.value, 0.6);
    near(e.lo, 0.6);
    near(e.hi, 0.6);
    s.points = 1 / 64.;
    e = survival_share(&s, (double)lifetime_time_least(10));
    struct estimate expected = estimate_share(0.6, 100);
    near(e.value, 0.6);
    near(e.lo, expected.lo);
    near(e.hi, expected.hi);
    ck_assert(e.lo > 0.49 && e.lo < 0.51 && e.hi > 0.68 && e.hi < 0.71);
}
END_TEST

/* ---- verdicts ---- */

static struct profile profile;
static struct site site;
static struct lifetime life;
static struct lifetimes all;

static void begin(bool exact, double ticks)
{
    memset(&life, 0, sizeof life);
    memset(&site, 0, sizeof site);
    profile = (struct profile){.exact = exact, .period = exact ? 8 : 524288, .lifetimes = &all};
    profile.has[MEASURE_LOST] = true;
    all = (struct lifetimes){.tick = 1. / LIFETIME_TICKS, .unit = (double)LIFETIME_UNIT, .observed_time = ticks};
    site.lifetime = &life;
    site.figures[MEASURE_LOST].bytes = exactly(0);
}

#define END 64000. /* 1000 s */

/* A block of 64 bytes that was born at a tick, and lives so long. */
static void block(double born, double age)
{
    bool dead = born + age <= END;
    double *to = dead ? life.died_time : life.live_time;
    to[lifetime_time_bucket((uint64_t)(dead ? age : END - born))] += 64;
    life.points += 1;
    life.blocks += 1;
}

static uint64_t state = 1;
static double uniform(void) /* in (0, 1) */
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return ((double)(state >> 12) + 0.5) / 0x1p52;
}

static enum verdict verdict(void)
{
    return lifetime_verdict(&profile, &site);
}

enum { MANY = 20000 };

START_TEST(a_cache_that_grows)
{
    begin(true, END);
    for (int i = 0; i < MANY; i++) block(uniform() * END, INFINITY);
    struct lifetime_growth g = lifetime_growth(&profile, &site);
    ck_assert(fabs(g.came / 64 - MANY / 2) < 4 * sqrt(MANY / 4)); /* half of them, binomial, and steps that were cut */
    near(g.came + g.before, 64. * MANY);
    near(g.went, 0);
    ck_assert_int_eq(verdict(), VERDICT_GROWING);
    /* A tenth of what it takes stays, the rest goes at once. */
    begin(true, END);
    for (int i = 0; i < MANY; i++) block(uniform() * END, uniform() < 0.1 ? INFINITY : 5);
    ck_assert_int_eq(verdict(), VERDICT_GROWING);
    site.figures[MEASURE_LOST].bytes = exactly(64);
    ck_assert_int_eq(verdict(), VERDICT_LOST);
}
END_TEST

/* What does not grow, over and over: three deviations are passed by one in 700, so in 200 trials of each kind five and more are no chance. */
START_TEST(what_is_steady_does_not_grow)
{
    static const double part[] = {0.6, 0.3, 0.1, 0.01};
    unsigned growing[4] = {0};
    for (unsigned trial = 0; trial < 200; trial++)
        for (unsigned kind = 0; kind < 4; kind++) {
            begin(true, END);
            for (int i = 0; i < 2000; i++) {
                double age = -log(uniform()) * part[kind] * END; /* a random victim is evicted */
                /* From long before, so that births and deaths are even; those before the start were never seen. */
                block(uniform() * END, age);
            }
            /* Until a cache is full it does grow: what it held at the start lives on like the rest. */
            for (int i = 0; i < 2000 * part[kind]; i++) block(0, -log(uniform()) * part[kind] * END);
            growing[kind] += verdict() == VERDICT_GROWING;
        }
    for (unsigned kind = 0; kind < 4; kind++)
        ck_assert_msg(growing[kind] < 5, "%u of 200 at a mean age of %g of the time", growing[kind], part[kind]);
}
END_TEST

START_TEST(a_ring_that_is_full_does_not_grow)
{
    begin(true, END);
    for (int i = 0; i < MANY; i++) block(i * END / MANY, 0.05 * END);
    ck_assert_int_eq(verdict(), VERDICT_SHORT); /* each lives a twentieth of the time */
    begin(true, END);
    for (int i = 0; i < MANY; i++) block(i * END / MANY, 0.2 * END);
    ck_assert_int_eq(verdict(), VERDICT_STEADY);
}
END_TEST

START_TEST(waves_tables_and_late_starts)
{
    begin(true, END); /* all at the start, for ever */
    for (int i = 0; i < MANY; i++) block(uniform() * 0.01 * END, INFINITY);
    ck_assert_int_eq(verdict(), VERDICT_STEADY);
    begin(true, END); /* filled and emptied ten times, and full now */
    for (int wave = 0; wave < 10; wave++)
        for (int i = 0; i < 1000; i++) {
            double born = (wave + 0.9 * uniform()) * END / 10;
            block(born, (wave + 1) * END / 10 - born + (wave == 9));
        }
    ck_assert_int_ne(verdict(), VERDICT_GROWING);
    begin(true, END); /* replaced at 0.3 and 0.6 of the time */
    for (int wave = 0; wave < 3; wave++)
        for (int i = 0; i < 1000; i++) block(wave * 0.3 * END, wave == 2 ? INFINITY : 0.3 * END);
    ck_assert_int_ne(verdict(), VERDICT_GROWING);
    begin(true, END); /* has begun only now */
    for (int i = 0; i < MANY; i++) block((0.9 + 0.1 * uniform()) * END, INFINITY);
    ck_assert_int_ne(verdict(), VERDICT_GROWING);
    begin(true, END); /* dies at once */
    for (int i = 0; i < MANY; i++) block(uniform() * END, 0);
    ck_assert_int_eq(verdict(), VERDICT_SHORT);
}
END_TEST

/* Nine points that came in the later half are three deviations, and no more; large blocks count once however many points they have. */
START_TEST(few_samples_are_no_growth)
{
    for (int points = 5; points <= 40; points++) {
        begin(false, END);
        for (int i = 0; i < points; i++) block((i + 0.5) * END / points, INFINITY);
        if (points <= 16) ck_assert_int_eq(verdict(), VERDICT_STEADY);
        if (points >= 24) ck_assert_int_eq(verdict(), VERDICT_GROWING);
    }
    begin(false, END);
    for (int i = 0; i < 40; i++) block((i + 0.5) * END / 40, INFINITY);
    life.blocks = 4; /* of ten points each */
    ck_assert_int_eq(verdict(), VERDICT_STEADY);
}
END_TEST

START_TEST(young_processes_are_judged_by_bytes)
{
    begin(true, 32); /* half a second */
    all.observed_span = 1 << 14;
    for (int i = 0; i < MANY; i++) {
        life.live_span[lifetime_span_bucket((uint64_t)(uniform() * (1 << 14)))] += 64;
        life.blocks += 1;
        life.live_time[0] += 64;
    }
    ck_assert_int_eq(verdict(), VERDICT_GROWING);
    all.observed_span = 2; /* nothing can be said */
    ck_assert_int_eq(verdict(), VERDICT_STEADY);
    site.lifetime = NULL;
    ck_assert_int_eq(verdict(), VERDICT_NONE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("survival");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, the_paper_s_example);
    tcase_add_test(t, ties);
    tcase_add_test(t, ends_of_curves);
    tcase_add_test(t, intervals);
    tcase_add_test(t, a_cache_that_grows);
    tcase_add_test(t, what_is_steady_does_not_grow);
    tcase_add_test(t, a_ring_that_is_full_does_not_grow);
    tcase_add_test(t, waves_tables_and_late_starts);
    tcase_add_test(t, few_samples_are_no_growth);
    tcase_add_test(t, young_processes_are_judged_by_bytes);
    suite_add_tcase(suite, t);
    return suite_run(suite);
}
