/* test-profile-read.c: untrusted profiles: what is read from a good one, one clear line for each
   kind of bad one, and no crash for any. SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "profile_maker.h"
#include "suite.h"
#include "report/basics.h"
#include "report/output.h"
#include "report/profile_read.h"
#include "report/suppress.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char head[] = "gleaner:{\"version\":1,\"pid\":77,\"command\":\"/bin/server -x\","
                           "\"totals\":{\"alloc\":{\"objects\":9,\"bytes\":900},"
                           "\"live\":{\"objects\":4,\"bytes\":400}},\"suppressions\":[\"lose*\"]}";

static const char lifetimes[] =
    "#gleaner-lifetimes:{\"version\":1,\"steps\":[64,4096],\"observed\":[320,9],\"dropped\":0,\"sites\":["
    "[4,1,0,0,1,[3,1],[1,1],[9,2],[1,2]],[5,1,1,1,0,[3,2],[1,2],[],[]]]}";

/* Two stacks, one of them with two sizes of blocks; a period of 1000 bytes. */
static struct maker *small_profile(int64_t period)
{
    struct maker *maker = maker_new(period);
    maker_comment(maker, head);
    maker_comment(maker, lifetimes);
    maker_time(maker, 1790000000000000000, 5000000000);
    uint64_t module = maker_module(maker, 0x10000, 0x20000, 0x1000, "/bin/server", "00ff00ff");
    uint64_t leaf = maker_place(maker, module, 0x10010), root = maker_place(maker, module, 0x10020);
    maker_line(maker, leaf, "make_session", "server.c", 12);
    maker_add(maker, &(struct maker_sample){.places = {leaf, root},
                                            .values = {30, 3000, 20, 2000, 0, 0, 10, 1000},
                                            .size = 100,
                                            .alloc_points = 3,
                                            .live_points = 2,
                                            .source = "malloc",
                                            .labels = {{"site", 4}}});
    maker_add(maker, &(struct maker_sample){.places = {leaf, root},
                                            .values = {10, 2000, 5, 1000, 0, 0, 0, 0},
                                            .size = 200,
                                            .alloc_points = 2,
                                            .live_points = 1,
                                            .source = "malloc"});
    maker_add(maker, &(struct maker_sample){.places = {root},
                                            .values = {1, 1000, 0, 0, 0, 0, 0, 0},
                                            .size = 1000,
                                            .alloc_points = 1,
                                            .source = "calloc",
                                            .labels = {{"site", 5}}});
    return maker;
}

static struct profile *parse(struct maker *maker, bool gzip, char *problem)
{
    struct bytes bytes;
    bytes.at = maker_bytes(maker, gzip, &bytes.length);
    *problem = 0;
    return profile_parse("test.pb.gz", bytes, problem);
}

static struct profile *parse_text(const void *text, size_t length, char *problem)
{
    struct bytes bytes = {malloc(length + 1), length};
    ck_assert_ptr_nonnull(bytes.at);
    memcpy(bytes.at, text, length);
    *problem = 0;
    return profile_parse("test", bytes, problem);
}

/* Samples of one stack become one site; modules, places and totals are as written, gzip or not. */
START_TEST(test_reads_what_was_written)
{
    char problem[PROBLEM_BYTES];
    struct maker *maker = small_profile(1000);
    struct profile *profile = parse(maker, _i, problem);
    ck_assert_msg(profile, "%s", problem);
    ck_assert(profile->ours && !profile->exact);
    ck_assert_int_eq(profile->period, 1000);
    ck_assert_int_eq(profile->time, 1790000000000000000);
    ck_assert_uint_eq(profile->module_count, 1);
    ck_assert_str_eq(profile->modules[0].name, "server");
    ck_assert_str_eq(profile->modules[0].build_id, "00ff00ff");
    ck_assert_uint_eq(profile->site_count, 2);
    model_unfold(profile);
    model_sort(profile, MEASURE_LIVE);
    const struct site *site = &profile->sites[0];
    ck_assert_uint_eq(site->depth, 2);
    ck_assert_uint_eq(place_offset(site->stack[0]), 0x1010);
    ck_assert_str_eq(site->steps[0].frame->function, "make_session");
    ck_assert_ptr_null(site->steps[1].frame);
    ck_assert_str_eq(site->source, "malloc");
    ck_assert_double_eq(site->figures[MEASURE_LIVE].bytes.value, 3000);
    ck_assert_double_eq(site->figures[MEASURE_LIVE].objects.value, 25);
    ck_assert_double_eq(site->figures[MEASURE_ALLOC].bytes.value, 5000);
    ck_assert_double_eq(site->figures[MEASURE_PEAK].bytes.value, 1000);
    ck_assert_double_eq(head_number(profile, "totals.live.bytes"), 400);
    ck_assert(isnan(head_number(profile, "totals.live.nothing")));
    ck_assert_str_eq(head_text(profile, "command"), "/bin/server -x");
    profile_free(profile);
    maker_free(maker);
}
END_TEST

