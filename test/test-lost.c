/* test-lost.c: lost blocks from the program that loses them to the report, under the real library.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "command.h"
#include "product.h"
#include "suite.h"

#include <check.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *leaker(void)
{
    return getenv("GLEANER_LEAKER");
}

static struct ran run(const char *a, const char *b, const char *c, const char *mode)
{
    const char *argv[8] = {gleaner(), "run", a};
    size_t count = 3;
    if (b) argv[count++] = b;
    if (c) argv[count++] = c;
    argv[count++] = leaker();
    argv[count] = mode;
    return run_program(argv);
}

/* The leak of `kind` whose first line ends so is at these functions; returns what follows. */
static const char *expect_leak(const char *text, const char *head, const char *const *functions)
{
    const char *at = strstr(text, head);
    ck_assert_msg(at != NULL, "%s in %.4000s", head, text);
    for (int i = 0; functions[i]; i++) {
        char frame[64];
        snprintf(frame, sizeof frame, "\n    #%d 0x", i);
        at = strstr(at, frame);
        ck_assert_msg(at != NULL, "%s of %s in %.4000s", frame, head, text);
        snprintf(frame, sizeof frame, " in %s ", functions[i]);
        const char *end = strchr(at + 1, '\n'), *name = strstr(at, frame);
        ck_assert_msg(name && name < end, "%s of %s in %.4000s", frame, head, text);
        ck_assert_ptr_nonnull(strstr(name, "leaker.c:"));
    }
    return at;
}

static const char *const session_stack[] = {"session_new", "lose_sessions", "act", "main", NULL};
static const char *const item_stack[] = {"item_new", "lose_sessions", "act", "main", NULL};

/* A running one. */
static struct {
    pid_t pid;
    FILE *to, *from;
    char text[24];
} live;

static void expect_line(const char *expected)
{
    char line[64];
    ck_assert_ptr_nonnull(fgets(line, sizeof line, live.from));
    ck_assert_str_eq(line, expected);
}

/* With -o the command becomes the program, so the pid is known. */
static void start(const char *sample, const char *mode)
{
    int to[2], from[2];
    ck_assert(!pipe(to) && !pipe(from));
    live.pid = fork();
    if (!live.pid) {
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        close(to[1]); /* or it would never see the end of its input */
        execl(gleaner(), "gleaner", "run", "-s", sample, "-o", in_folder("end.gz"), leaker(), mode,
              "-", NULL);
        _exit(99);
    }
    close(to[0]);
    close(from[1]);
    live.to = fdopen(to[1], "w");
    live.from = fdopen(from[0], "r");
    snprintf(live.text, sizeof live.text, "%d", live.pid);
    expect_line("ready\n");
}

static void step(void)
{
    fputs("step\n", live.to);
    fflush(live.to);
    expect_line("done\n");
}

static void stop(void)
{
    int status;
    fclose(live.to);
    ck_assert_int_eq(waitpid(live.pid, &status, 0), live.pid);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 5);
    fclose(live.from);
}

/* Sessions of 96 bytes take 112: one byte more than asked lies in the slot. Items of 40 take 48. */
START_TEST(test_exit)
{
    struct ran ran = run("--leaks=exit", "--fail", NULL, "sessions");
    ck_assert_msg(ran.status == 23, "%d %s", ran.status, ran.err);
    ck_assert_str_eq(ran.out, "");
    expect_part(ran.err, "==ERROR: Gleaner: detected memory leaks\n\nDirect leak of 784 byte(s)");
    const char *at = expect_leak(
        ran.err, "Direct leak of 784 byte(s) in 7 object(s) allocated from:", session_stack);
    expect_part(at, "asked for 672 byte(s)\n    672 byte(s) in 14 object(s) hang on them\n");
    at =
        expect_leak(at, "Indirect leak of 672 byte(s) in 14 object(s) allocated from:", item_stack);
    expect_part(at, "asked for 560 byte(s)\n");
    expect_part(at, "\nSUMMARY: Gleaner: 1456 byte(s) leaked in 21 allocation(s).\n");
    expect_part(ran.err, "    false_lost: 0 blocks, 0 bytes\n");
    ran_free(&ran);
    ran = run("--fail=99", NULL, NULL, "sessions");
    ck_assert_int_eq(ran.status, 99);
    ran_free(&ran);
    ran = run("--leaks", NULL, NULL, "sessions");
    ck_assert_int_eq(ran.status, 5);
    expect_part(ran.err, "\nSUMMARY: Gleaner: 1456 byte(s) leaked in 21 allocation(s).\n");
    ran_free(&ran);
}
END_TEST

