/* test-reclaim-report.c: reclaim from the program to the report: what was returned by call stack, exact, and what keeps the rest; and reports of
   files that are made up here.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "command.h"
#include "profile_maker.h"
#include "suite.h"

#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *json_of(const char *file)
{
    struct ran ran = run_program((const char *[]){gleaner(), "report", "--format", "json", "--top", "0", file, NULL});
    json_error_t error;
    ck_assert_msg(ran.status == 0, "%s", ran.err);
    json_t *j = json_loads(ran.out, 0, &error);
    ck_assert_ptr_nonnull(j);
    ran_free(&ran);
    return j;
}

static json_int_t number(json_t *from, const char *a, const char *b, const char *c)
{
    from = json_object_get(from, a);
    if (b) from = json_object_get(from, b);
    if (c) from = json_object_get(from, c);
    ck_assert_msg(json_is_number(from), "%s.%s.%s", a, b ? b : "", c ? c : "");
    return (json_int_t)json_number_value(from);
}

/* The figures by call stack, by class and in total agree; the parts of memory add up to what is resident. */
START_TEST(exact)
{
    char program[4200];
    snprintf(program, sizeof program, "%s/reclaim-%s", getenv("GLEANER_TEST_PROGRAMS"), _i ? "returns" : "hidden");
    struct ran ran = run_program((const char *[]){gleaner(), "run", "--reclaim", "-c", _i ? "reclaim_delay:0" : "reclaim_delay:300ms", "-o",
                                                  in_folder("run.pb.gz"), program, _i ? "0" : "xor", _i ? NULL : "200", NULL});
    ck_assert_msg(ran.status == 0, "%s%s", ran.out, ran.err);
    ran_free(&ran);
    json_t *j = json_of(in_folder("run.pb.gz")), *site, *class;
    size_t i;
    json_int_t total = number(j, "totals", "reclaimed", "bytes"), objects = number(j, "totals", "reclaimed", "objects");
    ck_assert_int_gt(objects, 1000);
    json_int_t by_site = 0, objects_by_site = 0, by_class = 0, proven = 0;
    json_array_foreach(json_object_get(j, "sites"), i, site)
    {
        by_site += number(site, "reclaimed", "bytes", NULL);
        objects_by_site += number(site, "reclaimed", "objects", NULL);
        proven += number(site, "false_lost", "objects", NULL);
        /* Nothing is reclaimed where anything was proven. */
        if (number(site, "false_lost", "objects", NULL) > 0) ck_assert_int_eq(number(site, "reclaimed", "objects", NULL), 0);
    }
    json_array_foreach(json_object_get(j, "classes"), i, class) by_class += number(class, "reclaimed", "bytes", NULL);
    ck_assert_int_eq(by_site, total);
    ck_assert_int_eq(objects_by_site, objects);
    ck_assert_int_eq(by_class, total);
    ck_assert_int_eq(proven, number(j, "totals", "false_lost", "objects"));
    ck_assert_int_eq(proven > 0, !_i);
    static const char *const parts[] = {"reachable", "lost", "quarantine", "free", "metadata", "other_mappings"};
    json_int_t sum = 0;
    for (i = 0; i < sizeof parts / sizeof *parts; i++) sum += number(j, "memory", parts[i], NULL);
    ck_assert_int_eq(sum, number(j, "memory", "rss", NULL));
    ck_assert(json_is_true(json_object_get(json_object_get(j, "reclaim"), "on")));
    json_decref(j);
    ran = run_program((const char *[]){gleaner(), "report", "--show", "lost", in_folder("run.pb.gz"), NULL});
    expect_part(ran.out, "    reclaimed: ");
    expect_part(ran.out, "\nReclaimed: ");
    if (!_i) {
        const char *proof = strstr(ran.out, "\nProof that ");
        ck_assert_ptr_nonnull(proof);
        expect_part(proof, " in take ");
    }
    ran_free(&ran);
}
END_TEST

