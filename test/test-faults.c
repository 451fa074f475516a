/* test-faults.c: bad input and missing parts: one clear line each, and the program runs on.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "command.h"
#include "product.h"
#include "suite.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The program of every run; its output and status must come through. */
#define PROGRAM "sh", "-c", "echo runs on; exit 7"

static void expect_one_line(const char *text, const char *part)
{
    const char *end = strchr(text, '\n');
    ck_assert_msg(end && end[1] == 0, "not one line: '%s'", text);
    ck_assert_msg(strncmp(text, "gleaner: ", 9) == 0, "%s", text);
    expect_part(text, part);
}

/* Configuration that cannot be used is named once and skipped. */
START_TEST(bad_configuration)
{
    static const char *const cases[][2] = {
        {"colour:blue", "unknown key 'colour'"},
        {"depth:0", "bad value '0' for depth"},
        {"unwind:magic", "bad value 'magic' for unwind"},
        {"sample:-3", "bad value '-3' for sample"},
        {"signal:9", "bad value '9' for signal"},
    };
    const char *argv[] = {gleaner(), "run", "-o", in_folder("conf.pb.gz"), "-c", cases[_i][0],
                          "-c", "follow:no", PROGRAM, NULL};
    struct ran ran = run_program(argv);
    ck_assert_str_eq(ran.out, "runs on\n");
    ck_assert_int_eq(ran.status, 7);
    expect_one_line(ran.err, cases[_i][1]);
    ran_free(&ran);
    ck_assert_int_eq(access(in_folder("conf.pb.gz"), F_OK), 0);
}
END_TEST

/* Where no file can be made, no file is made; what was there stays. */
START_TEST(unwritable_output)
{
    must_run("mkdir '%s/file-in-the-way' && echo old > '%s/file-in-the-way/old'", test_folder(),
             test_folder());
    static const char *const places[] = {"/proc/none/profile", "no-such-folder/profile",
                                         "file-in-the-way", "file-in-the-way/old/profile"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *argv[] = {gleaner(), "run", "-o", *places[i] == '/' ? places[i] : in_folder(places[i]), "-c", "follow:no", PROGRAM, NULL};
        struct ran ran = run_program(argv);
        ck_assert_str_eq(ran.out, "runs on\n");
        ck_assert_int_eq(ran.status, 7);
        expect_one_line(ran.err, places[i]);
        ran_free(&ran);
    }
    must_run("test \"$(cat '%s/file-in-the-way/old')\" = old && test \"$(ls -A '%s/file-in-the-way')\" = old",
             test_folder(), test_folder());
}
END_TEST

/* A limit on file sizes stands for the full disk: the half file is removed.  (The shell ignores
   the limit's signal, and so does the program.) */
START_TEST(full_disk)
{
    must_run("mkdir '%s/full'", test_folder());
    char line[1024];
    snprintf(line, sizeof line, "trap '' XFSZ; ulimit -f 0; exec '%s' run -s all -o '%s' python3 -c pass",
             gleaner(), in_folder("full/profile"));
    const char *argv[] = {"sh", "-c", line, NULL};
    struct ran ran = run_program(argv);
    ck_assert_int_eq(ran.status, 0);
    must_run("test -z \"$(ls -A '%s/full')\"", test_folder());
    ran_free(&ran);
}
END_TEST

/* Profiles that are cut short, empty, changed, or none. */
START_TEST(broken_profiles)
{
    const char *whole = strdup(in_folder("whole.pb.gz"));
    const char *make[] = {gleaner(), "run", "-s", "all", "-o", whole, "sqlite3", ":memory:",
                          "select 1;", NULL};
    struct ran ran = run_program(make);
    ck_assert_int_eq(ran.status, 0);
    ran_free(&ran);
    must_run("cd '%s' && head -c 1000 whole.pb.gz > cut && : > empty && echo text > text && "
             "gunzip -c whole.pb.gz | head -c 700 > cut-plain && mkdir folder && "
             "head -c 100000 /dev/zero | gzip > zeros", test_folder());
    static const char *const broken[] = {"cut", "empty", "text", "cut-plain", "folder", "zeros",
                                         "missing"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        const char *argv[] = {gleaner(), "report", in_folder(broken[i]), NULL};
        ran = run_program(argv);
        ck_assert_msg(ran.status != 0 && ran.status < 128, "%s: %d %s", broken[i], ran.status, ran.out);
        ck_assert_str_eq(ran.out, "");
        expect_one_line(ran.err, broken[i]);
        ran_free(&ran);
        const char *against[] = {gleaner(), "diff", whole, in_folder(broken[i]), NULL};
        ran = run_program(against);
        ck_assert_int_ne(ran.status, 0);
        expect_one_line(ran.err, broken[i]);
        ran_free(&ran);
    }
}
END_TEST

static double named_share(const char *file)
{
    json_t *report = product_report(file);
    double all = product_sum(report, NULL, "alloc", "bytes");
    double named = product_sum(report, "main", "alloc", "bytes");
    json_decref(report);
    ck_assert_double_gt(all, 0);
    return named / all;
}

/* Without libunwind, or with frame pointers, the profile is made all the same.  A file that is no
   library stands for the missing one: the loader finds it first and opens nothing else. */
START_TEST(without_libunwind)
{
    must_run("mkdir '%s/empty-libraries' && : > '%s/empty-libraries/libunwind.so.8'", test_folder(),
             test_folder());
    char path[512];
    snprintf(path, sizeof path, "LD_LIBRARY_PATH=%s", in_folder("empty-libraries"));
    const char *missing = strdup(in_folder("missing.pb.gz"));
    const char *present = strdup(in_folder("present.pb.gz"));
    const char *without[] = {"env", path, gleaner(), "run", "-s", "all", "-o", missing,
                             getenv("GLEANER_HOLDER"), NULL};
    const char *with[] = {gleaner(), "run", "-s", "all", "-o", present, getenv("GLEANER_HOLDER"), NULL};
    struct ran ran = run_program(without);
    ck_assert_int_eq(ran.status, 0);
    if (*ran.err) expect_one_line(ran.err, "libunwind");
    ran_free(&ran);
    ran = run_program(with);
    ck_assert_int_eq(ran.status, 0);
    ck_assert_str_eq(ran.err, "");
    ran_free(&ran);
    ck_assert_double_gt(named_share(present), 0.9);
    ck_assert_double_gt(named_share(missing), 0.9);
}
END_TEST

/* A program with frame pointers, walked by them. */
START_TEST(frame_pointers)
{
    const char *file = in_folder("fp.pb.gz");
    const char *argv[] = {gleaner(), "run", "-s", "all", "-c", "unwind:fp", "-o", file,
                          getenv("GLEANER_HOLDER"), NULL};
    struct ran ran = run_program(argv);
    ck_assert_int_eq(ran.status, 0);
    ck_assert_str_eq(ran.err, "");
    ran_free(&ran);
    ck_assert_double_gt(named_share(file), 0.9);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("faults");
    TCase *t = tcase_create("all");
    test_folder();
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, bad_configuration, 0, 5);
    tcase_add_test(t, unwritable_output);
    tcase_add_test(t, full_disk);
    tcase_add_test(t, broken_profiles);
    tcase_add_test(t, without_libunwind);
    tcase_add_test(t, frame_pointers);
    suite_add_tcase(suite, t);
    return suite_run(suite);
}
