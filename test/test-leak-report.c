/* test-leak-report.c: lost blocks in the reports, against texts written by hand from the profile that is made here.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "command.h"
#include "profile_maker.h"
#include "suite.h"
#include "report/find_profile.h"
#include "report/load.h"
#include "report/suppress.h"

#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SECOND = 1000000000 };
/* 2026-09-21 14:13:20 UTC: when the profile was taken. */
#define NOW ((int64_t)1790000000 * SECOND)

/* Which parts a profile has. */
enum { LEAKS = 1, ESTIMATES = 2, ODDITIES = 4, COLLECTED = 8, INCOMPLETE = 16 };

struct places {
    uint64_t session, item, known, start, inside, odd;
};

static void add_lost(struct maker *maker, const struct places *at, unsigned parts, int64_t sessions)
{
    bool estimates = parts & ESTIMATES;
    /* The sessions, on each of which two items hang; the first was missed 30 s before the others, 20 s ago. */
    maker_add(maker,
              &(struct maker_sample){.places = {at->session, at->start},
                                     .values = {0, 0, 0, 0, sessions, sessions * 112},
                                     .size = 112,
                                     .source = "malloc",
                                     .lost = "direct",
                                     .labels = {{"asked_bytes", sessions * 100},
                                                {"hangs_objects", sessions * 2},
                                                {"hangs_bytes", sessions * 96},
                                                {"site", 4294967301},
                                                {"last_reached", NOW - 80 * (int64_t)SECOND},
                                                {"first_missed", NOW - 50 * (int64_t)SECOND},
                                                {"last_missed", NOW - 20 * (int64_t)SECOND},
                                                {"misses", 3},
                                                {"objects_low", estimates ? sessions / 2 : 0},
                                                {"objects_high", estimates ? sessions * 2 : 0},
                                                {"bytes_low", estimates ? sessions * 56 : 0},
                                                {"bytes_high", estimates ? sessions * 224 : 0}}});
    maker_add(maker, &(struct maker_sample){.places = {at->item, at->session, at->start},
                                            .values = {0, 0, 0, 0, sessions * 2, sessions * 96},
                                            .size = 48,
                                            .lost = "indirect",
                                            .labels = {{"head", 4294967301},
                                                       {"asked_bytes", sessions * 80},
                                                       {"last_reached", NOW - 80 * (int64_t)SECOND},
                                                       {"first_missed", NOW - 50 * (int64_t)SECOND},
                                                       {"last_missed", NOW - 50 * (int64_t)SECOND},
                                                       {"misses", 3}}});
    /* A known leak, on which two items hang, too; yesterday's. */
    maker_add(maker,
              &(struct maker_sample){.places = {at->known, at->start},
                                     .values = {0, 0, 0, 0, 1, 64},
                                     .size = 64,
                                     .lost = "direct",
                                     .labels = {{"site", 4294967302},
                                                {"hangs_objects", 2},
                                                {"hangs_bytes", 96},
                                                {"last_reached", NOW - 86400 * (int64_t)SECOND},
                                                {"first_missed", NOW - 86300 * (int64_t)SECOND},
                                                {"last_missed", NOW - 86300 * (int64_t)SECOND}}});
    maker_add(maker, &(struct maker_sample){.places = {at->item, at->start},
                                            .values = {0, 0, 0, 0, 2, 96},
                                            .size = 48,
                                            .lost = "indirect",
                                            .labels = {{"head", 4294967302}}});
    if (!(parts & ODDITIES)) return;
    maker_add(maker, &(struct maker_sample){.places = {at->inside},
                                            .values = {0, 0, 0, 0, 3, 96},
                                            .size = 32,
                                            .lost = "direct",
                                            .stack_note = "caller"});
    maker_add(maker, &(struct maker_sample){.places = {at->odd},
                                            .values = {0, 0, 0, 0, 1, 16},
                                            .size = 16,
                                            .lost = "indirect",
                                            .stack_note = "unrecorded"});
    maker_add(maker, &(struct maker_sample){.places = {at->session, at->start},
                                            .size = 112,
                                            .lost = "possible",
                                            .why = "misaligned",
                                            .labels = {{"lost_objects", 1}, {"lost_bytes", 112}}});
    maker_add(maker, &(struct maker_sample){.places = {at->known, at->start},
                                            .lost = "false",
                                            .labels = {{"lost_objects", 2}, {"lost_bytes", 128}}});
}

