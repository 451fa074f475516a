/* test-between.c: the intervals of what changed between two profiles of one process hold the truth as often as they say, and see what
   large live memory that stays would hide.  Programs are drawn here: so many bytes of blocks of each of four fates, whose sample points
   are laid word by word as doc/estimator.md says, not by the sampler's code.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "profile_maker.h"
#include "random_number.h"
#include "report/profile_read.h"
#include "report/subtract.h"
#include "suite.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INTERVAL = 512 << 10, UNIT = 4096, SEEDS = 2000 };

/* What the blocks of one size do: live at both profiles; come in between and live; live at the first and go; come and go in between. */
struct fates {
    double stay, come, go, pass; /* MiB */
};

struct program {
    struct fates small, large;
    double since; /* MiB that the process allocates in between */
    double age;   /* MiB that it has allocated between the births of what stays and the first profile */
    bool forgets; /* ages were not kept */
    /* What the first profile has another of than the second: it is another process's. */
    enum { SAME, PROCESS, HOST, START, ADDRESS, COUNTS } unlike;
};

enum { SMALL = 1024, LARGE = 256 << 10 };

/* Points in so many MiB of words, each with the probability 8 / INTERVAL. */
static double draw_points(double mib)
{
    double words = floor(mib * MIB / 8), at = 0, points = 0, scale = log1p(-8. / INTERVAL);
    for (;; points++) {
        double u = ((double)(random_number() >> 11) + 0.5) / 9007199254740992.;
        at += 1 + floor(log(u) / scale);
        if (at > words) return points;
    }
}

static void add_sample(struct maker *maker, const uint64_t places[2], int64_t size, int64_t number, double allocated, double live)
{
    double bytes = INTERVAL, blocks = bytes / (double)size;
    maker_add(maker, &(struct maker_sample){.places = {places[0], places[1]},
                                            .values = {llround(allocated * blocks), llround(allocated * bytes), llround(live * blocks),
                                                       llround(live * bytes), 0, 0, 0, 0},
                                            .size = size,
                                            .alloc_points = (int64_t)allocated,
                                            .live_points = (int64_t)live,
                                            .source = "malloc",
                                            .labels = {{"site", number}}});
}

/* A row of lifetimes: nothing is said of deaths here. `old` points live and were born `age` units ago, `young` just now. */
static int put_row(char *to, size_t room, int64_t number, double young, double old, double age)
{
    unsigned step = 0;
    while (step < 39 && ldexp(1, (int)step) <= age) step++; /* octaves: doc/format.md */
    return snprintf(to, room, "[%ld,0,0,0,0,[],[],[0,%.0f],[0,%.0f,%u,%.0f]]", (long)number, young + old, young, step, old);
}

struct points {
    double stay, come, go, pass;
};

static struct points draw(const struct fates *fates)
{
    return (struct points){draw_points(fates->stay), draw_points(fates->come), draw_points(fates->go), draw_points(fates->pass)};
}

