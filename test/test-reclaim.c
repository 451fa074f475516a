/* test-reclaim.c: what is lost comes back, and what only seems to be lost comes to no harm: programs that know which of their blocks are which,
   run under the library; every structure of the heap is checked in each collection's pause.

      test-reclaim PART    late, programs, places
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "command.h"
#include "suite.h"

#include <check.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))
#define FORCED "collect:reclaim,reclaim_delay:0,verify:yes"

/* `words` are the program, in its folder, and its arguments. */
static struct ran run(const char *folder, const char *conf, const char *words)
{
    char preload[4200], configuration[600], program[4200], copy[200];
    const char *argv[16] = {"/usr/bin/env", preload, configuration, program};
    size_t count = 4;
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", getenv("GLEANER_TEST_LIBRARY"));
    snprintf(configuration, sizeof configuration, "GLEANER_CONF=%s", conf);
    snprintf(copy, sizeof copy, "%s", words);
    char *save, *word = strtok_r(copy, " ", &save);
    snprintf(program, sizeof program, "%s/%s", getenv(folder), word);
    while ((word = strtok_r(NULL, " ", &save))) argv[count++] = word;
    argv[count] = NULL;
    return run_program(argv);
}

static struct ran run_reclaim(const char *conf, const char *words)
{
    char with_prefix[200];
    snprintf(with_prefix, sizeof with_prefix, "reclaim-%s", words);
    return run("GLEANER_TEST_PROGRAMS", conf, with_prefix);
}

/* ---- late frees, and what the message says ---- */

#define OFF "gleaner: reclaim is off: the program has freed a block that was reclaimed before; the call was ignored\n"
#define DOUBLE "gleaner: double free of 0x"

static const struct late {
    const char *words;
    bool aborts;
    const char *said, *not_said;
} late[] = {
    {"late free quarantined", false, NULL, "gleaner:"},
    {"late free reclaimed", false, OFF, DOUBLE},
    {"late free-twice quarantined", true, DOUBLE, "reclaim is off"},
    {"late free-twice reclaimed", true, DOUBLE, NULL},
    {"late realloc quarantined", false, NULL, "gleaner:"},
    {"late realloc reclaimed", false, OFF, DOUBLE},
    {"late shrink quarantined", false, NULL, "gleaner:"},
    {"late shrink reclaimed", false, OFF, DOUBLE},
    {"late write quarantined", false, NULL, "gleaner:"},
    {"late large-free quarantined", false, NULL, "gleaner:"},
    {"late large-free reclaimed", false, OFF, DOUBLE},
    {"late large-realloc quarantined", false, NULL, "gleaner:"},
    {"late large-realloc reclaimed", false, OFF, DOUBLE},
    {"late double", true, DOUBLE, "reclaim"},
};
static const char *const samplings[] = {"sample:all", "sample:512K", "sample:0"};

START_TEST(late_uses)
{
    const struct late *l = &late[_i % COUNT(late)];
    char conf[200];
    snprintf(conf, sizeof conf, FORCED ",%s", samplings[_i / COUNT(late)]);
    struct ran ran = run_reclaim(conf, l->words);
    int expected = l->aborts ? 1000 + SIGABRT : 0;
    ck_assert_msg(ran.status == expected, "%s %s: %d %s%s", conf, l->words, ran.status, ran.out, ran.err);
    if (l->said) expect_part(ran.err, l->said);
    if (l->not_said) expect_no_part(ran.err, l->not_said);
    if (!l->aborts) ck_assert_str_eq(ran.out, "done\n");
    ran_free(&ran);
}
END_TEST

/* ---- whole programs ---- */