START_TEST(test_clean)
{
    struct ran ran = run("--leaks=exit", "--fail", NULL, "clean");
    ck_assert_int_eq(ran.status, 5);
    expect_part(ran.err, "    false_lost: 0 blocks, 0 bytes\n\nNo block is lost.\n");
    expect_no_part(ran.err, "ERROR");
    ran_free(&ran);
}
END_TEST

/* The session's allocator is known: with it go the items that hang on the sessions. */
START_TEST(test_suppressed)
{
    char option[4200];
    must_run("echo 'leak:session_new' >'%s'", in_folder("known"));
    snprintf(option, sizeof option, "--suppressions=%s", in_folder("known"));
    struct ran ran = run("--fail", option, NULL, "sessions");
    ck_assert_int_eq(ran.status, 5);
    expect_part(ran.err, "      7        784 session_new\n");
    expect_part(ran.err, "No block is lost beyond what is suppressed.\n");
    ran_free(&ran);
    must_run("echo 'leak:item_new' >'%s'", in_folder("known"));
    ran = run("--fail", option, NULL, "sessions");
    ck_assert_int_eq(ran.status, 23);
    expect_part(ran.err, "SUMMARY: Gleaner: 784 byte(s) leaked in 7 allocation(s).\n");
    ran_free(&ran);
}
END_TEST

/* What the program itself says is known, what its harness says in LSAN_OPTIONS, and what the configuration says. */
START_TEST(test_known_to_the_process)
{
    char options[4300];
    setenv("LEAKER_KNOWS", "1", 1);
    struct ran ran = run("--fail", NULL, NULL, "sessions");
    unsetenv("LEAKER_KNOWS");
    ck_assert_msg(ran.status == 5, "%d %s", ran.status, ran.err);
    expect_part(ran.err, "      7        784 session_new\n");
    ran_free(&ran);
    must_run("echo 'leak:^session_new$' >'%s'", in_folder("known"));
    snprintf(options, sizeof options, "suppressions=%s", in_folder("known"));
    setenv("LSAN_OPTIONS", options, 1);
    ran = run("--fail", NULL, NULL, "sessions");
    unsetenv("LSAN_OPTIONS");
    ck_assert_int_eq(ran.status, 5);
    expect_part(ran.err, "      7        784 ^session_new$\n");
    ran_free(&ran);
    snprintf(options, sizeof options, "suppressions:%s", in_folder("known"));
    setenv("GLEANER_CONF", options, 1);
    ran = run("--fail", NULL, NULL, "sessions");
    ck_assert_int_eq(ran.status, 5);
    ran_free(&ran);
    start("all", "sessions"); /* a frozen copy knows the configuration's */
    unsetenv("GLEANER_CONF");
    step();
    ran = run_program((const char *[]){gleaner(), "report", live.text, "--show", "lost", NULL});
    expect_part(ran.out, "      7        672 ^session_new$\n");
    ran_free(&ran);
    stop();
}
END_TEST

/* -o: one line, the status, and the file by its pattern. */
START_TEST(test_output)
{
    char output[4200], said[64];
    int pid;
    snprintf(output, sizeof output, "-o%s", in_folder("lost.%p.%t.%e.gz"));
    struct ran ran = run("--fail", output, NULL, "sessions");
    ck_assert_msg(ran.status == 23, "%d %s", ran.status, ran.err);
    snprintf(said, sizeof said, "gleaner: 1456 byte(s) leaked in 21 allocation(s): ");
    ck_assert_int_eq(strncmp(ran.err, said, strlen(said)), 0);
    const char *path = strstr(ran.err, "gleaner report --show lost ");
    ck_assert_ptr_nonnull(path);
    path += strlen("gleaner report --show lost ");
    ck_assert_int_eq(strncmp(path, test_folder(), strlen(test_folder())), 0);
    ck_assert_int_eq(sscanf(path + strlen(test_folder()), "/lost.%d.", &pid), 1);
    char file[4200];
    snprintf(file, sizeof file, "%.*s", (int)strcspn(path, "\n"), path);
    json_t *report = product_report(file);
    ck_assert_double_eq(product_number(report, "pid", NULL), pid);
    ck_assert_double_eq(product_number(report, "totals", "lost", "objects", NULL), 21);
    ck_assert_double_eq(product_sum(report, "session_new", "lost", "direct_bytes"), 784);
    ck_assert_double_eq(product_sum(report, "item_new", "lost", "indirect_objects"), 14);
    json_decref(report);
    ran_free(&ran);
    ran = run("--fail", output, NULL, "clean");
    ck_assert_int_eq(ran.status, 5);
    ck_assert_str_eq(ran.err, "");
    ran_free(&ran);
}
END_TEST