/* Three sample points: Garwood's interval of a Poisson count of 3 is 0.6187 to 8.7673 (tables of
   the Poisson distribution), each point stands for 1000 bytes, and lambda is 8/1000. */
START_TEST(test_intervals)
{
    char problem[PROBLEM_BYTES];
    struct maker *maker = small_profile(1000);
    struct profile *profile = parse(maker, true, problem);
    model_sort(profile, MEASURE_LIVE);
    struct estimate live = profile->sites[0].figures[MEASURE_LIVE].bytes;
    double shrink = sqrt(1 - 0.008);
    ck_assert_double_eq_tol(live.lo, 3000 - (3 - 0.6187) * 1000 * shrink, 2);
    ck_assert_double_eq_tol(live.hi, 3000 + (8.7673 - 3) * 1000 * shrink, 2);
    profile_free(profile);
    maker_free(maker);
    /* A period of one word: the same figures are exact. */
    maker = small_profile(8);
    profile = parse(maker, true, problem);
    ck_assert(profile->exact);
    for (size_t i = 0; i < profile->site_count; i++)
        ck_assert(!is_estimated(profile->sites[i].figures[MEASURE_LIVE].bytes));
    profile_free(profile);
    maker_free(maker);
}
END_TEST

/* Every prefix of a gzip file is refused with a reason; a plain one may be read if it was cut
   between two fields, and never crashes. */
START_TEST(test_cut_short)
{
    char problem[PROBLEM_BYTES];
    for (int gzip = 0; gzip < 2; gzip++) {
        struct maker *maker = small_profile(1000);
        size_t length;
        uint8_t *bytes = maker_bytes(maker, gzip, &length);
        for (size_t cut = 0; cut < length; cut++) {
            struct profile *profile = parse_text(bytes, cut, problem);
            if (gzip) ck_assert_ptr_null(profile);
            if (!profile) ck_assert_msg(*problem && !strchr(problem, '\n'), "cut %zu", cut);
            profile_free(profile);
        }
        free(bytes);
        maker_free(maker);
    }
}
END_TEST

static void write_everything(struct profile *profile, FILE *nowhere)
{
    model_unfold(profile);
    suppress_known(profile, NULL, 0);
    for (int measure = 0; measure < MEASURES_SHOWN; measure++) {
        model_sort(profile, (enum measure)measure);
        text_write(nowhere, profile, (enum measure)measure, 0);
        json_write(nowhere, profile, "live", 0);
        collapsed_write(nowhere, profile, (enum measure)measure);
        pprof_write(nowhere, profile, (enum measure)measure);
    }
    survival_sort(profile);
    if (profile->lifetimes) survival_write(nowhere, profile, 0);
}

/* Each kind of lost blocks; the profile brings a pattern that matches one of them. */
static void add_lost(struct maker *maker)
{
    uint64_t place = maker_place(maker, 1, 0x10030);
    maker_line(maker, place, "lose_session", "server.c", 20);
    static const char *const kinds[] = {"direct", "indirect", "possible", "false", "new"};
    for (int i = 0; i < 5; i++)
        maker_add(maker,
                  &(struct maker_sample){.places = {place},
                                         .values = {0, 0, 0, 0, i < 2 ? 5 : 0, i < 2 ? 500 : 0},
                                         .size = 100,
                                         .stack_note = i == 1 ? "caller" : NULL,
                                         .lost = kinds[i],
                                         .why = i == 2 ? "narrow" : NULL,
                                         .labels = {{"objects_low", 2},
                                                    {"objects_high", 9},
                                                    {"bytes_low", 200},
                                                    {"bytes_high", 900},
                                                    {"first_missed", 1790000000000000000},
                                                    {"last_reached", 1780000000000000000},
                                                    {"lost_objects", 3},
                                                    {"lost_bytes", 300},
                                                    {i == 1 ? "head" : "site", 7}}});
}

/* Flipped bits, with a fixed seed: read or refused, printed in every form, never a crash.  (Run
   under the sanitizers too.) */
