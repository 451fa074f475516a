/* test-lifetime-report.c: what `report --show survival` and the JSON say of a profile that is made here, against a table written by hand; and
   that lifetimes of another shape are refused.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "command.h"
#include "profile_maker.h"
#include "suite.h"
#include "report/basics.h"
#include "report/lifetime.h"
#include "report/profile_read.h"

#include <check.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* After 100 s (6400 ticks) and 2 GiB (524288 units), of sites:
     1  400 blocks that live: 200 in the step from 1536 ticks (24 s) and 1 MiB, 200 in that from 4096 ticks (64 s) and 128 MiB
     2  1000 that died in the first step, 100 of them old, 50 freed elsewhere
     3  100: 60 died in the step from 64 to 80 ticks (1 to 1.25 s) and of 1 MiB, 40 live at 1536 ticks and 128 MiB
     4  10 that are lost */
#define ROWS                                                                                                    \
    "[1,0,0,0,400,[],[],[38,200,44,200],[9,200,16,200]],"                                                       \
    "[2,900,100,50,0,[0,1000],[0,1000],[],[]],"                                                                 \
    "[3,60,0,0,40,[20,60],[9,60],[38,40],[16,40]],"                                                             \
    "[4,0,0,0,10,[],[],[44,10],[16,10]]"
#define COMMENT(rows) "#gleaner-lifetimes:{\"version\":1,\"steps\":[64,4096],\"observed\":[6400,524288],\"dropped\":0,\"sites\":[" rows "]}"

static struct maker *made(int64_t period, int majors, const char *comment, const char *second)
{
    struct maker *maker = maker_new(period);
    char head[512];
    snprintf(head, sizeof head,
             "#gleaner:{\"version\":1,\"pid\":77,\"command\":\"server\",\"reason\":\"exit\","
             "\"totals\":{\"alloc\":{\"objects\":1511,\"bytes\":79240},\"live\":{\"objects\":451,\"bytes\":46280},"
             "\"lost\":{\"objects\":10,\"bytes\":640}},\"collections\":{\"minor\":0,\"major\":%d,\"incomplete\":0}}",
             majors);
    maker_comment(maker, head);
    if (comment) maker_comment(maker, comment);
    if (second) maker_comment(maker, second);
    maker_time(maker, 1790000000500000000, 100000000000);
    uint64_t program = maker_module(maker, 0x400000, 0x500000, 0, "/bin/server", "aaaaaaaa");
    static const struct {
        const char *function;
        int64_t blocks, live, size;
    } sites[] = {{"cache_add", 400, 400, 100}, {"parse", 1000, 0, 32}, {"queue", 100, 40, 16}, {"forget", 10, 10, 64},
                 {"unknown", 1, 1, 5000}};
    uint64_t start = maker_place(maker, program, 0x400300);
    maker_line(maker, start, "main", "server.c", 300);
    for (int i = 0; i < 5; i++) {
        uint64_t place = maker_place(maker, program, 0x400000 + 16 * (uint64_t)(i + 1));
        maker_line(maker, place, sites[i].function, "cache.c", 10 + i);
        maker_add(maker, &(struct maker_sample){.places = {place, start},
                                                .values = {sites[i].blocks, sites[i].blocks * sites[i].size, sites[i].live,
                                                           sites[i].live * sites[i].size},
                                                .size = sites[i].size,
                                                .alloc_points = sites[i].blocks,
                                                .live_points = sites[i].live,
                                                .source = "malloc",
                                                .labels = {{"site", i + 1}}});
        if (i == 3)
            maker_add(maker, &(struct maker_sample){.places = {place, start},
                                                    .values = {0, 0, 0, 0, 10, 640},
                                                    .size = 64,
                                                    .lost = "direct",
                                                    .labels = {{"misses", 1}}});
    }
    return maker;
}

static struct ran report_of(struct maker *maker, const char *a, const char *b, const char *c)
{
    maker_write(maker, in_folder("made.pb.gz"));
    maker_free(maker);
    return run_program((const char *[]){gleaner(), "report", in_folder("made.pb.gz"), a, b, c, NULL});
}