static const struct {
    const char *conf, *words, *out; /* what it must print last */
} programs[] = {
    {FORCED, "groups parent", "done\n"},
    {FORCED, "groups child", "done\n"},
    {FORCED, "groups ring", "done\n"},
    {FORCED ",sample:all", "groups ring", "done\n"},
    {FORCED, "returns", NULL},
    {FORCED ",sample:all,nursery:256K", "returns", NULL},
    {FORCED ",snapshot:no", "returns", NULL},
    {"collect:reclaim,reclaim_delay:400ms,reclaim_share:50,verify:yes,sample:all", "returns 4", NULL},
    {FORCED ",sample:64K,nursery:1M", "threads 4", "done\n"},
    {FORCED ",sample:all,snapshot:no", "threads 4", "done\n"},
    /* With the default rules nothing is taken that is younger than a minute; with all of them a thousand times as fast what was proven once is not taken. */
    {"collect:reclaim,verify:yes", "hidden xor 50", "whole\n"},
    {"collect:reclaim,verify:yes", "hidden pipe 50", "whole\n"},
    {"collect:reclaim,verify:yes", "hidden file 50", "whole\n"},
    {"collect:reclaim,reclaim_delay:300ms,verify:yes,sample:all", "hidden xor 200", "whole\n"},
    {"collect:reclaim,reclaim_delay:300ms,verify:yes,sample:all", "hidden pipe 200", "whole\n"},
    {"collect:reclaim,reclaim_delay:300ms,verify:yes", "hidden file 200", "whole\n"},
    /* None of the rules that wait speaks for these, nor do their contents: their pages do. */
    {FORCED, "peeked self 4096", "whole\n"},
    {FORCED, "peeked kernel 16384", "whole\n"},
    {FORCED ",sample:all", "peeked self 262144", "whole\n"},
    {FORCED ",snapshot:no", "peeked kernel 262144", "whole\n"},
    {FORCED ",snapshot:no", "peeked self 4096", "whole\n"},
    {FORCED ",pages:pagemap", "peeked kernel 1000000", "whole\n"},
};

START_TEST(whole_programs)
{
    struct ran ran = run_reclaim(programs[_i].conf, programs[_i].words);
    ck_assert_msg(ran.status == 0, "%s %s: %d %s%s", programs[_i].conf, programs[_i].words, ran.status, ran.out, ran.err);
    if (programs[_i].out) ck_assert_str_eq(ran.out, programs[_i].out);
    expect_no_part(ran.err, "gleaner:");
    ran_free(&ran);
}
END_TEST

static unsigned long reclaimed_blocks(const struct ran *ran)
{
    unsigned long blocks = 0, n;
    for (const char *at = ran->err; (at = strstr(at, ", reclaimed ")); at++)
        if (sscanf(at, ", reclaimed %lu blocks", &n) == 1) blocks += n;
    return blocks;
}

/* Blocks of a library that finds them by their distance from others stay; the program's own come back.  Without seals nothing but the rule
   keeps them; with seals a read that is noticed would keep them, and what is lost beside them, too. */
START_TEST(a_library_that_hides_pointers)
{
    static const char *const confs[] = {FORCED ",log:gc", FORCED ",log:gc,reclaim_seal:no", FORCED ",log:gc,reclaim_seal:no,sample:all"};
    struct ran ran = run_reclaim(confs[_i % 3], _i < 3 ? "distance" : "distance-later");
    ck_assert_msg(ran.status == 0, "%d %s%s", ran.status, ran.out, ran.err);
    ck_assert_str_eq(ran.out, "whole\n");
    expect_no_part(ran.err, "gleaner: reclaim is off");
    ck_assert_msg(reclaimed_blocks(&ran) > 1000, "%.3000s", ran.err);
    ran_free(&ran);
}
END_TEST

/* The hidden blocks' place is proven while they are used; what is lost beside them comes back. */
START_TEST(others_are_reclaimed)
{
    struct ran ran = run_reclaim("collect:reclaim,reclaim_delay:300ms,sample:all,log:gc", "hidden xor 200");
    ck_assert_msg(ran.status == 0, "%d %s%s", ran.status, ran.out, ran.err);
    ck_assert_msg(reclaimed_blocks(&ran) > 1000, "%lu in %.3000s", reclaimed_blocks(&ran), ran.err);
    ran_free(&ran);
}
END_TEST

/* ---- where pointers can hide, and be found ---- */