static struct profile *make(const struct program *program, const struct points *small, const struct points *large, bool after)
{
    struct maker *maker = maker_new(INTERVAL);
    const struct points *of[2] = {small, large};
    static const int64_t sizes[2] = {SMALL, LARGE};
    char text[2048], problem[PROBLEM_BYTES];
    double seconds = after ? 600 : 0, units = (program->age + (after ? program->since : 0)) * MIB / UNIT;
    int unlike = after ? SAME : program->unlike;
    maker_time(maker, (int64_t)((1790000000 + seconds) * 1e9), (int64_t)((1000 + seconds) * 1e9));
    snprintf(text, sizeof text,
             "#gleaner:{\"version\":1,\"pid\":%d,\"command\":\"server\",\"host\":\"%s\",\"time\":%.1f,\"start_time\":1789999000.0,"
             "\"totals\":{\"live\":{\"objects\":0,\"bytes\":0}}}",
             unlike == PROCESS ? 78 : 77, unlike == HOST ? "there" : "here", 1790000000 + seconds);
    maker_comment(maker, text);
    int length = snprintf(text, sizeof text, "#gleaner-lifetimes:{\"version\":1,\"steps\":[64,4096],\"observed\":[%.0f,%.0f],\"dropped\":%d,"
                          "\"sites\":[",
                          (unlike == START ? 990 : 1000 + seconds) * 64, floor(units), program->forgets);
    uint64_t slide = unlike == ADDRESS ? 0x1000 : 0;
    uint64_t module = maker_module(maker, 0x400000 + slide, 0x500000 + slide, 0, "/bin/server", "aaaaaaaa");
    uint64_t places[2] = {maker_place(maker, module, 0x400100 + slide), maker_place(maker, module, 0x400200 + slide)};
    for (int i = 0; i < 2; i++) {
        const struct points *p = of[i];
        double allocated = p->stay + p->go + (after ? p->come + p->pass : 0), old = after ? p->stay : p->stay + p->go;
        double young = after ? p->come : 0;
        if (unlike == COUNTS) allocated += p->come + p->pass + 1;
        add_sample(maker, places, sizes[i], 1 + i, allocated, old + young);
        length += put_row(text + length, sizeof text - (size_t)length, 1 + i, young, old, units);
        length += snprintf(text + length, sizeof text - (size_t)length, i ? "]}" : ",");
    }
    maker_comment(maker, text);
    struct bytes bytes;
    bytes.at = maker_bytes(maker, false, &bytes.length);
    maker_free(maker);
    struct profile *profile = profile_parse("made", bytes, problem);
    ck_assert_msg(profile, "%s", problem);
    model_unfold(profile);
    return profile;
}

/* In how many of 100 cases. */
struct found {
    double holds_bytes, holds_objects, holds_allocated, grew, shrank;
    double width; /* of the interval of bytes, on average: MiB */
};

static bool holds(const struct estimate *e, double truth)
{
    ck_assert(e->lo <= e->value && e->value <= e->hi);
    return e->lo <= truth && truth <= e->hi;
}

static struct found try_seeds(const struct program *program, int seeds)
{
    struct found found = {0};
    double small = (program->small.come - program->small.go) * MIB, large = (program->large.come - program->large.go) * MIB;
    double came = program->small.come + program->small.pass + program->large.come + program->large.pass;
    for (int seed = 1; seed <= seeds; seed++) {
        random_state = (uint64_t)seed * 0x9e3779b97f4a7c15u;
        for (int i = 0; i < 8; i++) random_number();
        struct points points[2] = {draw(&program->small), draw(&program->large)};
        struct profile *older = make(program, &points[0], &points[1], false), *newer = make(program, &points[0], &points[1], true);
        struct profile *difference = profile_subtract(newer, older);
        ck_assert_uint_eq(difference->site_count, 1);
        const struct figure *live = &difference->sites[0].figures[MEASURE_LIVE], *all = &difference->sites[0].figures[MEASURE_ALLOC];
        ck_assert_double_eq(live->bytes.value, (points[0].come - points[0].go + points[1].come - points[1].go) * INTERVAL);
        const double share = 100. / seeds;
        found.holds_bytes += share * holds(&live->bytes, small + large);
        found.holds_objects += share * holds(&live->objects, small / SMALL + large / LARGE);
        found.holds_allocated += share * holds(&all->bytes, came * MIB);
        found.grew += share * (live->bytes.lo > 0);
        found.shrank += share * (live->bytes.hi < 0);
        found.width += (live->bytes.hi - live->bytes.lo) / MIB / seeds;
        profile_free(difference);
        profile_free(newer);
        profile_free(older);
    }
    if (getenv("GLEANER_TEST_PRINT"))
        printf("bytes %.2f objects %.2f allocated %.2f grew %.2f shrank %.2f width %.2f MiB\n", found.holds_bytes, found.holds_objects,
               found.holds_allocated, found.grew, found.shrank, found.width);
    return found;
}

static struct found try(const struct program *program)
{
    return try_seeds(program, SEEDS);
}

/* 95, less three deviations of so many tries. */
static const double SURE = 95 - 3 * 0.4873;

