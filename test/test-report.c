/* test-report.c: what `report` and `diff` print, against texts written by hand from the profile
   that is made here. SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "command.h"
#include "profile_maker.h"
#include "suite.h"

#include <check.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A service whose profile has names: cache_add (400 bytes live, then more) under serve, under main;
   and a library of which nothing is known but the offset. `slide` moves the modules, as the loader
   does; `kept` blocks of 100 bytes are live at cache_add. `period` 8 is exact. */
static void make_profile(const char *name, int64_t period, uint64_t slide, int64_t kept,
                         int64_t seconds)
{
    struct maker *maker = maker_new(period);
    char comment[1024];
    snprintf(comment, sizeof comment,
             "gleaner:{\"version\":1,\"pid\":77,\"parent\":1,\"command\":\"/bin/server -x\","
             "\"reason\":\"exit\",\"time\":%ld.5,\"sample_bytes\":%ld,"
             "\"totals\":{\"alloc\":{\"objects\":600,\"bytes\":61024},"
             "\"live\":{\"objects\":%ld,\"bytes\":%ld},\"lost\":{\"objects\":0,\"bytes\":0},"
             "\"peak\":{\"bytes\":60000,\"time\":%ld.25}},"
             "\"classes\":[{\"size\":112,\"alloc\":{\"objects\":600,\"bytes\":61024}}],"
             "\"collections\":{\"minor\":0,\"major\":0,\"incomplete\":0,\"promoted_bytes\":0},"
             "\"memory\":{\"rss\":1048576,\"pools\":65536,\"large\":0}}",
             (long)seconds, (long)period, (long)kept + 1, (long)kept * 100 + 1024, (long)seconds);
    maker_comment(maker, comment);
    maker_time(maker, seconds * 1000000000 + 500000000, 2500000000);
    uint64_t program = maker_module(maker, 0x400000 + slide, 0x500000 + slide, 0, "/bin/server",
                                    "aaaaaaaa"),
             library = maker_module(maker, 0x700000 + slide, 0x710000 + slide, 0x2000,
                                    "/nowhere/libx.so.1", "bbbbbbbb");
    uint64_t add = maker_place(maker, program, 0x400100 + slide),
             serve = maker_place(maker, program, 0x400200 + slide),
             start = maker_place(maker, program, 0x400300 + slide),
             inside = maker_place(maker, library, 0x700010 + slide);
    maker_line(maker, add, "hash_insert", "cache.c", 5); /* inlined into */
    maker_line(maker, add, "cache_add", "cache.c", 41);
    maker_line(maker, serve, "serve", "server.c", 120);
    maker_line(maker, start, "main", "server.c", 300);
    maker_add(maker,
              &(struct maker_sample){.places = {add, serve, start},
                                     .values = {500, 50000, kept, kept * 100, 0, 0, 450, 45000},
                                     .size = 100,
                                     .alloc_points = period == 8 ? 6500 : 50000 / period,
                                     .live_points = period == 8 ? kept * 13 : kept * 100 / period,
                                     .source = "malloc"});
    maker_add(maker, &(struct maker_sample){.places = {inside, start},
                                            .values = {1, 1024, 1, 1024, 0, 0, 1, 1024},
                                            .size = 1024,
                                            .alloc_points = period == 8 ? 128 : 1,
                                            .live_points = period == 8 ? 128 : 1,
                                            .source = "realloc"});
    maker_add(maker, &(struct maker_sample){.places = {serve, start},
                                            .values = {99, 10000, 0, 0, 0, 0, 0, 0},
                                            .size = 101,
                                            .alloc_points = period == 8 ? 1287 : 10000 / period,
                                            .source = "malloc"});
    maker_write(maker, in_folder(name));
    maker_free(maker);
}

static struct ran report(const char *file, const char *a, const char *b, const char *c,
                         const char *d)
{
    return run_program((const char *[]){gleaner(), "report", in_folder(file), a, b, c, d, NULL});
}

/* The only thing on stderr is that the library's file is not there. */
static const char missing[] =
    "gleaner: /nowhere/libx.so.1 was not found here: its addresses stay without names\n";