/* A service that loses sessions. */
static void make_profile(const char *name, unsigned parts, int64_t sessions, int pid,
                         const char *patterns)
{
    struct maker *maker = maker_new(parts & ESTIMATES ? 4000 : 8);
    char comment[2048];
    bool lost = parts & LEAKS;
    int64_t direct = lost ? sessions + 1 : 0, indirect = lost ? sessions * 2 + 2 : 0;
    int64_t direct_bytes = lost ? sessions * 112 + 64 : 0,
            indirect_bytes = lost ? sessions * 96 + 96 : 0;
    if (parts & ODDITIES) direct += 3, direct_bytes += 96, indirect += 1, indirect_bytes += 16;
    snprintf(
        comment, sizeof comment,
        "#gleaner:{\"version\":1,\"pid\":%d,\"command\":\"/bin/server\",\"reason\":\"exit\","
        "\"totals\":{\"alloc\":{\"objects\":600,\"bytes\":61024},"
        "\"live\":{\"objects\":%ld,\"bytes\":%ld},\"lost\":{\"objects\":%ld,\"bytes\":%ld},"
        "\"direct\":{\"objects\":%ld,\"bytes\":%ld},\"indirect\":{\"objects\":%ld,\"bytes\":%ld},"
        "\"possible\":{\"objects\":%d,\"bytes\":%d},\"false_lost\":{\"objects\":%d,\"bytes\":%d}},"
        "\"collections\":{\"minor\":%d,\"major\":%d,\"incomplete\":%d,\"pause_ms\":{\"max\":1.25}%"
        "s}%s%s%s}",
        pid, (long)sessions * 3 + 50, (long)sessions * 208 + 50000, (long)(direct + indirect),
        (long)(direct_bytes + indirect_bytes), (long)direct, (long)direct_bytes, (long)indirect,
        (long)indirect_bytes, parts & ODDITIES ? 1 : 0, parts & ODDITIES ? 112 : 0,
        parts & ODDITIES ? 2 : 0, parts & ODDITIES ? 128 : 0, parts & COLLECTED ? 12 : 0,
        parts & COLLECTED ? 3 : 0, parts & INCOMPLETE ? 1 : 0,
        parts & INCOMPLETE ? ",\"latest\":{\"complete\":false,\"why_not\":\"a thread is stopped\"}"
                           : "",
        patterns ? ",\"suppressions\":[" : "", patterns ? patterns : "", patterns ? "]" : "");
    maker_comment(maker, comment);
    maker_time(maker, NOW, 0);
    uint64_t program = maker_module(maker, 0x400000, 0x500000, 0, "/bin/server", "aaaaaaaa"),
             library =
                 maker_module(maker, 0x700000, 0x710000, 0x2000, "/nowhere/libx.so.1", "bbbbbbbb");
    struct places at = {
        maker_place(maker, program, 0x400100), maker_place(maker, program, 0x400200),
        maker_place(maker, program, 0x400300), maker_place(maker, program, 0x400400),
        maker_place(maker, library, 0x700010), maker_place(maker, 0, 0)};
    maker_line(maker, at.session, "session_new", "/src/session.c", 12);
    maker_line(maker, at.item, "item_new", "/src/item.c", 34);
    maker_line(maker, at.known, "known_leak", "/src/old.c", 5);
    maker_line(maker, at.start, "main", "/src/server.c", 300);
    maker_line(maker, at.odd, "[no site recorded]", "", 0);
    maker_add(maker, &(struct maker_sample){.places = {at.session, at.start},
                                            .values = {500, 56000, 200, 22400},
                                            .size = 112,
                                            .alloc_points = 14,
                                            .live_points = 6,
                                            .source = "malloc"});
    if (lost) add_lost(maker, &at, parts, sessions);
    maker_write(maker, in_folder(name));
    maker_free(maker);
}