START_TEST(table)
{
    static const char expected[] =
        "==77==Gleaner: heap profile of server\n"
        "    taken 2026-09-21 14:13:20 (exit), after 100.0 s; every block was recorded\n"
        "    observed for 100 s, in which 2.0 GiB were allocated\n"
        "\n"
        "Survival by call stack, of bytes\n"
        "\n"
        "verdict           live  allocated   died promoted   died    median | alive after                 | alive after allocating\n"
        "                                   young             old       age |    1 s   10 s   60 s 10 min |  1 MiB 64 MiB  1 GiB\n"
        "\n"
        "growing       39.1 KiB   39.1 KiB     0%     100%     0%     >64 s |   100%   100%   100%      - |   100%   100%      -\n"
        "      cache_add cache.c:10 < main\n"
        "\n"
        "-              4.9 KiB    4.9 KiB      -        -      -         - |      -      -      -      - |      -      -      -\n"
        "      unknown cache.c:14 < main\n"
        "\n"
        "short-lived      640 B    1.6 KiB    60%      40%     0%    1.21 s |   100%    40%      -      - |   100%    40%      -\n"
        "      queue cache.c:12 < main\n"
        "\n"
        "lost             640 B      640 B     0%     100%     0%     >64 s |   100%   100%   100%      - |   100%   100%      -\n"
        "      forget cache.c:13 < main\n"
        "\n"
        "short-lived        0 B   31.2 KiB    90%      10%    10%    <16 ms |     0%     0%     0%     0% |     0%     0%     0%\n"
        "      parse cache.c:11 < main\n"
        "\n"
        "Together: 1 growing (39.1 KiB live), 1 lost (640 B live), 0 steady (0 B live), 2 short-lived (640 B live)\n";
    struct ran ran = report_of(made(8, 1, COMMENT(ROWS), NULL), "--show=survival", NULL, NULL);
    ck_assert_msg(ran.status == 0, "%s", ran.err);
    ck_assert_str_eq(ran.out, expected);
    ran_free(&ran);
}
END_TEST

START_TEST(table_of_the_first)
{
    struct ran ran = report_of(made(8, 1, COMMENT(ROWS), NULL), "--show=survival", "--top", "1");
    expect_part(ran.out, "cache_add");
    expect_no_part(ran.out, "parse");
    expect_part(ran.out, "… and 4 more (--top 0 shows all)");
    expect_part(ran.out, "2 short-lived"); /* all are counted */
    ran_free(&ran);
}
END_TEST

static json_t *lifetime_of(json_t *report, const char *function)
{
    size_t i;
    json_t *site;
    json_array_foreach(json_object_get(report, "sites"), i, site)
    {
        json_t *frame = json_array_get(json_object_get(site, "stack"), 0);
        if (!strcmp(json_string_value(json_object_get(frame, "function")), function))
            return json_object_get(site, "lifetime");
    }
    ck_abort_msg("no %s", function);
}

static double number(const json_t *from, const char *key, const char *sub)
{
    from = json_object_get(from, key);
    if (sub) from = json_object_get(from, sub);
    ck_assert_msg(json_is_number(from), "%s", key);
    return json_number_value(from);
}

static json_t *json_of(struct ran *ran)
{
    json_error_t error;
    ck_assert_msg(ran->status == 0, "%s", ran->err);
    json_t *report = json_loads(ran->out, 0, &error);
    ck_assert_msg(report != NULL, "%s", error.text);
    ran_free(ran);
    return report;
}

START_TEST(in_json)
{
    struct ran ran = report_of(made(8, 1, COMMENT(ROWS), NULL), "--show=survival", "--format", "json");
    json_t *report = json_of(&ran);
    ck_assert_str_eq(json_string_value(json_object_get(report, "shown")), "survival");
    ck_assert_double_eq(number(json_object_get(report, "observed"), "seconds", NULL), 100);
    ck_assert_double_eq(number(json_object_get(report, "observed"), "bytes", NULL), 0x1p31);
    json_t *cache = lifetime_of(report, "cache_add"), *queue = lifetime_of(report, "queue"), *parse = lifetime_of(report, "parse");
    ck_assert_str_eq(json_string_value(json_object_get(cache, "verdict")), "growing");
    ck_assert_double_eq(number(cache, "promoted", "objects"), 400);
    ck_assert(json_is_null(json_object_get(cache, "median_age_s")));
    ck_assert_double_eq(number(cache, "growth", "came_bytes"), 20000);
    ck_assert_double_eq(number(cache, "growth", "before_bytes"), 20000);
    ck_assert_double_eq(number(cache, "growth", "deviation_bytes"), 1414); /* sqrt(200) blocks of 100 bytes */
    ck_assert_double_eq(number(parse, "young_deaths", "objects"), 900);
    ck_assert_double_eq(number(parse, "old_deaths", "bytes"), 3200);
    ck_assert_double_eq(number(parse, "promoted", "objects"), 100);
    ck_assert_double_eq(number(parse, "deaths_elsewhere", "objects"), 50);
    /* 0.5 is passed at 5/6 of the step from 64 to 80 ticks, and of that from 1 to 2 MiB. */
    ck_assert_double_eq_tol(number(queue, "median_age_s", NULL), (64 + 16 * 5 / 6.) / 64, 1e-9);
    ck_assert_double_eq_tol(number(queue, "median_age_bytes", NULL), 0x1p20 * (1 + 5 / 6.), 1);
    json_t *curve = json_object_get(queue, "survival_s");
    ck_assert_uint_eq(json_array_size(curve), 2);
    ck_assert_double_eq(number(json_array_get(curve, 0), "age", NULL), 1.25);
    ck_assert_double_eq_tol(number(json_array_get(curve, 0), "alive", NULL), 0.4, 1e-9);
    ck_assert_ptr_null(json_object_get(json_array_get(curve, 0), "alive_ci95"));
    ck_assert(json_is_null(json_object_get(lifetime_of(report, "unknown"), "verdict")));
    json_decref(report);
}
END_TEST

