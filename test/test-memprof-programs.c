/* test-memprof-programs.c: the program's own heap profile, from outside: programs/memprof under several configurations,
   without the library, and what the library's own profile says of a program that profiles itself.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "command.h"
#include "suite.h"

#include <check.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *library, *programs;

static struct ran run(const char *conf, const char *program, const char *test)
{
    char path[4096], preload[4096], configuration[512];
    snprintf(path, sizeof path, "%s/%s", programs, program);
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", conf ? library : "");
    snprintf(configuration, sizeof configuration, "GLEANER_CONF=%s", conf ? conf : "");
    return run_program((const char *[]){"env", preload, configuration, path, test, NULL});
}

/* The library's own profile at several rates, and none; with collections, which keep every caller and take every block by the
   slow path; the heap verified, a small nursery; a stack by frame pointers. */
static const char *const plain[] = {"seed:3", "seed:4,sample:0", "seed:5,sample:all", "seed:6,sample:4K,unwind:fp",
                                    "seed:7,sample:0,collect:report,verify:yes", "seed:8,collect:report,nursery:8M"};
static const char *const collecting[] = {"collect:report", "collect:report,sample:0,verify:yes", "collect:report,sample:all",
                                         "collect:report,snapshot:no,verify:yes"};
static const char *const reclaiming[] = {"collect:reclaim,reclaim_delay:0",
                                         "collect:reclaim,reclaim_delay:0,sample:all,verify:yes",
                                         "collect:reclaim,reclaim_delay:0,sample:0,snapshot:no"};
#define COUNT(a) (sizeof(a) / sizeof *(a))

static const struct {
    const char *program, *test;
    enum { PLAIN, COLLECTING, RECLAIMING } how;
} tests[] = {
    {"memprof", "errors", PLAIN},
    {"memprof", "events", PLAIN},
    {"memprof", "several", PLAIN},
    {"memprof", "declined", PLAIN},
    {"memprof", "busy", PLAIN},
    {"memprof", "restart", PLAIN},
    {"memprof", "poll", PLAIN},
    {"memprof", "unbiased", PLAIN},
    {"memprof", "short", PLAIN},
    {"memprof", "resizing", PLAIN},
    {"memprof-threads", "random-all", PLAIN},
    {"memprof-threads", "random-some", PLAIN},
    {"memprof-threads", "random-postponed", PLAIN},
    {"memprof-threads", "older-threads", PLAIN},
    {"memprof-threads", "coming-and-going", PLAIN},
    {"memprof-threads", "thread-ends", PLAIN},
    {"memprof-threads", "fork-alone", PLAIN},
    {"memprof-threads", "fork-among-threads", PLAIN},
    {"memprof-threads", "fork-in-callback", PLAIN},
    {"memprof-blocks", "ages", COLLECTING},
    {"memprof-blocks", "ages-postponed", COLLECTING},
    {"memprof-blocks", "lost", COLLECTING},
    {"memprof-blocks", "reclaimed", RECLAIMING},
    {"memprof-blocks", "roots", COLLECTING},
    {"memprof-blocks", "weak", COLLECTING},
    {"memprof-blocks", "weak-chain", COLLECTING},
    {"memprof-blocks", "weak-threads", COLLECTING},
    {"memprof-blocks", "arena", COLLECTING},
    {"memprof-blocks", "arena-unbiased", COLLECTING},
    {"memprof-blocks", "custom", COLLECTING},
    {"memprof-blocks", "arena-lost", COLLECTING},
    {"memprof-blocks", "arena-threads", COLLECTING},
};

START_TEST(programs_hold)
{
    static const struct {
        const char *const *conf;
        size_t n;
    } ways[] = {{plain, COUNT(plain)}, {collecting, COUNT(collecting)}, {reclaiming, COUNT(reclaiming)}};
    const char *const *conf = ways[tests[_i].how].conf;
    size_t n = ways[tests[_i].how].n;
    for (size_t i = 0; i < n; i++) {
        struct ran ran = run(conf[i], tests[_i].program, tests[_i].test);
        ck_assert_msg(ran.status == 0 && strcmp(ran.out, "ok\n") == 0 && strcmp(ran.err, "") == 0, "%s %s under %s: %d\n%s\n%s",
                      tests[_i].program, tests[_i].test, conf[i], ran.status, ran.out, ran.err);
        ran_free(&ran);
    }
}
END_TEST

/* The header's functions are weak: without the library the program runs, and tells. */
START_TEST(without_the_library)
{
    struct ran ran = run(NULL, "memprof", "events");
    ck_assert_int_eq(ran.status, 1);
    ck_assert_str_eq(ran.out, "Gleaner is not here\n");
    ran_free(&ran);
}
END_TEST

/* What the sites of a profile add up to, and what it knows exactly. */
static double of_sites(json_t *profile, const char *what)
{
    double sum = 0;
    size_t i;
    json_t *site;
    json_array_foreach(json_object_get(profile, "sites"), i, site)
        sum += json_number_value(json_object_get(json_object_get(site, what), "bytes"));
    return sum;
}

static double exact(json_t *profile, const char *what)
{
    return json_number_value(json_object_get(json_object_get(json_object_get(profile, "totals"), what), "bytes"));
}

static void compare(json_t *profile, const char *what, double interval)
{
    double is = of_sites(profile, what), should = exact(profile, what);
    ck_assert(should > 3000 * 25 * 100);
    double deviation = interval > 8 ? sqrt(should * interval) : should * 0.001; /* what was allocated before the sampler began */
    ck_assert_msg(fabs(is - should) < 5 * deviation, "%s: %g bytes, not %g (deviation %g)", what, is, should, deviation);
}

/* 3000 profiles that come and go draw on the library's own process: it stays as it was. */
START_TEST(library_is_not_disturbed)
{
    static const struct {
        const char *sample;
        double interval;
    } rates[] = {{"4K", 4096}, {"256", 256}, {"32K", 32768}, {"all", 8}};
    char conf[512];
    snprintf(conf, sizeof conf, "sample:%s,seed:%d,exit:profile,output:%s", rates[_i].sample, _i + 3, in_folder("p.pb.gz"));
    struct ran ran = run(conf, "memprof", "disturb");
    ck_assert_msg(ran.status == 0, "%s%s", ran.out, ran.err);
    ran_free(&ran);
    ran = run_program((const char *[]){gleaner(), "report", "--format", "json", in_folder("p.pb.gz"), NULL});
    ck_assert_msg(ran.status == 0, "%s", ran.err);
    json_error_t error;
    json_t *profile = json_loads(ran.out, 0, &error);
    ck_assert_msg(profile != NULL, "%s", error.text);
    compare(profile, "live", rates[_i].interval);
    compare(profile, "alloc", rates[_i].interval);
    json_decref(profile);
    ran_free(&ran);
}
END_TEST

int main(void)
{
    library = getenv("GLEANER_TEST_LIBRARY");
    programs = getenv("GLEANER_TEST_PROGRAMS");
    Suite *suite = suite_create("programs that profile themselves");
    TCase *t = tcase_create("all");
    test_folder();
    tcase_set_timeout(t, 600);
    tcase_add_loop_test(t, programs_hold, 0, (int)COUNT(tests));
    tcase_add_test(t, without_the_library);
    tcase_add_loop_test(t, library_is_not_disturbed, 0, 4);
    suite_add_tcase(suite, t);
    return suite_run(suite);
}