static struct ran report(const char *file, const char *a, const char *b, const char *c,
                         const char *d)
{
    return run_program((const char *[]){gleaner(), "report", in_folder(file), a, b, c, d, NULL});
}

/* 7 sessions of 112 and 14 items of 48 bytes; one block of 64 with two items. */
START_TEST(test_text)
{
    static const char expected[] =
        "==77==Gleaner: heap profile of /bin/server\n"
        "    taken 2026-09-21 14:13:20 (exit); every block was recorded\n"
        "\n"
        "Totals (exact)              blocks             bytes\n"
        "    allocated                  600             61024  (59.6 KiB)\n"
        "    live                        71             51456  (50.2 KiB)\n"
        "    lost                        24              1616  (1.6 KiB)\n"
        "      indirectly                16               768  (768 B)\n"
        "\n"
        "Collections: 3 major, 12 minor; longest pause 1.2 ms\n"
        "    false_lost: 0 blocks, 0 bytes\n"
        "\n"
        "=================================================================\n"
        "==77==ERROR: Gleaner: detected memory leaks\n"
        "\n"
        "Direct leak of 784 byte(s) in 7 object(s) allocated from:\n"
        "    #0 0x400100 in session_new /src/session.c:12\n"
        "    #1 0x400400 in main /src/server.c:300\n"
        "    first missed 14:12:30, last reached by 14:12:00; latest of them 14:13:00; asked for "
        "700 byte(s)\n"
        "    672 byte(s) in 14 object(s) hang on them\n"
        "\n"
        "Direct leak of 64 byte(s) in 1 object(s) allocated from:\n"
        "    #0 0x400300 in known_leak /src/old.c:5\n"
        "    #1 0x400400 in main /src/server.c:300\n"
        "    first missed 2026-09-20 14:15:00, last reached by 14:13:20\n"
        "    96 byte(s) in 2 object(s) hang on them\n"
        "\n"
        "Indirect leak of 672 byte(s) in 14 object(s) allocated from:\n"
        "    #0 0x400200 in item_new /src/item.c:34\n"
        "    #1 0x400100 in session_new /src/session.c:12\n"
        "    #2 0x400400 in main /src/server.c:300\n"
        "    first missed 14:12:30, last reached by 14:12:00; asked for 560 byte(s)\n"
        "\n"
        "Indirect leak of 96 byte(s) in 2 object(s) allocated from:\n"
        "    #0 0x400200 in item_new /src/item.c:34\n"
        "    #1 0x400400 in main /src/server.c:300\n"
        "\n"
        "    first missed 2026-09-20 14:15:00, last reached by 14:13:20; latest of them 14:13:00\n"
        "SUMMARY: Gleaner: 1616 byte(s) leaked in 24 allocation(s).\n";
    make_profile("leaks.pb.gz", LEAKS | COLLECTED, 7, 77, NULL);
    struct ran ran = report("leaks.pb.gz", "--show", "lost", NULL, NULL);
    ck_assert_int_eq(ran.status, 0);
    ck_assert_str_eq(ran.out, expected);
    ran_free(&ran);
    /* Without being asked: the same, then what is live. */
    ran = report("leaks.pb.gz", NULL, NULL, NULL, NULL);
    ck_assert_int_eq(strncmp(ran.out, expected, sizeof expected - 1), 0);
    expect_part(ran.out, "\nLive by call stack: 22400 bytes (21.9 KiB) at 1 stack\n");
    ran_free(&ran);
    ran = report("leaks.pb.gz", "--show=lost", "--top=1", NULL, NULL);
    expect_part(ran.out, "\nThe 1 top leak(s):\nDirect leak of 784 byte(s)");
    expect_part(ran.out, "\nOmitting 3 more leak(s). (--top 0 shows all)\n\n");
    expect_part(ran.out, "SUMMARY: Gleaner: 1616 byte(s) leaked in 24 allocation(s).\n");
    expect_no_part(ran.out, "known_leak");
    ran_free(&ran);
}
END_TEST

