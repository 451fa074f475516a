/* test-live.c: a live process under the real library: list, dump, report, diff, and the processes that
   cannot be asked.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "command.h"
#include "suite.h"

#include <check.h>
#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The program, which is idle until a line is written to it. */
static struct {
    pid_t pid;
    FILE *to, *from;
} grower;

static void expect_line(const char *expected)
{
    char line[64];
    ck_assert_ptr_nonnull(fgets(line, sizeof line, grower.from));
    ck_assert_str_eq(line, expected);
}

/* With -o the command becomes the program, so the pid is known. */
static void start_grower_with(const char *sample, const char *argument)
{
    int to[2], from[2];
    ck_assert(!pipe(to) && !pipe(from));
    grower.pid = fork();
    if (!grower.pid) {
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        execl(gleaner(), "gleaner", "run", "-s", sample, "-o", in_folder("end.pb.gz"),
              getenv("GLEANER_TEST_GROWER"), argument, NULL);
        _exit(99);
    }
    close(to[0]);
    close(from[1]);
    grower.to = fdopen(to[1], "w");
    grower.from = fdopen(from[0], "r");
    expect_line("ready\n");
}

/* Every block is recorded: figures are exact. */
static void start_grower(void)
{
    start_grower_with("all", NULL);
}

static void grow(void)
{
    fputs("grow\n", grower.to);
    fflush(grower.to);
    expect_line("grown\n");
}

/* It ends as it would without us. */
static void end_grower(void)
{
    int status;
    fclose(grower.to);
    ck_assert_int_eq(waitpid(grower.pid, &status, 0), grower.pid);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
    fclose(grower.from);
}

static char *pid_text(pid_t pid)
{
    static char text[24];
    snprintf(text, sizeof text, "%d", pid);
    return text;
}

static void dump_to(const char *name)
{
    struct ran ran = run_program(
        (const char *[]){gleaner(), "dump", pid_text(grower.pid), "-o", in_folder(name), NULL});
    ck_assert_msg(ran.status == 0, "%s", ran.err);
    ck_assert_str_eq(ran.err, "");
    ck_assert_str_eq(ran.out, "");
    ran_free(&ran);
}