/* 1790000000 is 2026-09-21 14:13:20 UTC. */
START_TEST(test_text_exact)
{
    static const char expected[] =
        "==77==Gleaner: heap profile of /bin/server -x\n"
        "    taken 2026-09-21 14:13:20 (exit), after 2.5 s; every block was recorded\n"
        "\n"
        "Totals (exact)              blocks             bytes\n"
        "    allocated                  600             61024  (59.6 KiB)\n"
        "    live                       401             41024  (40.1 KiB)\n"
        "    peak                                       60000  (58.6 KiB) at 2026-09-21 14:13:20\n"
        "\n"
        "Live by call stack: 41024 bytes (40.1 KiB) at 2 stacks\n"
        "\n"
        "Live 97.5%: 40000 bytes in 400 blocks allocated from:\n"
        "    #0 0x400100 in hash_insert cache.c:5 (server)\n"
        "    #1 0x400100 in cache_add cache.c:41 (server)\n"
        "    #2 0x400200 in serve server.c:120 (server)\n"
        "    #3 0x400300 in main server.c:300 (server)\n"
        "\n"
        "Live 2.5%: 1024 bytes in 1 blocks allocated from:\n"
        "    #0 0x700010 (libx.so.1+0x2010)\n"
        "    #1 0x400300 in main server.c:300 (server)\n"
        "\n"
        "Memory of the process\n"
        "    resident (RSS)                 1048576  (1.0 MiB)\n"
        "    pools                            65536  (64.0 KiB)\n"
        "    large                                0  (0 B)\n";
    make_profile("exact.pb.gz", 8, 0, 400, 1790000000);
    struct ran ran = report("exact.pb.gz", NULL, NULL, NULL, NULL);
    ck_assert_int_eq(ran.status, 0);
    ck_assert_str_eq(ran.out, expected);
    ck_assert_str_eq(ran.err, missing);
    ran_free(&ran);
    /* Sorted and shared out by what is shown; --top counts stacks. */
    ran = report("exact.pb.gz", "--show", "alloc", "--top", "1");
    expect_part(ran.out, "Allocated 81.9%: 50000 bytes in 500 blocks allocated from:\n");
    expect_part(ran.out, "and 2 more (--top 0 shows all)");
    ran_free(&ran);
    ran = report("exact.pb.gz", "--show=peak", NULL, NULL, NULL);
    expect_part(ran.out, "At the peak 97.8%: 45000 bytes in 450 blocks");
    ran_free(&ran);
    ran = report("exact.pb.gz", "--show=lost", NULL, NULL, NULL);
    ck_assert_int_eq(ran.status, 0);
    expect_part(ran.out, "\nNobody has looked for lost blocks: ");
    expect_no_part(ran.out, "by call stack");
    ran_free(&ran);
}
END_TEST

/* One sample every 4000 bytes, ten of them live: Garwood's interval of 10 is 4.795 to 18.390, times
   4000 bytes or 40 blocks, its distances from 10 shrunk by sqrt(1 - 8/4000) = 0.9990: low 10
   - 5.205 * 0.9990 = 4.8006, high 10 + 8.390 * 0.9990 = 18.382. */
START_TEST(test_text_estimated)
{
    make_profile("estimated.pb.gz", 4000, 0, 400, 1790000000);
    struct ran ran = report("estimated.pb.gz", NULL, NULL, NULL, NULL);
    expect_part(ran.out, "; one sample every 3.9 KiB on average\n");
    double low, high, low_blocks, high_blocks;
    const char *at = strstr(ran.out, "Live 97.5%: ");
    ck_assert_msg(at, "%s", ran.out);
    ck_assert_int_eq(sscanf(at,
                            "Live 97.5%%: 40000 bytes (95%% %lf-%lf) in 400 blocks (95%% %lf-%lf) "
                            "allocated from:",
                            &low, &high, &low_blocks, &high_blocks),
                     4);
    ck_assert_double_eq_tol(low, 19202, 60); /* estimate.h promises 0.2 % */
    ck_assert_double_eq_tol(high, 73528, 150);
    ck_assert_double_eq_tol(low_blocks, 192, 1);
    ck_assert_double_eq_tol(high_blocks, 735, 2);
    expect_part(ran.out, "at 2 stacks, estimated\n");
    ran_free(&ran);
}
END_TEST

static json_t *load(const char *text)
{
    json_error_t error;
    json_t *json = json_loads(text, 0, &error);
    ck_assert_msg(json, "%s in %s", error.text, text);
    return json;
}

static json_int_t number(const json_t *from, const char *object, const char *key)
{
    const json_t *value = json_object_get(json_object_get(from, object), key);
    ck_assert_msg(json_is_integer(value), "%s.%s", object, key);
    return json_integer_value(value);
}