START_TEST(test_flipped_bits)
{
    char problem[PROBLEM_BYTES];
    struct maker *maker = small_profile(1000);
    size_t length;
    add_lost(maker);
    uint8_t *bytes = maker_bytes(maker, false, &length);
    FILE *nowhere = fopen("/dev/null", "w");
    uint64_t state = 42 + (uint64_t)_i;
    unsigned read = 0, refused = 0;
    for (int round = 0; round < 600; round++) {
        uint8_t *broken = malloc(length);
        memcpy(broken, bytes, length);
        for (int flips = 1 + round % 4; flips; flips--) {
            state = state * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX */
            broken[(state >> 33) % length] ^= (uint8_t)(1u << (state >> 60 & 7));
        }
        struct profile *profile = parse_text(broken, length, problem);
        if (profile)
            write_everything(profile, nowhere), read++;
        else
            refused++;
        profile_free(profile);
        free(broken);
    }
    ck_assert_uint_gt(read, 0); /* both ways were taken */
    ck_assert_uint_gt(refused, 0);
    fclose(nowhere);
    free(bytes);
    maker_free(maker);
}
END_TEST

/* Random tails behind valid tags: the decoder's own limits. */
START_TEST(test_hostile_encodings)
{
    static const struct {
        const char *what;
        unsigned char bytes[24];
        size_t length;
    } cases[] = {
        {"a varint of eleven bytes",
         {0x60, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01},
         12},
        {"a length past the end", {0x12, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x00}, 7},
        {"a length near 2^64",
         {0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01},
         11},
        {"groups in groups", {0x0b, 0x0b, 0x0b, 0x0b, 0x0b, 0x0b}, 6},
        {"field number 0", {0x02, 0x00}, 2},
        {"no strings", {0x12, 0x00}, 2},
        {"a first string that is not empty", {0x32, 0x01, 'x'}, 3},
    };
    char problem[PROBLEM_BYTES];
    ck_assert_ptr_null(parse_text(cases[_i].bytes, cases[_i].length, problem));
    ck_assert_msg(*problem, "%s", cases[_i].what);
}
END_TEST

/* One clear reason each. */
START_TEST(test_other_files)
{
    static const struct {
        const char *content, *reason;
    } cases[] = {
        {"", "empty"},
        {"heap profile: 1: 2 [3: 4] @ heap_v2/524288\n", "text format"},
        {"heap_v2/524288\n t*: 1: 2 [3: 4]\n", "jemalloc"},
        {"\x7f"
         "ELF\x02\x01\x01",
         "is a program"},
        {"#!/bin/sh\necho hello\n", "no profile"},
        {"\x1f\x8b\x08", "cut short"},
    };
    char problem[PROBLEM_BYTES];
    ck_assert_ptr_null(parse_text(cases[_i].content, strlen(cases[_i].content), problem));
    ck_assert_msg(strstr(problem, cases[_i].reason), "%s", problem);
}
END_TEST

START_TEST(test_other_versions_and_types)
{
    char problem[PROBLEM_BYTES];
    struct maker *maker = maker_new(1000);
    maker_comment(maker, "gleaner:{\"version\":2}");
    ck_assert_ptr_null(parse(maker, true, problem));
    ck_assert_ptr_nonnull(strstr(problem, "another version of Gleaner: its format is 2"));
    maker_free(maker);

    maker = maker_new(1000);
    maker_comment(maker, "gleaner:{\"version\":");
    ck_assert_ptr_null(parse(maker, true, problem));
    ck_assert_ptr_nonnull(strstr(problem, "damaged"));
    maker_free(maker);

    static const char *const cpu[] = {"samples/count", "cpu/nanoseconds", NULL};
    maker = maker_new(1000);
    maker_types(maker, cpu);
    ck_assert_ptr_null(parse(maker, true, problem));
    ck_assert_ptr_nonnull(strstr(problem, "no heap profile"));
    maker_free(maker);
}
END_TEST

/* Another producer's heap profile: its four types, no head; nothing is known of intervals. */
START_TEST(test_other_producers)
{
    static const char *const go[] = {"alloc_objects/count", "alloc_space/bytes",
                                     "inuse_objects/count", "inuse_space/bytes", NULL};
    char problem[PROBLEM_BYTES];
    struct maker *maker = maker_new(524288);
    maker_types(maker, go);
    uint64_t place = maker_place(maker, 0, 0x1234);
    maker_line(maker, place, "main.main", "main.go", 3);
    maker_add(maker, &(struct maker_sample){.places = {place}, .values = {4, 400, 2, 200}});
    struct profile *profile = parse(maker, true, problem);
    ck_assert_msg(profile, "%s", problem);
    ck_assert(!profile->ours);
    ck_assert(profile->has[MEASURE_LIVE] && !profile->has[MEASURE_PEAK]);
    ck_assert_double_eq(profile->sites[0].figures[MEASURE_LIVE].bytes.value, 200);
    ck_assert(isnan(profile->sites[0].figures[MEASURE_LIVE].bytes.lo));
    profile_free(profile);
    maker_free(maker);
}
END_TEST