static bool has_children(pid_t pid)
{
    char path[64], text[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
    FILE *file = fopen(path, "r");
    if (!file) return false; /* a kernel without that file */
    bool any = fgets(text, sizeof text, file) != NULL;
    fclose(file);
    return any;
}

/* Two dumps: the growth is 4000 blocks of 1000 bytes (a slot of at least that) at one stack; the process
   is as idle as before, without a zombie, and its /tmp without our folder. */
START_TEST(test_dump_and_diff)
{
    start_grower();
    grow();
    dump_to("1.pb.gz");
    grow();
    dump_to("2.pb.gz");
    struct stat status;
    ck_assert_int_eq(stat(in_folder("1.pb.gz"), &status), 0);
    ck_assert_int_eq(status.st_mode & 0777, 0600);
    ck_assert(!has_children(grower.pid));
    struct ran ran = run_program(
        (const char *[]){gleaner(), "diff", in_folder("1.pb.gz"), in_folder("2.pb.gz"), NULL});
    const char *grew = strstr(ran.out, "Grew: ");
    long bytes = 0, blocks = 0;
    ck_assert_msg(grew, "%s", ran.out);
    ck_assert_int_eq(sscanf(grew, "Grew: +%ld bytes in +%ld blocks", &bytes, &blocks), 2);
    ck_assert_int_eq(blocks, 4000);
    ck_assert_int_ge(bytes, 4000 * 1000);
    ck_assert_int_le(bytes, 4000 * 1000 * 9 / 8);
    expect_part(grew, " in remember_item ");
    expect_part(grew, "grower.c:");
    ran_free(&ran);
    end_grower();
    ck_assert_int_eq(access(in_folder("end.pb.gz"), F_OK), 0);
}
END_TEST

/* 120 MB that stay, 1900 sample points, do not hide 4 MB that come, 60 points: the same blocks are in both samples. */
START_TEST(test_growth_beside_much_that_stays)
{
    start_grower_with("64K", NULL);
    for (int i = 0; i < 30; i++) grow();
    dump_to("1.pb.gz");
    grow();
    dump_to("2.pb.gz");
    struct ran ran = run_program(
        (const char *[]){gleaner(), "diff", in_folder("1.pb.gz"), in_folder("2.pb.gz"), NULL});
    const char *grew = strstr(ran.out, "Grew: ");
    double low = 0, high = 0;
    ck_assert_msg(grew, "%s", ran.out);
    ck_assert_int_eq(sscanf(grew, "Grew: %*d bytes (95%% %lf to %lf)", &low, &high), 2);
    ck_assert_msg(low > 0 && high - low < 4e6, "%s", grew);
    ran_free(&ran);
    end_grower();
    /* The profile that the process itself wrote at its end, in another way, is of the same process. */
    ran = run_program(
        (const char *[]){gleaner(), "diff", in_folder("1.pb.gz"), in_folder("end.pb.gz"), NULL});
    expect_part(ran.out, "Grew: ");
    ran_free(&ran);
}
END_TEST

/* `report PID` shows what a dump would hold; its sites add up to what the exact totals say. */
START_TEST(test_report_of_a_process)
{
    start_grower();
    grow();
    struct ran ran = run_program(
        (const char *[]){gleaner(), "report", "--format=json", pid_text(grower.pid), NULL});
    ck_assert_int_eq(ran.status, 0);
    json_error_t error;
    json_t *json = json_loads(ran.out, 0, &error), *site;
    ck_assert_ptr_nonnull(json);
    ck_assert_int_eq(json_integer_value(json_object_get(json, "pid")), grower.pid);
    json_int_t sum = 0;
    size_t index;
    json_array_foreach(json_object_get(json, "sites"), index, site)
    {
        sum += json_integer_value(json_object_get(json_object_get(site, "live"), "bytes"));
    }
    json_t *live = json_object_get(json_object_get(json, "totals"), "live");
    /* What was allocated before the sampler's start is in the totals alone. */
    ck_assert_int_le(sum, json_integer_value(json_object_get(live, "bytes")));
    ck_assert_int_ge(sum, 4000 * 1000);
    json_decref(json);
    ran_free(&ran);
    end_grower();
}
END_TEST

START_TEST(test_list)
{
    start_grower();
    struct ran ran = run_program((const char *[]){gleaner(), "list", NULL});
    char line[64];
    snprintf(line, sizeof line, "%7d ", grower.pid);
    ck_assert_int_eq(ran.status, 0);
    expect_part(ran.out, "    PID USER ");
    expect_part(ran.out, line);
    snprintf(line, sizeof line, "%7d ", getpid()); /* we do not run under it */
    expect_no_part(ran.out, line);
    ran_free(&ran);
    end_grower();
}
END_TEST

/* A program that shows a title in the place of its arguments has zeros behind it: no spaces in the report. */
START_TEST(test_title)
{
    start_grower_with("all", "a title that is shorter");
    struct ran ran = run_program((const char *[]){gleaner(), "report", pid_text(grower.pid), NULL});
    expect_part(ran.out, "Gleaner: heap profile of a title\n");
    ran_free(&ran);
    end_grower();
}
END_TEST

static char public[] =
    "/tmp/gleaner-public.XXXXXX"; /* for users who may not enter the build folder */

static const char *public_path(const char *before, const char *name)
{
    static char paths[2][128];
    static unsigned next;
    char *path = paths[next++ % 2];
    snprintf(path, sizeof paths[0], "%s%s/%s", before, public, name);
    return path;
}

static struct ran dump_as_nobody(pid_t pid)
{
    return run_program((const char *[]){"setpriv", "--reuid=65534", "--regid=65534",
                                        "--clear-groups", public_path("", "gleaner"), "dump",
                                        pid_text(pid), "-o", "/dev/null", NULL});
}

/* One clear line each, and the process that was asked lives on. */
START_TEST(test_cannot_be_asked)
{
    pid_t other = fork();
    if (!other) {
        pause();
        _exit(0);
    }
    struct ran ran = run_program((const char *[]){gleaner(), "dump", pid_text(other), NULL});
    ck_assert_int_eq(ran.status, 1);
    expect_part(ran.err, "does not run under Gleaner");
    ran_free(&ran);
    ck_assert_int_eq(waitpid(other, NULL, WNOHANG), 0);
    kill(other, SIGKILL);
    siginfo_t info;
    ck_assert_int_eq(waitid(P_PID, (id_t)other, &info, WEXITED | WNOWAIT), 0);
    ran = run_program((const char *[]){gleaner(), "dump", pid_text(other), NULL}); /* a zombie */
    ck_assert_int_eq(ran.status, 1);
    expect_part(ran.err, "has ended");
    ran_free(&ran);
    waitpid(other, NULL, 0);
    ran = run_program((const char *[]){gleaner(), "report", pid_text(other), NULL});
    ck_assert_int_eq(ran.status, 1);
    expect_part(ran.err, "there is no process");
    ran_free(&ran);
    if (geteuid()) return;
    start_grower();
    /* Another user's: its maps may not be read. */
    ran = dump_as_nobody(grower.pid);
    ck_assert_int_eq(ran.status, 1);
    expect_part(ran.err, "belongs to root: only they and root may ask it");
    ran_free(&ran);
    end_grower();
}
END_TEST

/* A process that is not dumpable tells nothing to its own user; root may ask it. */
START_TEST(test_not_dumpable)
{
    if (geteuid()) return;
    int from[2], to[2];
    char text[16] = "";
    ck_assert(!pipe(from) && !pipe(to));
    pid_t hidden = fork();
    if (!hidden) {
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        close(from[1]);
        execlp("setpriv", "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env",
               public_path("LD_PRELOAD=", "libgleaner.so"), public_path("", "grower"), "hidden",
               NULL);
        _exit(99);
    }
    close(from[1]);
    FILE *lines = fdopen(from[0], "r");
    ck_assert_ptr_nonnull(fgets(text, sizeof text, lines));
    ck_assert_str_eq(text, "ready\n");
    struct ran ran = dump_as_nobody(hidden);
    ck_assert_int_eq(ran.status, 1);
    expect_part(ran.err, "dropped its privileges (it is not dumpable): only root may ask it");
    ran_free(&ran);
    ran = run_program(
        (const char *[]){gleaner(), "dump", pid_text(hidden), "-o", in_folder("h.pb.gz"), NULL});
    ck_assert_msg(ran.status == 0, "%s", ran.err);
    ran_free(&ran);
    kill(hidden, SIGKILL);
    waitpid(hidden, NULL, 0);
    fclose(lines);
    close(to[0]);
    close(to[1]);
}
END_TEST

/* An unwritable place for the file: one line, nothing there, and the process is none the worse. */
START_TEST(test_unwritable_output)
{
    start_grower();
    struct ran ran = run_program((const char *[]){gleaner(), "dump", pid_text(grower.pid), "-o",
                                                  "/nowhere/at/all.pb.gz", NULL});
    ck_assert_int_eq(ran.status, 1);
    expect_part(ran.err, "cannot write /nowhere/at/all.pb.gz: No such file or directory");
    ran_free(&ran);
    grow();
    end_grower();
}
END_TEST

/* A stopped process answers when it goes on: the request waits for it. */
START_TEST(test_stopped_process)
{
    start_grower();
    kill(grower.pid, SIGSTOP);
    int status;
    ck_assert_int_eq(waitpid(grower.pid, &status, WUNTRACED), grower.pid);
    pid_t asking = fork();
    if (!asking) {
        execl(gleaner(), "gleaner", "dump", pid_text(grower.pid), "-o", in_folder("s.pb.gz"), NULL);
        _exit(99);
    }
    kill(grower.pid, SIGCONT);
    ck_assert_int_eq(waitpid(asking, &status, 0), asking);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
    end_grower();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("live");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 120);
    test_folder();
    char line[9000];
    if (!mkdtemp(public)) return 1;
    snprintf(line, sizeof line, "cp '%s' '%s' '%s' %s && chmod -R a+rX %s",
             getenv("GLEANER_COMMAND"), getenv("GLEANER_TEST_GROWER"),
             getenv("GLEANER_TEST_LIBRARY"), public, public);
    if (system(line)) return 1;
    tcase_add_test(tests, test_dump_and_diff);
    tcase_add_test(tests, test_growth_beside_much_that_stays);
    tcase_add_test(tests, test_report_of_a_process);
    tcase_add_test(tests, test_list);
    tcase_add_test(tests, test_title);
    tcase_add_test(tests, test_cannot_be_asked);
    tcase_add_test(tests, test_not_dumpable);
    tcase_add_test(tests, test_unwritable_output);
    tcase_add_test(tests, test_stopped_process);
    suite_add_tcase(suite, tests);
    int failed = suite_run(suite);
    snprintf(line, sizeof line, "rm -r %s", public);
    int left = system(line);
    return failed || left;
}