/* Points of 4096 bytes: 60 of 100 died. */
START_TEST(sampled)
{
    struct ran ran = report_of(made(4096, 0, COMMENT("[3,60,0,0,0,[20,60],[9,60],[38,40],[16,40]]"), NULL), "--format=json", NULL, NULL);
    json_t *report = json_of(&ran), *queue = lifetime_of(report, "queue");
    ck_assert_double_eq(number(queue, "young_deaths", "bytes"), 60 * 4096);
    ck_assert_double_eq(number(queue, "young_deaths", "objects"), 60 * 4096 / 16);
    /* Garwood of 60 points: 45.79 to 77.23, drawn together by sqrt(1 - 8 / 4096). */
    json_t *limits = json_object_get(json_object_get(queue, "young_deaths"), "bytes_ci95");
    ck_assert_double_eq_tol(json_number_value(json_array_get(limits, 0)), 4096 * 45.79, 4096 * 0.1);
    ck_assert_double_eq_tol(json_number_value(json_array_get(limits, 1)), 4096 * 77.23, 4096 * 0.1);
    limits = json_object_get(json_array_get(json_object_get(queue, "survival_s"), 0), "alive_ci95");
    double low = json_number_value(json_array_get(limits, 0)), high = json_number_value(json_array_get(limits, 1));
    ck_assert_msg(low > 0.29 && low < 0.31 && high > 0.50 && high < 0.52, "%g to %g", low, high); /* Wilson, 40 of 100 */
    /* No collection was there: nobody knows what is old. */
    ck_assert(json_is_null(json_object_get(queue, "promoted")) && json_is_null(json_object_get(queue, "old_deaths")));
    json_decref(report);
    ran = report_of(made(4096, 0, COMMENT(ROWS), NULL), "--show=survival", NULL, NULL);
    expect_part(ran.out, "Survival by call stack, of bytes, estimated\n");
    ran_free(&ran);
}
END_TEST

START_TEST(nothing_is_known)
{
    struct ran ran = report_of(made(8, 1, NULL, NULL), "--show=survival", NULL, NULL);
    ck_assert_int_eq(ran.status, 1);
    expect_part(ran.err, "made.pb.gz says nothing of how long blocks live\n");
    ran_free(&ran);
    ran = report_of(made(8, 1, NULL, NULL), "--format=json", NULL, NULL);
    json_t *report = json_of(&ran);
    ck_assert(json_is_null(json_object_get(report, "observed")));
    ck_assert(json_is_null(json_object_get(lifetime_of(report, "queue"), "young_deaths")));
    json_decref(report);
}
END_TEST

/* Rows of several comments are one table; what names no sample is left out, and so is what names two. */
START_TEST(rows_without_a_sample)
{
    struct ran ran = report_of(made(8, 1, COMMENT("[1,0,0,0,400,[],[],[38,200,44,200],[9,200,16,200]],[99,5,0,0,0,[0,5],[0,5],[],[]]"),
                                    COMMENT("[2,900,100,50,0,[0,1000],[0,1000],[],[]]")),
                               "--format=json", NULL, NULL);
    json_t *report = json_of(&ran);
    ck_assert_double_eq(number(lifetime_of(report, "cache_add"), "promoted", "objects"), 400);
    ck_assert_double_eq(number(lifetime_of(report, "parse"), "young_deaths", "objects"), 900);
    ck_assert(json_is_null(json_object_get(lifetime_of(report, "queue"), "young_deaths")));
    json_decref(report);
    struct maker *maker = made(8, 1, COMMENT(ROWS), NULL);
    maker_add(maker, &(struct maker_sample){.places = {1}, .values = {1, 16, 1, 16}, .size = 16, .labels = {{"site", 3}}});
    ran = report_of(maker, "--format=json", NULL, NULL);
    report = json_of(&ran);
    ck_assert(json_is_null(json_object_get(lifetime_of(report, "queue"), "young_deaths")));
    ck_assert(!json_is_null(json_object_get(lifetime_of(report, "parse"), "young_deaths")));
    json_decref(report);
}
END_TEST