/* At a sampling interval the totals stay exact; stacks add up to them, and the one that lost all is within its limits. */
START_TEST(test_sampled)
{
    must_run("GLEANER_CONF=seed:7 '%s' run --leaks=exit -s 4K -o '%s' '%s' many; test $? = 5",
             gleaner(), in_folder("many.gz"), leaker());
    json_t *report = product_report(in_folder("many.gz"));
    double objects = product_number(report, "totals", "lost", "objects", NULL);
    ck_assert_double_ge(objects, 19990); /* a stale word may hold some */
    ck_assert_double_le(objects, 20000);
    ck_assert_double_eq(product_number(report, "totals", "lost", "bytes", NULL), objects * 48);
    ck_assert_double_eq(product_sum(report, NULL, "lost", "objects"), objects);
    ck_assert_double_eq(product_sum(report, NULL, "lost", "bytes"), objects * 48);
    /* Some 230 of them were sampled, and all have one caller. */
    ck_assert_double_eq(product_sum(report, "lose_many", "lost", "objects"), objects);
    json_decref(report);
}
END_TEST

/* A block whose pointer is hidden is called lost; its free proves that wrong, with its stack, and it is no leak. */
START_TEST(test_false_lost)
{
    char output[4200];
    snprintf(output, sizeof output, "-o%s", in_folder("hidden.gz"));
    struct ran ran = run("--fail", output, NULL, "hidden");
    ck_assert_msg(ran.status == 5, "%d %s", ran.status, ran.err);
    ran_free(&ran);
    json_t *report = product_report(in_folder("hidden.gz"));
    double bytes = product_number(report, "totals", "false_lost", "bytes", NULL);
    ck_assert_double_eq(product_number(report, "totals", "false_lost", "objects", NULL), 1);
    ck_assert_double_ge(bytes, 201);
    ck_assert_double_le(bytes, 201 * 9 / 8);
    ck_assert_double_eq(product_sum(report, "hidden_new", "false_lost", "objects"), 1);
    ck_assert_double_eq(product_sum(report, "hidden_new", "false_lost", "bytes"), bytes);
    json_decref(report);
    ran = run_program(
        (const char *[]){gleaner(), "report", "--show", "lost", in_folder("hidden.gz"), NULL});
    expect_part(ran.out, "    false_lost: 1 blocks, ");
    const char *wrong = strstr(ran.out, "Falsely called lost: ");
    ck_assert_msg(wrong != NULL, "%s", ran.out);
    expect_part(wrong, " in hidden_new ");
    ran_free(&ran);
}
END_TEST

/* Without samples malloc's callers are known. */
START_TEST(test_callers)
{
    must_run("'%s' run --leaks=exit -s 0 -o '%s' '%s' sessions; test $? = 5", gleaner(),
             in_folder("callers.gz"), leaker());
    json_t *report = product_report(in_folder("callers.gz"));
    ck_assert_double_eq(product_sum(report, "session_new", "lost", "direct_objects"), 7);
    ck_assert_double_eq(product_sum(report, "item_new", "lost", "indirect_bytes"), 672);
    json_t *site;
    size_t i;
    json_array_foreach(json_object_get(report, "sites"), i, site)
    {
        ck_assert_uint_eq(json_array_size(json_object_get(site, "stack")), 1);
        ck_assert_str_eq(json_string_value(json_object_get(site, "stack_note")), "caller");
    }
    json_decref(report);
}
END_TEST

static void dump_leaks(const char *name)
{
    struct ran ran = run_program(
        (const char *[]){gleaner(), "dump", live.text, "--leaks", "-o", in_folder(name), NULL});
    ck_assert_msg(ran.status == 0, "%s", ran.err);
    ck_assert_str_eq(ran.err, "");
    ran_free(&ran);
}