START_TEST(test_oddities)
{
    make_profile("odd.pb.gz", LEAKS | COLLECTED | ODDITIES | INCOMPLETE, 7, 77, NULL);
    struct ran ran = report("odd.pb.gz", "--show", "lost", NULL, NULL);
    expect_part(ran.out, "    possibly lost                1               112  (112 B)\n");
    expect_part(ran.out, "3 major, 12 minor, 1 of them incomplete; longest pause");
    expect_part(ran.out, "    false_lost: 2 blocks, 128 bytes (called lost, then freed, resized, "
                         "written or read by the program)\n");
    expect_part(ran.out, "incomplete and called nothing lost: a thread is stopped\n");
    expect_part(ran.out,
                "Direct leak of 96 byte(s) in 3 object(s) allocated from:\n"
                "    #0 0x700010 (/nowhere/libx.so.1+0x2010)\n"
                "    (these blocks were not sampled: only the caller of malloc is known)\n\n");
    expect_part(ran.out, "Indirect leak of 16 byte(s) in 1 object(s) allocated from:\n"
                         "    (no site recorded)\n\n");
    /* What is possibly lost comes after the leaks, and is not in the sum. */
    const char *possible =
        strstr(ran.out, "Possibly lost: 112 byte(s) in 1 object(s) allocated from:\n"
                        "    #0 0x400100 in session_new /src/session.c:12\n");
    ck_assert_ptr_nonnull(possible);
    ck_assert_ptr_null(strstr(possible, "leak of"));
    expect_part(possible, "    reached by a pointer that is not aligned only\n\n");
    expect_part(possible, "Falsely called lost: 128 byte(s) in 2 object(s) allocated from:\n"
                          "    #0 0x400300 in known_leak /src/old.c:5\n");
    expect_part(possible, "SUMMARY: Gleaner: 1728 byte(s) leaked in 28 allocation(s).\n");
    ran_free(&ran);
}
END_TEST

/* The line's shape stays; the interval is in a line of its own. */
START_TEST(test_estimated)
{
    make_profile("estimated.pb.gz", LEAKS | COLLECTED | ESTIMATES, 8, 77, NULL);
    struct ran ran = report("estimated.pb.gz", "--show", "lost", NULL, NULL);
    expect_part(ran.out, "Direct leak of 896 byte(s) in 8 object(s) allocated from:\n");
    expect_part(
        ran.out,
        "    an estimate: 95% 448-1792 byte(s) in 4-16 object(s)\n\nDirect leak of 64 byte(s)");
    const char *exact = strstr(ran.out, "Direct leak of 64 byte(s) in 1 object(s)");
    ck_assert_ptr_nonnull(exact);
    expect_no_part(exact, "an estimate"); /* nor are the indirect ones */
    ran_free(&ran);
    ran = report("estimated.pb.gz", "--format", "json", NULL, NULL);
    json_t *json = json_loads(ran.out, 0, NULL), *found = NULL, *site;
    size_t i;
    json_array_foreach(json_object_get(json, "sites"), i, site)
    {
        json_t *lost = json_object_get(site, "lost");
        if (json_integer_value(json_object_get(lost, "direct_objects")) == 8) found = lost;
    }
    json_t *interval = json_object_get(found, "bytes_ci95");
    ck_assert_int_eq(json_integer_value(json_array_get(interval, 0)), 448);
    ck_assert_int_eq(json_integer_value(json_array_get(interval, 1)), 1792);
    ck_assert_int_eq(
        json_integer_value(json_array_get(json_object_get(found, "direct_objects_ci95"), 1)), 16);
    ck_assert_ptr_null(json_object_get(found, "indirect_bytes_ci95"));
    json_decref(json);
    ran_free(&ran);
}
END_TEST