/* Every key of the schema is there; figures have their interval beside them, exact ones have none.
 */
START_TEST(test_json)
{
    static const char *const top[] = {"version", "pid",     "command",     "time",   "sample_bytes",
                                      "totals",  "classes", "collections", "memory", "sites"};
    static const char *const totals[] = {"alloc",    "live",      "lost",       "indirect",
                                         "possible", "reclaimed", "false_lost", "peak"};
    static const char *const of_site[] = {"stack", "source",    "alloc",      "live",
                                          "lost",  "reclaimed", "false_lost", "lifetime"};
    make_profile("exact.pb.gz", 8, 0, 400, 1790000000);
    struct ran ran = report("exact.pb.gz", "--format", "json", NULL, NULL);
    ck_assert_int_eq(ran.status, 0);
    json_t *json = load(ran.out);
    for (size_t i = 0; i < sizeof top / sizeof *top; i++)
        ck_assert_msg(json_object_get(json, top[i]), "%s", top[i]);
    for (size_t i = 0; i < sizeof totals / sizeof *totals; i++)
        ck_assert_msg(json_object_get(json_object_get(json, "totals"), totals[i]), "%s", totals[i]);
    ck_assert_int_eq(json_integer_value(json_object_get(json, "pid")), 77);
    ck_assert_double_eq(json_number_value(json_object_get(json, "time")), 1790000000.5);
    ck_assert_int_eq(number(json, "memory", "rss"), 1048576);
    json_t *sites = json_object_get(json, "sites"), *site = json_array_get(sites, 0);
    ck_assert_uint_eq(json_array_size(sites), 3);
    for (size_t i = 0; i < sizeof of_site / sizeof *of_site; i++)
        ck_assert_msg(json_object_get(site, of_site[i]), "%s", of_site[i]);
    ck_assert_int_eq(number(site, "live", "bytes"), 40000);
    ck_assert_int_eq(number(site, "live", "objects"), 400);
    ck_assert_int_eq(number(site, "alloc", "bytes"), 50000);
    ck_assert_int_eq(number(site, "lost", "direct_bytes"), 0);
    ck_assert_ptr_null(json_object_get(json_object_get(site, "live"), "bytes_ci95"));
    ck_assert_str_eq(json_string_value(json_object_get(site, "source")), "malloc");
    json_t *step = json_array_get(json_object_get(site, "stack"), 1);
    ck_assert_str_eq(json_string_value(json_object_get(step, "function")), "cache_add");
    ck_assert_str_eq(json_string_value(json_object_get(step, "file")), "cache.c");
    ck_assert_int_eq(json_integer_value(json_object_get(step, "line")), 41);
    ck_assert_str_eq(json_string_value(json_object_get(step, "module")), "/bin/server");
    ck_assert_str_eq(json_string_value(json_object_get(step, "address")), "0x400100");
    json_decref(json);
    ran_free(&ran);

    make_profile("estimated.pb.gz", 4000, 0, 400, 1790000000);
    ran = report("estimated.pb.gz", "--format=json", "--top=1", NULL, NULL);
    json = load(ran.out);
    sites = json_object_get(json, "sites");
    ck_assert_uint_eq(json_array_size(sites), 1);
    json_t *interval =
        json_object_get(json_object_get(json_array_get(sites, 0), "live"), "bytes_ci95");
    ck_assert_uint_eq(json_array_size(interval), 2);
    ck_assert_int_lt(json_integer_value(json_array_get(interval, 0)), 40000);
    ck_assert_int_gt(json_integer_value(json_array_get(interval, 1)), 40000);
    json_decref(json);
    ran_free(&ran);
}
END_TEST

START_TEST(test_collapsed)
{
    make_profile("exact.pb.gz", 8, 0, 400, 1790000000);
    struct ran ran = report("exact.pb.gz", "--format", "collapsed", NULL, NULL);
    ck_assert_str_eq(ran.out, "main;libx.so.1+0x2010 1024\n"
                              "main;serve;cache_add;hash_insert 40000\n");
    ran_free(&ran);
    ran = report("exact.pb.gz", "--format", "collapsed", "--show", "alloc");
    ck_assert_str_eq(ran.out, "main;libx.so.1+0x2010 1024\n"
                              "main;serve 10000\n"
                              "main;serve;cache_add;hash_insert 50000\n");
    ran_free(&ran);
}
END_TEST