/* A gzip file that unpacks to a thousand times its size stops at the limit. */
START_TEST(test_gzip_bomb)
{
    enum { LARGE = 4 << 20, LIMIT = 1 << 20 };
    char problem[PROBLEM_BYTES];
    uint8_t *zeros = calloc(1, LARGE);
    struct bytes bytes;
    bytes.at = gzip_bytes(zeros, LARGE, &bytes.length);
    ck_assert_uint_lt(bytes.length, LARGE / 500);
    ck_assert(!file_unpack(&bytes, LIMIT, problem));
    ck_assert_ptr_nonnull(strstr(problem, "more than 1 MiB"));
    /* Just as large as the limit is fine. */
    bytes.at = gzip_bytes(zeros, LIMIT, &bytes.length);
    ck_assert(file_unpack(&bytes, LIMIT, problem));
    ck_assert_uint_eq(bytes.length, LIMIT);
    free(bytes.at);
    free(zeros);
}
END_TEST

/* Five million empty samples, two bytes each, decode to most of a gigabyte: refused, not attempted. */
START_TEST(test_decoding_bomb)
{
    enum { COUNT = 5 << 20 };
    char problem[PROBLEM_BYTES];
    uint8_t *bytes = malloc(2 * COUNT);
    for (size_t i = 0; i < COUNT; i++) memcpy(bytes + 2 * i, "\x12\x00", 2);
    ck_assert_ptr_null(parse_text(bytes, 2 * COUNT, problem));
    ck_assert(*problem);
    free(bytes);
}
END_TEST

/* Names out of a file cannot drive a terminal: control characters and what is not UTF-8 become '?'.
 */
START_TEST(test_clean_text)
{
    static const char dirty[] = "a\x1b[31m\n\xc3\xa9\xff\xc0\xafz\x7f\xc2\x9b";
    char *clean = clean_text(dirty, sizeof dirty - 1);
    ck_assert_str_eq(clean, "a?[31m?\xc3\xa9???z???");
    free(clean);
}
END_TEST

/* Frames that the profile asks to drop go with what they called; the root is never dropped. */
START_TEST(test_drop_frames)
{
    char problem[PROBLEM_BYTES];
    struct maker *maker = maker_new(8);
    maker_comment(maker, "gleaner:{\"version\":1}");
    maker_drop(maker, "malloc|(?:operator new.*)");
    uint64_t inside = maker_place(maker, 0, 1), entry = maker_place(maker, 0, 2),
             user = maker_place(maker, 0, 3), root = maker_place(maker, 0, 4);
    maker_line(maker, inside, "internal", "", 0);
    maker_line(maker, entry, "operator new(unsigned long)", "", 0);
    maker_line(maker, user, "user_malloc", "", 0); /* the expression is anchored */
    maker_line(maker, root, "malloc", "", 0);
    maker_add(maker, &(struct maker_sample){.places = {inside, entry, user, root},
                                            .values = {1, 8, 1, 8}});
    struct profile *profile = parse(maker, true, problem);
    ck_assert_msg(profile, "%s", problem);
    model_unfold(profile);
    ck_assert_uint_eq(profile->sites[0].step_count, 2);
    ck_assert_str_eq(profile->sites[0].steps[0].frame->function, "user_malloc");
    ck_assert_str_eq(profile->sites[0].steps[1].frame->function, "malloc");
    profile_free(profile);
    maker_free(maker);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("profile_read");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 300);
    tcase_add_loop_test(tests, test_reads_what_was_written, 0, 2);
    tcase_add_test(tests, test_intervals);
    tcase_add_test(tests, test_cut_short);
    tcase_add_loop_test(tests, test_flipped_bits, 0, 2);
    tcase_add_loop_test(tests, test_hostile_encodings, 0, 7);
    tcase_add_loop_test(tests, test_other_files, 0, 6);
    tcase_add_test(tests, test_other_versions_and_types);
    tcase_add_test(tests, test_other_producers);
    tcase_add_test(tests, test_gzip_bomb);
    tcase_add_test(tests, test_decoding_bomb);
    tcase_add_test(tests, test_clean_text);
    tcase_add_test(tests, test_drop_frames);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