START_TEST(test_nothing_lost)
{
    make_profile("clean.pb.gz", COLLECTED, 7, 77, NULL);
    struct ran ran = report("clean.pb.gz", "--show", "lost", NULL, NULL);
    expect_part(ran.out, "    false_lost: 0 blocks, 0 bytes\n\nNo block is lost.\n");
    expect_no_part(ran.out, "ERROR");
    ran_free(&ran);
    make_profile("unknown.pb.gz", COLLECTED | INCOMPLETE, 7, 77, NULL);
    ran = report("unknown.pb.gz", "--show", "lost", NULL, NULL);
    expect_part(ran.out, "called nothing lost: a thread is stopped\n");
    expect_part(ran.out, "\nWhether any block is lost is not known: see the note above.\n");
    expect_no_part(ran.out, "No block is lost");
    ran_free(&ran);
    ran = report("clean.pb.gz", NULL, NULL, NULL, NULL);
    expect_part(ran.out, "    false_lost: 0 blocks, 0 bytes\n\nLive by call stack");
    ran_free(&ran);
    make_profile("never.pb.gz", 0, 7, 77, NULL);
    ran = report("never.pb.gz", "--show", "lost", NULL, NULL);
    expect_part(
        ran.out,
        "\nNobody has looked for lost blocks: gleaner run --leaks, or gleaner dump PID --leaks\n");
    expect_no_part(ran.out, "false_lost");
    ran_free(&ran);
    ran = report("never.pb.gz", "--show", "lost", "--format", "json");
    expect_part(ran.err, "nobody has looked for lost blocks: all are zero");
    ran_free(&ran);
}
END_TEST

static json_t *site_at(const json_t *report, const char *function, size_t frame)
{
    json_t *site;
    size_t i;
    json_array_foreach(json_object_get(report, "sites"), i, site)
    {
        json_t *step = json_array_get(json_object_get(site, "stack"), frame);
        const char *name = json_string_value(json_object_get(step, "function"));
        if (name && !strcmp(name, function)) return site;
    }
    ck_abort_msg("no site of %s", function);
    return NULL;
}

static json_int_t number(const json_t *site, const char *object, const char *key)
{
    const json_t *value = json_object_get(json_object_get(site, object), key);
    ck_assert_msg(json_is_integer(value), "%s.%s", object, key);
    return json_integer_value(value);
}

static double time_of(const json_t *value)
{
    ck_assert(json_is_real(value));
    return json_real_value(value);
}

START_TEST(test_json)
{
    make_profile("odd.pb.gz", LEAKS | COLLECTED | ODDITIES, 7, 77, NULL);
    struct ran ran = report("odd.pb.gz", "--format", "json", NULL, NULL);
    json_t *json = json_loads(ran.out, 0, NULL);
    ck_assert_ptr_nonnull(json);
    ck_assert_int_eq(number(json_object_get(json, "totals"), "indirect", "objects"), 17);
    json_t *site = site_at(json, "session_new", 0), *lost = json_object_get(site, "lost");
    ck_assert_int_eq(number(site, "live", "bytes"), 22400);
    ck_assert_int_eq(number(site, "lost", "objects"), 7);
    ck_assert_int_eq(number(site, "lost", "bytes"), 784);
    ck_assert_int_eq(number(site, "lost", "direct_objects"), 7);
    ck_assert_int_eq(number(site, "lost", "direct_bytes"), 784);
    ck_assert_int_eq(number(site, "lost", "indirect_bytes"), 0);
    ck_assert_int_eq(number(site, "lost", "hanging_objects"), 14);
    ck_assert_int_eq(number(site, "lost", "asked_bytes"), 700);
    ck_assert_int_eq(number(site, "lost", "misses"), 3);
    ck_assert_int_eq(number(site, "possible", "bytes"), 112);
    json_t *why = json_object_get(json_object_get(site, "possible"), "why");
    ck_assert_uint_eq(json_array_size(why), 1);
    ck_assert_str_eq(json_string_value(json_array_get(why, 0)), "misaligned");
    ck_assert_int_eq(number(site, "false_lost", "objects"), 0);
    ck_assert_ptr_null(json_object_get(lost, "bytes_ci95"));
    ck_assert_double_eq(time_of(json_object_get(lost, "first_seen")), 1790000000 - 50);
    json_t *between = json_object_get(lost, "between");
    ck_assert_double_eq(time_of(json_array_get(between, 0)), 1790000000 - 80);
    ck_assert_double_eq(time_of(json_array_get(between, 1)), 1790000000 - 20);
    site = site_at(json, "known_leak", 0);
    ck_assert_int_eq(number(site, "false_lost", "objects"), 2);
    ck_assert_int_eq(number(site, "false_lost", "bytes"), 128);
    ck_assert(json_is_null(json_object_get(json_object_get(site, "lost"), "asked_bytes")));
    site = site_at(json, "[no site recorded]", 0);
    ck_assert_str_eq(json_string_value(json_object_get(site, "stack_note")), "unrecorded");
    ck_assert(json_is_null(json_object_get(json_object_get(site, "lost"), "between")));
    ck_assert_ptr_null(json_object_get(json, "suppressed"));
    json_decref(json);
    ran_free(&ran);
}
END_TEST