static void expect_right(const struct found *found)
{
    ck_assert_double_ge(found->holds_bytes, SURE);
    ck_assert_double_ge(found->holds_objects, SURE);
    ck_assert_double_ge(found->holds_allocated, SURE);
}

/* 1 GiB that stays, 20 MiB that come: 40 points among 2048 and their noise of 45.  Found, and not by much more than its own noise. */
START_TEST(small_growth_beside_much_that_stays)
{
    struct program program = {.small = {.stay = 1024, .come = 20}, .since = 20, .age = 1024};
    struct found found = try(&program);
    expect_right(&found);
    ck_assert_double_le(found.holds_bytes, 98.5);
    ck_assert_double_ge(found.grew, 99.9);
    /* Garwood's interval of 40 points is 25.9 wide; 0 to 3.7 that may have gone add little. */
    ck_assert_double_le(found.width, 15);
}
END_TEST

/* What stays has samples of its own in each process. */
START_TEST(two_processes)
{
    struct program program = {.small = {.stay = 1024, .come = 20}, .since = 20, .age = 1024};
    struct found same = try_seeds(&program, 10);
    ck_assert_double_le(same.width, 15);
    for (program.unlike = PROCESS; program.unlike <= COUNTS; program.unlike++) {
        struct found apart = try_seeds(&program, 10);
        /* 1.96 √2048 points to either side of each, √2 times that of the difference: 251 points of half a MiB. */
        ck_assert_msg(fabs(apart.width - 126) < 5, "%d: %f", program.unlike, apart.width);
    }
}
END_TEST

/* As much goes as comes: no more than one in 40 is called growth, nor shrinking. */
START_TEST(no_growth)
{
    static const double amounts[] = {0, 1, 3, 10, 40};
    for (size_t i = 0; i < sizeof amounts / sizeof *amounts; i++) {
        struct program program = {.small = {.stay = 512, .come = amounts[i], .go = amounts[i]}, .since = amounts[i], .age = 1024};
        struct found found = try(&program);
        expect_right(&found);
        ck_assert_double_le(found.grew, 2.5 + 3 * 0.35);
        ck_assert_double_le(found.shrank, 2.5 + 3 * 0.35);
    }
}
END_TEST

/* Most die young: what came in between is far more than what grew.  Ages tell them apart, and where they were not kept the interval is that
   of what lives. */
START_TEST(growth_beside_churn)
{
    struct program program = {.small = {.stay = 256, .come = 20, .go = 2, .pass = 1024}, .since = 1100, .age = 5000};
    struct found found = try(&program);
    expect_right(&found);
    ck_assert_double_ge(found.grew, 99);
    program.forgets = true;
    struct found without = try(&program);
    expect_right(&without);
    ck_assert_double_gt(without.width, 2 * found.width);
    /* What stays was born shortly before: the step of its ages is that of what came. */
    program = (struct program){.small = {.stay = 256, .come = 20, .go = 2, .pass = 1024}, .since = 1100, .age = 10};
    found = try(&program);
    expect_right(&found);
}
END_TEST

/* Blocks of several sizes, as large as half of the interval among them; few points. */
START_TEST(sizes_and_few_points)
{
    static const struct program programs[] = {
        {.small = {.stay = 64, .come = 8, .go = 3, .pass = 30}, .large = {.stay = 300, .come = 5, .go = 9, .pass = 40}, .since = 90, .age = 400},
        {.small = {.stay = 100, .come = 1}, .since = 1, .age = 100},
        {.small = {.come = 2, .go = 1}, .since = 2, .age = 1},
        {.small = {.stay = 10, .go = 4}, .large = {.stay = 100, .come = 3}, .since = 3, .age = 300},
        {.large = {.stay = 100, .go = 50}, .since = 0, .age = 300},
    };
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        struct found found = try(&programs[i]);
        expect_right(&found);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("between");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 300);
    tcase_add_test(tests, small_growth_beside_much_that_stays);
    tcase_add_test(tests, two_processes);
    tcase_add_test(tests, no_growth);
    tcase_add_test(tests, growth_beside_churn);
    tcase_add_test(tests, sizes_and_few_points);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