static const char *const places[] = {
    "global", "epoll", "epoll raw", "timer", "timer thread", "shared-page", "arena", "high-tag", "low-tag", "compressed low",
    "compressed shifted", "jmp-buf rbp", "jmp-buf rbx", "coroutine mmap", "coroutine malloc", "vector xmm", "vector ymm", "red-zone",
    "thread-key", "atexit-argument", "unjoined", "all-blocked", "raw-clone argument", "raw-clone stack", "thread-local",
    "under-alternate", "past-end", "before-start", "misaligned", "alternate-stack", "unreadable", "putenv", "thread-atexit",
    "unfrozen dont", "unfrozen wipe",
};

START_TEST(hiding_places)
{
    struct ran ran = run("GLEANER_TEST_LEAKS_PROGRAMS", _i % 2 ? FORCED ",sample:all" : FORCED, places[_i / 2]);
    ck_assert_msg(ran.status == 0 || ran.status == 77, "%s: %d %s%s", places[_i / 2], ran.status, ran.out, ran.err);
    expect_no_part(ran.err, "gleaner:");
    ran_free(&ran);
}
END_TEST

/* ---- processes in which nothing is reclaimed ---- */

START_TEST(refusals)
{
    static const char *const words[][2] = {
        {"refused shared", "gleaner: reclaim is off: another process has its memory\n"},
        {"refused ring", "gleaner: reclaim is off: the process uses io_uring or kernel AIO, which hide pointers\n"},
        {"java java", "gleaner: reclaim is off: a Java virtual machine keeps pointers where nobody sees them\n"},
    };
    struct ran ran = run_reclaim("collect:reclaim,reclaim_delay:0,log:gc", words[_i][0]);
    ck_assert_msg(ran.status == 0 || ran.status == 77, "%s: %d %s%s", words[_i][0], ran.status, ran.out, ran.err);
    if (ran.status == 0) expect_part(ran.err, words[_i][1]);
    ran_free(&ran);
    if (_i != 2) return;
    ran = run_reclaim("collect:reclaim,reclaim_delay:0,reclaim_anyway:yes", "java java anyway");
    ck_assert_msg(ran.status == 0, "%d %s%s", ran.status, ran.out, ran.err);
    expect_no_part(ran.err, "gleaner:");
    ran_free(&ran);
    ran = run_reclaim("collect:reclaim,reclaim_delay:0", "refused shared passing");
    ck_assert_msg(ran.status == 0, "%d %s%s", ran.status, ran.out, ran.err);
    expect_no_part(ran.err, "gleaner:");
    ran_free(&ran);
}
END_TEST

/* No other process may look at a server that has dropped its privileges, a snapshot's child included: what is lost comes back all the same, and who
   shares its memory is found. */
START_TEST(dropped_privileges)
{
    static const char *const words[] = {"refused user anyway", "refused saved anyway", "refused user-shared"};
    struct ran ran = run_reclaim(_i % 2 ? FORCED ",snapshot:no" : FORCED, words[_i / 2]);
    ck_assert_msg(ran.status == 0 || ran.status == 77, "%s: %d %s%s", words[_i / 2], ran.status, ran.out, ran.err);
    if (_i / 2 == 2) expect_part(ran.err, "gleaner: reclaim is off: another process has its memory\n");
    else expect_no_part(ran.err, "gleaner:");
    ran_free(&ran);
}
END_TEST

int main(int argc, char **argv)
{
    const char *part = argc > 1 ? argv[1] : "";
    Suite *s = suite_create("reclaim");
    TCase *c = tcase_create(part);
    tcase_set_timeout(c, 240);
    if (!strcmp(part, "late")) tcase_add_loop_test(c, late_uses, 0, COUNT(late) * COUNT(samplings));
    if (!strcmp(part, "programs")) {
        tcase_add_loop_test(c, whole_programs, 0, COUNT(programs));
        tcase_add_test(c, others_are_reclaimed);
        tcase_add_loop_test(c, a_library_that_hides_pointers, 0, 6);
        tcase_add_loop_test(c, refusals, 0, 3);
        tcase_add_loop_test(c, dropped_privileges, 0, 6);
    }
    if (!strcmp(part, "places")) tcase_add_loop_test(c, hiding_places, 0, 2 * COUNT(places));
    suite_add_tcase(s, c);
    return suite_run(s);
}