/* Flame graphs, and pprof through which nothing is lost. */
START_TEST(test_other_forms)
{
    make_profile("odd.pb.gz", LEAKS | COLLECTED | ODDITIES, 7, 77, NULL);
    struct ran ran = report("odd.pb.gz", "--format", "collapsed", "--show", "lost");
    ck_assert_str_eq(ran.out, "[no site recorded] 16\n"
                              "libx.so.1+0x2010 96\n"
                              "main;item_new 96\n"
                              "main;known_leak 64\n"
                              "main;session_new 784\n"
                              "main;session_new;item_new 672\n");
    ran_free(&ran);
    must_run("'%s' report --format pprof --show lost '%s' >'%s' 2>/dev/null", gleaner(),
             in_folder("odd.pb.gz"), in_folder("again.pb.gz"));
    static const char *const formats[] = {"text", "json", "collapsed"};
    for (int i = 0; i < 3; i++) {
        struct ran first = report("odd.pb.gz", "--show", "lost", "--format", formats[i]);
        struct ran second = report("again.pb.gz", "--show", "lost", "--format", formats[i]);
        ck_assert_str_eq(first.out, second.out);
        ran_free(&first);
        ran_free(&second);
    }
    if (system("command -v go >/dev/null 2>&1")) return;
    ran = run_program(
        (const char *[]){"go", "tool", "pprof", "-top", "-unit=B", in_folder("again.pb.gz"), NULL});
    expect_part(ran.out, "Type: lost_space\n");
    expect_part(ran.out, "1728B total");
    expect_part(ran.out, "784B 45.37%");
    ran_free(&ran);
    /* The kinds are told apart by their label. */
    ran =
        run_program((const char *[]){"go", "tool", "pprof", "-top", "-unit=B",
                                     "-tagfocus=lost=^indirect$", in_folder("again.pb.gz"), NULL});
    expect_part(ran.out, "768B 44.44%");
    expect_part(ran.out, "16B  0.93%");
    ran_free(&ran);
}
END_TEST