static void make(const char *name, const char *head)
{
    struct maker *maker = maker_new(8);
    maker_comment(maker, head);
    uint64_t program = maker_module(maker, 0x400000, 0x500000, 0, "/bin/server", "aaaaaaaa"),
             leak = maker_place(maker, program, 0x400100), user = maker_place(maker, program, 0x400200);
    maker_line(maker, leak, "leak", "/src/server.c", 12);
    maker_line(maker, user, "user", "/src/server.c", 34);
    maker_add(maker, &(struct maker_sample){.places = {leak},
                                            .values = {0, 0, 0, 0, 3, 144},
                                            .lost = "direct",
                                            .labels = {{"misses", 2}}});
    maker_add(maker, &(struct maker_sample){.places = {leak}, .lost = "reclaimed", .labels = {{"lost_objects", 9}, {"lost_bytes", 432}}});
    maker_add(maker, &(struct maker_sample){.places = {leak}, .lost = "false", .labels = {{"lost_objects", 2}, {"lost_bytes", 96}}});
    maker_add(maker, &(struct maker_sample){.places = {user}, .lost = "proof", .labels = {{"lost_objects", 2}}});
    maker_write(maker, in_folder(name));
    maker_free(maker);
}

START_TEST(made_up)
{
    make("made.pb.gz", "#gleaner:{\"version\":1,\"pid\":5,\"command\":\"server\",\"totals\":{\"lost\":{\"objects\":3,\"bytes\":144},"
                       "\"reclaimed\":{\"objects\":9,\"bytes\":432},\"quarantined\":{\"objects\":1,\"bytes\":48},"
                       "\"false_lost\":{\"objects\":2,\"bytes\":96}},\"collections\":{\"minor\":0,\"major\":4,\"incomplete\":0},"
                       "\"reclaim\":{\"on\":false,\"why_off\":\"it \\u001b[31mbroke\",\"vetoes\":2,\"kept\":{\"age\":{\"objects\":2,\"bytes\":96},"
                       "\"what\":{\"objects\":1,\"bytes\":1},\"trial\":7}}}");
    struct ran ran = run_program((const char *[]){gleaner(), "report", "--show", "lost", in_folder("made.pb.gz"), NULL});
    ck_assert_int_eq(ran.status, 0);
    expect_part(ran.out, "    reclaimed: 432 bytes in 9 objects; in quarantine 48 bytes in 1 objects; vetoes: 2\n");
    expect_part(ran.out, "    note: reclaim is off: it ");
    expect_no_part(ran.out, "\x1b");
    expect_part(ran.out, "    not reclaimed: 96 bytes in 2 objects (lost for too short a time)\n");
    expect_no_part(ran.out, "on trial");
    expect_part(ran.out, "Reclaimed: 432 byte(s) in 9 object(s) allocated from:\n    #0 0x400100 in leak /src/server.c:12\n");
    expect_part(ran.out, "Proof that 2 object(s) of one place were not lost, the first by:\n    #0 0x400200 in user /src/server.c:34\n");
    expect_part(ran.out, "SUMMARY: Gleaner: 144 byte(s) leaked in 3 allocation(s).\n");
    ran_free(&ran);
    /* And once more after a way through pprof's format, with names. */
    must_run("'%s' report --format pprof '%s' >'%s'", gleaner(), in_folder("made.pb.gz"), in_folder("again.pb.gz"));
    json_t *j = json_of(in_folder("again.pb.gz")), *site;
    size_t i;
    json_int_t reclaimed = 0;
    json_array_foreach(json_object_get(j, "sites"), i, site) reclaimed += number(site, "reclaimed", "bytes", NULL);
    ck_assert_int_eq(reclaimed, 432);
    json_decref(j);
}
END_TEST

/* Without reclaim nothing is said of it. */
START_TEST(without)
{
    make("without.pb.gz", "#gleaner:{\"version\":1,\"pid\":5,\"command\":\"server\",\"totals\":{\"lost\":{\"objects\":3,\"bytes\":144}},"
                          "\"collections\":{\"minor\":0,\"major\":4,\"incomplete\":0},\"reclaim\":[1,2]}");
    struct ran ran = run_program((const char *[]){gleaner(), "report", "--show", "lost", in_folder("without.pb.gz"), NULL});
    ck_assert_int_eq(ran.status, 0);
    expect_no_part(ran.out, "    reclaimed:");
    ran_free(&ran);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("reclaim in reports");
    TCase *c = tcase_create("all");
    test_folder();
    tcase_set_timeout(c, 240);
    tcase_add_loop_test(c, exact, 0, 2);
    tcase_add_test(c, made_up);
    tcase_add_test(c, without);
    suite_add_tcase(s, c);
    return suite_run(s);
}