/* What we write as pprof, we read back as the same report. */
START_TEST(test_pprof_round_trip)
{
    make_profile("estimated.pb.gz", 4000, 0, 400, 1790000000);
    must_run("'%s' report --format pprof '%s' >'%s' 2>/dev/null", gleaner(),
             in_folder("estimated.pb.gz"), in_folder("again.pb.gz"));
    static const char *const formats[] = {"text", "json", "collapsed"};
    for (int i = 0; i < 3; i++) {
        struct ran first = report("estimated.pb.gz", "--format", formats[i], NULL, NULL);
        struct ran second = report("again.pb.gz", "--format", formats[i], NULL, NULL);
        ck_assert_str_eq(first.out, second.out);
        ran_free(&first);
        ran_free(&second);
    }
}
END_TEST

/* `go tool pprof` shows the figures that we show: by function, for each of the kinds. */
START_TEST(test_go_pprof_agrees)
{
    static const struct {
        const char *index, *lines[3];
    } cases[] = {
        {"inuse_space", {"40000B 97.50%", "hash_insert", "41024B total"}},
        {"alloc_space", {"50000B 81.93%", "10000B 16.39%", "61024B total"}},
        {"inuse_objects", {"400B 99.75%", "hash_insert", "401B total"}},
        {"peak_space", {"45000B 97.78%", "hash_insert", "46024B total"}},
    };
    if (system("command -v go >/dev/null 2>&1")) return;
    make_profile("exact.pb.gz", 8, 0, 400, 1790000000);
    must_run("'%s' report --format pprof '%s' >'%s' 2>/dev/null", gleaner(),
             in_folder("exact.pb.gz"), in_folder("named.pb.gz"));
    char index[64];
    snprintf(index, sizeof index, "-sample_index=%s", cases[_i].index);
    struct ran ran = run_program((const char *[]){"go", "tool", "pprof", "-top", "-unit=B", index,
                                                  in_folder("named.pb.gz"), NULL});
    ck_assert_msg(ran.status == 0, "%s", ran.err);
    for (int i = 0; i < 3; i++) expect_part(ran.out, cases[_i].lines[i]);
    ran_free(&ran);
}
END_TEST

static struct ran diff(const char *older, const char *newer)
{
    return run_program(
        (const char *[]){gleaner(), "diff", in_folder(older), in_folder(newer), NULL});
}

/* Exact profiles of two runs at different addresses: the growth is that of the one stack that grew.
 */
START_TEST(test_diff_exact)
{
    static const char expected[] =
        "Growth of live memory of /bin/server -x\n"
        "    from 2026-09-21 14:13:20 to 2026-09-21 14:14:20 (60.0 s)\n"
        "    live, exact: 40.1 KiB to 50.8 KiB, +11000 bytes\n"
        "\n"
        "Grew: +11000 bytes in +110 blocks, from 40000 to 51000 bytes, allocated from:\n"
        "    #0 0xa00100 in hash_insert cache.c:5 (server)\n"
        "    #1 0xa00100 in cache_add cache.c:41 (server)\n"
        "    #2 0xa00200 in serve server.c:120 (server)\n"
        "    #3 0xa00300 in main server.c:300 (server)\n";
    make_profile("old.pb.gz", 8, 0, 400, 1790000000);
    make_profile("new.pb.gz", 8, 0x600000, 510, 1790000060);
    struct ran ran = diff("old.pb.gz", "new.pb.gz");
    ck_assert_int_eq(ran.status, 0);
    ck_assert_str_eq(ran.out, expected);
    ran_free(&ran);
    ran = diff("new.pb.gz", "old.pb.gz");
    expect_part(ran.out, "Shrank: -11000 bytes in -110 blocks, from 51000 to 40000 bytes");
    expect_part(ran.err, "is older than");
    ran_free(&ran);
    ran = diff("old.pb.gz", "old.pb.gz");
    expect_part(ran.out, "Nothing grew or shrank");
    ran_free(&ran);
}
END_TEST