static const char *write_text(const char *name, const char *text)
{
    FILE *file = fopen(in_folder(name), "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
    return in_folder(name);
}

/* A known leak is left out with what hangs on it, as LeakSanitizer does it: the items are not counted at the pattern. */
START_TEST(test_suppressions)
{
    static const char expected[] = "-----------------------------------------------------\n"
                                   "Suppressions used:\n"
                                   "  count      bytes template\n"
                                   "      1         64 known*\n"
                                   "-----------------------------------------------------\n"
                                   "\n";
    const char *file =
        write_text("known.txt", "# those that we know\nleak:known*\nleak:nothing_like_it\n");
    make_profile("leaks.pb.gz", LEAKS | COLLECTED, 7, 77, NULL);
    struct ran ran = report("leaks.pb.gz", "--show=lost", "--suppressions", file, NULL);
    expect_part(ran.out, expected);
    expect_no_part(ran.out, "known_leak");
    expect_part(ran.out, "Direct leak of 784 byte(s) in 7 object(s)");
    expect_part(ran.out, "Indirect leak of 672 byte(s) in 14 object(s)");
    expect_part(ran.out, "SUMMARY: Gleaner: 1456 byte(s) leaked in 21 allocation(s).\n");
    ran_free(&ran);
    ran = report("leaks.pb.gz", "--format=json", "--suppressions", file, NULL);
    json_t *json = json_loads(ran.out, 0, NULL), *used = json_object_get(json, "suppressed");
    ck_assert_uint_eq(json_array_size(used), 1);
    ck_assert_str_eq(json_string_value(json_object_get(json_array_get(used, 0), "template")),
                     "known*");
    ck_assert_int_eq(json_integer_value(json_object_get(json_array_get(used, 0), "bytes")), 64);
    ck_assert_int_eq(number(site_at(json, "known_leak", 0), "lost", "bytes"), 0);
    json_t *site;
    size_t i;
    double sum = 0; /* of the items: those of the sessions alone */
    json_array_foreach(json_object_get(json, "sites"), i, site) sum +=
        (double)number(site, "lost", "indirect_bytes");
    ck_assert_double_eq(sum, 672);
    json_decref(json);
    ran_free(&ran);
    /* By file and by module; all of them. */
    ran = report("leaks.pb.gz", "--show=lost", "--suppressions",
                 write_text("all.txt", "leak:/src/*.c\n"), NULL);
    expect_part(ran.out, "     24       1616 /src/*.c\n");
    expect_no_part(ran.out, "ERROR");
    expect_part(ran.out, "No block is lost beyond what is suppressed.\n");
    ran_free(&ran);
    ran = report("leaks.pb.gz", "--show=lost", "--suppressions",
                 write_text("module.txt", "leak:^/bin/server$\n"), NULL);
    expect_part(ran.out, "     24       1616 ^/bin/server$\n");
    ran_free(&ran);
    /* What the process knew itself, and not twice what was in its file. */
    make_profile("leaks.pb.gz", LEAKS | COLLECTED, 7, 77, "\"known*\",\"session.c\"");
    ran = report("leaks.pb.gz", "--show=lost", "--suppressions", in_folder("known.txt"), NULL);
    expect_part(ran.out, "      1         64 known*\n     21       1456 session.c\n-----");
    ran_free(&ran);
    ran = report("leaks.pb.gz", "--show=lost", "--suppressions", "/nowhere/at/all", NULL);
    ck_assert_int_eq(ran.status, 0);
    expect_part(ran.err, "gleaner: /nowhere/at/all: cannot be read");
    ran_free(&ran);
}
END_TEST

/* What is newly lost comes first. */
START_TEST(test_diff)
{
    make_profile("old.pb.gz", LEAKS | COLLECTED, 7, 77, NULL);
    make_profile("new.pb.gz", LEAKS | COLLECTED, 10, 77, NULL);
    struct ran ran = run_program(
        (const char *[]){gleaner(), "diff", in_folder("old.pb.gz"), in_folder("new.pb.gz"), NULL});
    ck_assert_int_eq(ran.status, 0);
    expect_part(ran.out,
                "    lost, exact: 1.6 KiB to 2.2 KiB, +624 bytes\n"
                "\n"
                "Newly lost: +336 bytes in +3 blocks, from 784 to 1120 bytes, allocated from:\n"
                "    #0 0x400100 in session_new /src/session.c:12 (server)\n"
                "    #1 0x400400 in main /src/server.c:300 (server)\n"
                "\n"
                "Newly lost: +288 bytes in +6 blocks, from 672 to 960 bytes, allocated from:\n"
                "    #0 0x400200 in item_new /src/item.c:34 (server)\n");
    expect_no_part(ran.out, "known_leak");
    ran_free(&ran);
    ran = run_program(
        (const char *[]){gleaner(), "diff", in_folder("new.pb.gz"), in_folder("old.pb.gz"), NULL});
    expect_part(ran.out, "No longer lost: -336 bytes in -3 blocks, from 1120 to 784 bytes");
    ran_free(&ran);
    make_profile("never.pb.gz", 0, 7, 77, NULL);
    ran = run_program((const char *[]){gleaner(), "diff", in_folder("never.pb.gz"),
                                       in_folder("new.pb.gz"), NULL});
    expect_part(ran.out, "note: nobody had looked for lost blocks before the older profile\n");
    ran_free(&ran);
    ran = run_program((const char *[]){gleaner(), "diff", in_folder("new.pb.gz"),
                                       in_folder("never.pb.gz"), NULL});
    expect_no_part(ran.out, "lost");
    ran_free(&ran);
}
END_TEST

/* The sum beyond the suppressions: what --fail goes by. */
START_TEST(test_unsuppressed)
{
    const char *known = write_text("known.txt", "leak:known\n"),
               *all = write_text("all.txt", "leak:*\n");
    make_profile("leaks.pb.gz", LEAKS | COLLECTED, 7, 77, NULL);
    for (int round = 0; round < 3; round++) {
        static const double expected[] = {24, 21, 0};
        struct profile *profile = load_profile(in_folder("leaks.pb.gz"), ASK_PROFILE);
        suppress_known(profile, round == 2 ? &all : &known, round > 0);
        ck_assert_double_eq(unsuppressed_blocks(profile), expected[round]);
        profile_free(profile);
    }
}
END_TEST

/* By the pattern that the library was given: of the files that fit, the process's own. */
START_TEST(test_find_profile)
{
    char pattern[4200], *path;
    must_run("mkdir -p '%s/find [x]'", test_folder());
    make_profile("find [x]/p.900.1790000000.gz", LEAKS | COLLECTED, 1, 900, NULL);
    make_profile("find [x]/p.900.1790000001.gz", LEAKS | COLLECTED, 2, 901, NULL);
    make_profile("find [x]/100%.gz", COLLECTED, 3, 902, NULL);
    snprintf(pattern, sizeof pattern, "%s/find [x]/p.%%p.%%t.gz", test_folder());
    struct profile *profile = find_profile(pattern, 900, 0, &path);
    ck_assert_ptr_nonnull(profile);
    ck_assert_str_eq(path, in_folder("find [x]/p.900.1790000000.gz"));
    ck_assert_double_eq(head_number(profile, "totals.direct.objects"), 2);
    profile_free(profile);
    free(path);
    ck_assert_ptr_null(
        find_profile(pattern, 901, 0, &path)); /* its name would have another number */
    ck_assert_ptr_null(path);
    ck_assert_ptr_null(find_profile(pattern, 900, INT64_MAX, &path)); /* older than the process */
    snprintf(pattern, sizeof pattern, "%s/find [x]/100%%%%.gz", test_folder());
    profile = find_profile(pattern, 902, 0, &path);
    ck_assert_ptr_nonnull(profile);
    profile_free(profile);
    free(path);
    snprintf(pattern, sizeof pattern, "%s/nowhere/%%p", test_folder());
    ck_assert_ptr_null(find_profile(pattern, 900, 0, &path));
}
END_TEST

#ifndef UNDER_SANITIZER
/* memcheck finds neither errors nor leaks, in any form. */
START_TEST(test_memcheck)
{
    static const char *const formats[] = {"text", "json", "collapsed", "pprof"};
    if (system("command -v valgrind >/dev/null 2>&1")) return;
    make_profile("odd.pb.gz", LEAKS | COLLECTED | ODDITIES | ESTIMATES, 7, 77, "\"nothing\"");
    const char *file = write_text("known.txt", "leak:known\n");
    struct ran ran =
        run_program((const char *[]){"valgrind", "-q", "--error-exitcode=77", "--leak-check=full",
                                     gleaner(), "report", in_folder("odd.pb.gz"), "--show", "lost",
                                     "--suppressions", file, "--format", formats[_i], NULL});
    ck_assert_msg(ran.status == 0, "%d %s", ran.status, ran.err);
    ran_free(&ran);
}
END_TEST
#endif

int main(void)
{
    Suite *suite = suite_create("lost report");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 300);
    test_folder();
    setenv("TZ", "UTC", 1);
    tcase_add_test(tests, test_text);
    tcase_add_test(tests, test_oddities);
    tcase_add_test(tests, test_estimated);
    tcase_add_test(tests, test_nothing_lost);
    tcase_add_test(tests, test_json);
    tcase_add_test(tests, test_other_forms);
    tcase_add_test(tests, test_suppressions);
    tcase_add_test(tests, test_diff);
    tcase_add_test(tests, test_unsuppressed);
    tcase_add_test(tests, test_find_profile);
#ifndef UNDER_SANITIZER
    tcase_add_loop_test(tests, test_memcheck, 0, 4);
#endif
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