START_TEST(damaged)
{
    static const char *const comments[] = {
        "#gleaner-lifetimes:",
        "#gleaner-lifetimes:{",
        "#gleaner-lifetimes:[]",
        "#gleaner-lifetimes:{\"version\":2,\"steps\":[64,4096],\"observed\":[1,1],\"dropped\":0,\"sites\":[]}",
        "#gleaner-lifetimes:{\"version\":1,\"steps\":[0,4096],\"observed\":[1,1],\"dropped\":0,\"sites\":[]}",
        "#gleaner-lifetimes:{\"version\":1,\"steps\":[64],\"observed\":[1,1],\"dropped\":0,\"sites\":[]}",
        "#gleaner-lifetimes:{\"version\":1,\"steps\":[64,4096],\"observed\":[1,-1],\"dropped\":0,\"sites\":[]}",
        "#gleaner-lifetimes:{\"version\":1,\"steps\":[64,4096],\"observed\":[1,1],\"dropped\":\"0\",\"sites\":[]}",
        "#gleaner-lifetimes:{\"version\":1,\"steps\":[64,4096],\"observed\":[1,1],\"dropped\":0,\"sites\":{}}",
        COMMENT("1"),
        COMMENT("[1]"),
        COMMENT("[1,0,0,0,0,[],[],[]]"),
        COMMENT("[1,0,0,0,0,[],[],[],[],[]]"),
        COMMENT("[-1,0,0,0,0,[],[],[],[]]"),
        COMMENT("[1,0.5,0,0,0,[],[],[],[]]"),
        COMMENT("[1,0,0,0,-1,[],[],[],[]]"),
        COMMENT("[1,0,0,0,0,[],[],[],{}]"),
        COMMENT("[1,0,0,0,0,[0],[],[],[]]"),
        COMMENT("[1,0,0,0,0,[84,1],[],[],[]]"),
        COMMENT("[1,0,0,0,0,[],[40,1],[],[]]"),
        COMMENT("[1,0,0,0,0,[],[],[0,-1],[]]"),
        COMMENT("[1,0,0,0,0,[],[],[],[-1,1]]"),
        COMMENT("[1,0,0,0,9007199254740994,[],[],[],[]]"),
        COMMENT("[99,0,0,0,0,[84,1],[],[],[]]"), /* also where no sample is */
    };
    for (size_t i = 0; i < sizeof comments / sizeof *comments; i++) {
        char problem[PROBLEM_BYTES] = "";
        struct maker *maker = made(8, 1, comments[i], NULL);
        struct bytes bytes;
        bytes.at = maker_bytes(maker, true, &bytes.length);
        maker_free(maker);
        struct profile *profile = profile_parse("made", bytes, problem);
        ck_assert_msg(!profile, "%s", comments[i]);
        ck_assert_str_eq(problem, "is damaged or cut short (its lifetimes do not parse)");
    }
    struct ran ran = report_of(made(8, 1, comments[0], NULL), NULL, NULL, NULL);
    ck_assert_int_eq(ran.status, 1);
    ck_assert_str_eq(ran.out, "");
    expect_part(ran.err, "made.pb.gz is damaged or cut short (its lifetimes do not parse)\n");
    ran_free(&ran);
}
END_TEST

/* A difference has none. */
START_TEST(difference)
{
    struct maker *older = made(8, 1, COMMENT(ROWS), NULL);
    maker_write(older, in_folder("older.pb.gz"));
    maker_free(older);
    struct ran ran = report_of(made(8, 1, COMMENT(ROWS), NULL), "--base", in_folder("older.pb.gz"), "--format=json");
    json_t *report = json_of(&ran);
    ck_assert(json_is_null(json_object_get(report, "observed")));
    ck_assert(json_is_null(json_object_get(lifetime_of(report, "queue"), "verdict")));
    json_decref(report);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lifetimes in reports");
    TCase *t = tcase_create("all");
    test_folder();
    tcase_set_timeout(t, 120);
    tcase_add_test(t, table);
    tcase_add_test(t, table_of_the_first);
    tcase_add_test(t, in_json);
    tcase_add_test(t, sampled);
    tcase_add_test(t, nothing_is_known);
    tcase_add_test(t, rows_without_a_sample);
    tcase_add_test(t, damaged);
    tcase_add_test(t, difference);
    suite_add_tcase(suite, t);
    return suite_run(suite);
}