/* From 10 to 12 samples says nothing; from 10 to 100 does. */
START_TEST(test_diff_estimated)
{
    make_profile("old.pb.gz", 4000, 0, 400, 1790000000);
    make_profile("near.pb.gz", 4000, 0x600000, 480, 1790000060);
    make_profile("far.pb.gz", 4000, 0x600000, 4000, 1790000060);
    struct ran ran = diff("old.pb.gz", "near.pb.gz");
    expect_part(ran.out, "Nothing grew or shrank beyond the noise of sampling.");
    expect_part(ran.out, "Within the noise of sampling: 1 stack, together +8000 bytes.");
    ran_free(&ran);
    ran = diff("old.pb.gz", "far.pb.gz");
    const char *at = strstr(ran.out, "Grew: ");
    ck_assert_msg(at, "%s", ran.out);
    double low, high;
    ck_assert_int_eq(
        sscanf(at, "Grew: +360000 bytes (95%% +%lf to +%lf) in +3600 blocks", &low, &high), 2);
    /* Zou and Donner: the root of the sum of squares of the distances, which are 100 - 81.36
       and 18.39 - 10 sample points below, 121.63 - 100 and 10 - 4.795 above (Garwood), of 4000
       bytes each. */
    ck_assert_double_eq_tol(low, 360000 - 4000 * sqrt(18.64 * 18.64 + 8.39 * 8.39), 600);
    ck_assert_double_eq_tol(high, 360000 + 4000 * sqrt(21.63 * 21.63 + 5.205 * 5.205), 600);
    ran_free(&ran);
}
END_TEST

/* --base gives the same growth in the other forms. */
START_TEST(test_base)
{
    make_profile("old.pb.gz", 8, 0, 400, 1790000000);
    make_profile("new.pb.gz", 8, 0x600000, 510, 1790000060);
    char base[4200];
    snprintf(base, sizeof base, "--base=%s", in_folder("old.pb.gz"));
    struct ran ran = report("new.pb.gz", base, "--format", "collapsed", NULL);
    ck_assert_str_eq(ran.out, "main;serve;cache_add;hash_insert 11000\n");
    ran_free(&ran);
    ran = report("new.pb.gz", base, NULL, NULL, NULL);
    expect_part(ran.out, "\nNewer minus older           blocks             bytes\n");
    expect_part(ran.out, "Live: +11000 bytes in +110 blocks allocated from:\n");
    ran_free(&ran);
    ran = report("new.pb.gz", base, "--format", "json", NULL);
    json_t *json = load(ran.out);
    ck_assert_int_eq(number(json_object_get(json, "totals"), "live", "bytes"), 11000);
    ck_assert_int_eq(number(json_array_get(json_object_get(json, "sites"), 0), "live", "objects"),
                     110);
    json_decref(json);
    ran_free(&ran);
}
END_TEST