/* Twice: what was lost in between is newly lost.  The process goes on as if nothing had been. */
START_TEST(test_dump)
{
    start("all", "sessions");
    step();
    dump_leaks("1.gz");
    json_t *report = product_report(in_folder("1.gz"));
    ck_assert_double_eq(product_number(report, "totals", "lost", "objects", NULL), 21);
    ck_assert_double_eq(product_number(report, "collections", "major", NULL), 1);
    ck_assert_double_eq(product_sum(report, "session_new", "lost", "direct_objects"), 7);
    ck_assert_double_eq(product_sum(report, "session_new", "lost", "asked_bytes"), 672);
    json_decref(report);
    step();
    dump_leaks("2.gz");
    struct ran ran = run_program(
        (const char *[]){gleaner(), "diff", in_folder("1.gz"), in_folder("2.gz"), NULL});
    /* Without --leaks from the start no byte is added: 96 are given. */
    const char *newly = strstr(
        ran.out, "Newly lost: +672 bytes in +7 blocks, from 672 to 1344 bytes, allocated from:\n");
    ck_assert_msg(newly != NULL, "%s", ran.out);
    expect_part(newly, " in session_new ");
    expect_part(ran.out,
                "Newly lost: +672 bytes in +14 blocks, from 672 to 1344 bytes, allocated from:\n");
    ran_free(&ran);
    /* At once, with names; and as the newer side of a difference, which looks because the older one did. */
    ran = run_program((const char *[]){gleaner(), "report", live.text, "--show", "lost", NULL});
    expect_part(ran.out, "SUMMARY: Gleaner: ");
    expect_part(ran.out, " leaked in 42 allocation(s).\n");
    ran_free(&ran);
    step();
    ran = run_program((const char *[]){gleaner(), "diff", in_folder("2.gz"), live.text, NULL});
    expect_part(ran.out, "Newly lost: ");
    ran_free(&ran);
    /* A plain dump does not look. */
    ran = run_program((const char *[]){gleaner(), "report", live.text, "--format", "json", NULL});
    json_t *plain = json_loads(ran.out, 0, NULL);
    ck_assert_double_eq(product_number(plain, "totals", "lost", "objects", NULL), 0);
    json_decref(plain);
    ran_free(&ran);
    stop();
}
END_TEST

START_TEST(test_dump_without_sites)
{
    start("0", "sessions");
    step();
    struct ran ran =
        run_program((const char *[]){gleaner(), "report", live.text, "--show", "lost", NULL});
    expect_part(ran.out, "(no site recorded)\n");
    /* 21 blocks, not padded.  None is held by what filling the bins left in registers (heap/forget.h). */
    expect_part(ran.out, "SUMMARY: Gleaner: 1344 byte(s) leaked in 21 allocation(s).\n");
    ran_free(&ran);
    stop();
}
END_TEST

/* What a fork does not copy is learnt by one answer and looked at for the next. */
START_TEST(test_dump_of_unfrozen)
{
    start("0", "unfrozen");
    for (int blocks = 21; blocks <= 42; blocks += 21) {
        char sum[100];
        snprintf(sum, sizeof sum, "SUMMARY: Gleaner: %d byte(s) leaked in %d allocation(s).\n", blocks * 64, blocks);
        step();
        struct ran ran = run_program((const char *[]){gleaner(), "report", live.text, "--show", "lost", NULL});
        expect_part(ran.out, sum);
        ran_free(&ran);
    }
    stop();
}
END_TEST

/* An executable whose segments lie apart has names and lines, too. */
START_TEST(test_holes)
{
    const char *argv[] = {gleaner(), "run", "--leaks", getenv("GLEANER_HOLES"), "names", NULL};
    struct ran ran = run_program(argv);
    ck_assert_msg(ran.status == 0, "%d: %s", ran.status, ran.err);
    const char *at = strstr(ran.err, " in lose_in_holes ");
    ck_assert_msg(at != NULL, "%.4000s", ran.err);
    const char *line = strstr(at, "holes.c:"), *end = strchr(at, '\n');
    ck_assert_msg(line && line < end, "%.4000s", ran.err);
    at = strstr(end, " in main ");
    ck_assert_msg(at != NULL, "%.4000s", ran.err);
    line = strstr(at, "holes.c:");
    ck_assert_msg(line && line < strchr(at, '\n'), "%.4000s", ran.err);
    ran_free(&ran);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lost");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 300);
    test_folder();
    unsetenv("GLEANER_CONF");
    unsetenv("LD_PRELOAD");
    tcase_add_test(tests, test_exit);
    tcase_add_test(tests, test_clean);
    tcase_add_test(tests, test_holes);
    tcase_add_test(tests, test_suppressed);
    tcase_add_test(tests, test_known_to_the_process);
    tcase_add_test(tests, test_output);
    tcase_add_test(tests, test_sampled);
    tcase_add_test(tests, test_false_lost);
    tcase_add_test(tests, test_callers);
    tcase_add_test(tests, test_dump);
    tcase_add_test(tests, test_dump_without_sites);
    tcase_add_test(tests, test_dump_of_unfrozen);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