/* Usage errors say what is wrong in one line and end with 2; missing and bad files with 1. */
START_TEST(test_errors)
{
    static const struct {
        const char *arguments[5], *said;
        int status;
    } cases[] = {
        {{"report"}, "one FILE or PID is needed", 2},
        {{"report", "--format", "xml", "x"}, "--format takes text, json, collapsed or pprof", 2},
        {{"report", "--show", "all", "x"}, "--show takes live, alloc, peak, lost or survival", 2},
        {{"report", "--show=survival", "--format=pprof", "x"}, "--show survival is text or json", 2},
        {{"report", "--show=survival", "--base", "y", "x"}, "takes no --base", 2},
        {{"report", "--show=survival", "--holders=3", "x"}, "--show survival and --holders are two reports", 2},
        {{"report", "--holders", "", "x"}, "--holders takes a call stack", 2},
        {{"report", "--holders", "3", "--format", "pprof"}, "one FILE or PID is needed", 2},
        {{"report", "--holders=3", "--format", "pprof", "x"}, "--holders is shown as text or json, of one profile", 2},
        {{"report", "--holders=3", "--base", "y", "x"}, "--holders is shown as text or json, of one profile", 2},
        {{"report", "--holders", "3", "/dev/null"}, "/dev/null is empty", 1},
        {{"dump", "--leaks", "--holders", "1"}, "--leaks and --holders are two dumps", 2},
        {{"report", "--top", "-1", "x"}, "--top takes a number", 2},
        {{"report", "--nothing", "x"}, "there is no option --nothing", 2},
        {{"report", "--format"}, "--format needs a value", 2},
        {{"report", "/nowhere/at/all"}, "/nowhere/at/all: No such file or directory", 1},
        {{"report", "/"}, "/: Is a directory", 1},
        {{"report", "/dev/null"}, "/dev/null is empty", 1},
        {{"diff", "/dev/null"}, "two profiles are needed", 2},
        {{"diff", "/dev/null", "/dev/null"}, "is empty", 1},
        {{"dump"}, "one PID is needed", 2},
        {{"report", "--suppressions"}, "--suppressions needs a value", 2},
        {{"dump", "init"}, "'init' is no process number", 2},
        {{"list", "x"}, "list takes no argument", 2},
        {{"top"}, "top is not in this version", 2},
        {{"frobnicate"}, "there is no command 'frobnicate'", 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *argv[7] = {gleaner()};
        memcpy(argv + 1, cases[i].arguments, sizeof cases[i].arguments);
        struct ran ran = run_program(argv);
        ck_assert_int_eq(ran.status, cases[i].status);
        expect_part(ran.err, cases[i].said);
        ck_assert_str_eq(ran.out, "");
        ck_assert_msg(strchr(ran.err, '\n') == ran.err + strlen(ran.err) - 1, "%s", ran.err);
        ran_free(&ran);
    }
}
END_TEST

START_TEST(test_help)
{
    static const char *const commands[] = {"run", "list", "dump", "report", "diff"};
    struct ran ran = run_program((const char *[]){gleaner(), "--help", NULL});
    for (int i = 0; i < 5; i++) {
        char name[32];
        snprintf(name, sizeof name, "  gleaner %s ", commands[i]);
        expect_part(ran.out, name);
    }
    ran_free(&ran);
    for (int i = 0; i < 5; i++) {
        char usage[48];
        ran = run_program((const char *[]){gleaner(), commands[i], "--help", NULL});
        snprintf(usage, sizeof usage, "Usage: gleaner %s", commands[i]);
        ck_assert_int_eq(ran.status, 0);
        expect_part(ran.out, usage);
        ck_assert_str_eq(ran.err, "");
        ran_free(&ran);
    }
    ran = run_program((const char *[]){gleaner(), "--version", NULL});
    ck_assert_int_eq(strncmp(ran.out, "gleaner 0.", 10), 0);
    ran_free(&ran);
}
END_TEST

/* A full disk is one line and status 1. */
START_TEST(test_full_disk)
{
    make_profile("exact.pb.gz", 8, 0, 400, 1790000000);
    char line[9000];
    snprintf(line, sizeof line, "'%s' report '%s' >/dev/full", gleaner(), in_folder("exact.pb.gz"));
    struct ran ran = run_program((const char *[]){"sh", "-c", line, NULL});
    ck_assert_int_eq(ran.status, 1);
    expect_part(ran.err, "cannot write the output: No space left on device");
    ran_free(&ran);
}
END_TEST

#ifndef UNDER_SANITIZER
/* memcheck finds neither errors nor leaks, in any form. */
START_TEST(test_memcheck)
{
    static const char *const formats[] = {"text", "json", "collapsed", "pprof"};
    if (system("command -v valgrind >/dev/null 2>&1")) return;
    make_profile("old.pb.gz", 4000, 0, 400, 1790000000);
    make_profile("new.pb.gz", 4000, 0x600000, 510, 1790000060);
    struct ran ran = run_program((const char *[]){
        "valgrind", "-q", "--error-exitcode=77", "--leak-check=full", gleaner(), "report",
        in_folder("new.pb.gz"), "--base", in_folder("old.pb.gz"), "--format", formats[_i], NULL});
    ck_assert_msg(ran.status == 0, "%d %s", ran.status, ran.err);
    ran_free(&ran);
}
END_TEST
#endif

int main(void)
{
    Suite *suite = suite_create("report");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 300);
    test_folder();
    tcase_add_test(tests, test_text_exact);
    tcase_add_test(tests, test_text_estimated);
    tcase_add_test(tests, test_json);
    tcase_add_test(tests, test_collapsed);
    tcase_add_test(tests, test_pprof_round_trip);
    tcase_add_loop_test(tests, test_go_pprof_agrees, 0, 4);
    tcase_add_test(tests, test_diff_exact);
    tcase_add_test(tests, test_diff_estimated);
    tcase_add_test(tests, test_base);
    tcase_add_test(tests, test_errors);
    tcase_add_test(tests, test_help);
    tcase_add_test(tests, test_full_disk);
#ifndef UNDER_SANITIZER
    tcase_add_loop_test(tests, test_memcheck, 0, 4);
#endif
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
