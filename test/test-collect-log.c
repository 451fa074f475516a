/* test-collect-log.c: the lines of the `log` key, and where they go.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "heap/lost.h"
#include "preload/collect_log.h"
#include "preload/collection.h"
#include "preload/start_folder.h"
#include "suite.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Of the collector. */
void (*collection_done)(const struct collection *);
static uint64_t unrecorded;
void lost_totals(struct lost_totals *t)
{
    *t = (struct lost_totals){.lost = 5,
                              .lost_bytes = 500,
                              .direct = 2,
                              .direct_bytes = 200,
                              .indirect = 3,
                              .indirect_bytes = 300,
                              .possible = 1,
                              .possible_bytes = 16,
                              .unrecorded = unrecorded,
                              .unrecorded_bytes = unrecorded * 48,
                              .proofs = {7, 8, 9, 11, 10}};
}

static const struct collection example = {.number = 12,
                                          .kind = COLLECTION_MAJOR,
                                          .trigger = TRIGGER_TIME,
                                          .snapshot = true,
                                          .complete = true,
                                          .pause = 1234567,
                                          .stop = 100000,
                                          .roots = 2000000,
                                          .remember = 0,
                                          .mark = 30000999,
                                          .sweep = 999,
                                          .young = 10,
                                          .young_bytes = 640,
                                          .promoted = 8,
                                          .promoted_bytes = 512,
                                          .lost = 2,
                                          .lost_bytes = 128};
static const char complete_line[] = "gleaner: collection 12 major (time, snapshot) complete, pause "
                                    "1.234 ms (stop 0.100, roots 2.000, remember "
                                    "0.000, mark 30.000, sweep 0.000), young 10 blocks 640 bytes, "
                                    "promoted 8 blocks 512 bytes, lost 2 blocks "
                                    "128 bytes\n";

static char folder[] = "/tmp/gleaner-log-XXXXXX", text[65536];

static void enter_folder(void)
{
    strcpy(folder, "/tmp/gleaner-log-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(chdir(folder), 0);
    start_folder_note();
    collection_done = NULL;
}

static void leave_folder(void)
{
    char command[64];
    ck_assert_int_eq(chdir("/"), 0);
    snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
}

static struct config config_for(enum config_log log, const char *file)
{
    struct config c = {.log = log};
    strcpy(c.log_file, file);
    return c;
}

static const char *contents(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    return text;
}

/* A line as the process with number `pid` writes it. */
static const char *with_pid(int pid, const char *line)
{
    static char whole[1024];
    snprintf(whole, sizeof whole, "==%d== %s", pid, line);
    return whole;
}

START_TEST(lines)
{
    char line[1024];
    size_t n = collect_log_line(line, sizeof line, 77, &example);
    ck_assert_str_eq(line, with_pid(77, complete_line));
    ck_assert_uint_eq(n, strlen(line));
    ck_assert_uint_eq(collect_log_line(line, 10, 77, &example), n); /* cut, not overrun */
    ck_assert_str_eq(line, "==77== gl");
    struct collection c = {
        .number = 1, .trigger = TRIGGER_GROWTH, .why_not = "a thread could not be stopped"};
    collect_log_line(line, sizeof line, 1, &c);
    ck_assert_ptr_nonnull(strstr(
        line,
        "collection 1 minor (growth) incomplete: a thread could not be stopped, pause 0.000 ms"));
    c.why_not = NULL;
    collect_log_line(line, sizeof line, 1, &c);
    ck_assert_ptr_nonnull(strstr(line, "incomplete: ?, pause"));
}
END_TEST

START_TEST(off)
{
    struct config c = config_for(LOG_NONE, "gc.log");
    collect_log_start(&c);
    ck_assert_ptr_null(collection_done);
    ck_assert_int_ne(access("gc.log", F_OK), 0);
}
END_TEST

START_TEST(appends_to_a_file)
{
    FILE *f = fopen("gc.log", "w");
    fputs("before\n", f);
    fclose(f);
    struct config c = config_for(LOG_GC, "gc.log");
    collect_log_start(&c);
    ck_assert_int_eq(chdir("/"), 0); /* as daemons do */
    collection_done(&example);
    collection_done(&example);
    char expected[2048];
    size_t n = (size_t)sprintf(expected, "before\n");
    for (int i = 0; i < 2; i++)
        n += (size_t)sprintf(expected + n, "%s", with_pid(getpid(), complete_line));
    ck_assert_str_eq(contents("gc.log"), expected);
}
END_TEST

/* 0 if the log got its lines and the program's file did not; in a child, since the test's own descriptors go, too. */
static int daemon_with_a_log(void)
{
    struct config c = config_for(LOG_GC, "gc.log");
    struct stat is;
    collect_log_start(&c);
    collection_done(&example);
    for (int fd = 3; fd < 1024; fd++) close(fd);
    /* What the program opens now may get the number that the log had. */
    int other = open("data", O_RDWR | O_CREAT, 0600);
    for (int fd = 3; fd < 300; fd++)
        if (fd != other && dup2(other, fd) != fd) return 2;
    collection_done(&example);
    return fstat(other, &is) == 0 && is.st_size == 0 ? 0 : 3;
}

START_TEST(after_all_descriptors_were_closed)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) _exit(daemon_with_a_log());
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    char expected[2048];
    size_t n = 0;
    for (int i = 0; i < 2; i++)
        n += (size_t)sprintf(expected + n, "%s", with_pid(pid, complete_line));
    ck_assert_str_eq(contents("gc.log"), expected);
}
END_TEST

START_TEST(stderr_and_a_program_that_closes_it)
{
    int file = open("err", O_RDWR | O_CREAT | O_APPEND, 0600), real = dup(2);
    ck_assert_int_eq(dup2(file, 2), 2);
    struct config c = config_for(LOG_DEBUG, "");
    collect_log_start(&c);
    close(2);
    ck_assert_int_eq(open("data", O_RDWR | O_CREAT, 0600), 2); /* not for us */
    collection_done(&example);
    for (int fd = 100; fd < 300; fd++) close(fd);
    collection_done(&example); /* goes nowhere */
    struct stat is;
    ck_assert_int_eq(fstat(2, &is), 0);
    dup2(real, 2);
    ck_assert_int_eq(is.st_size, 0);
    char expected[2048];
    size_t n = (size_t)sprintf(expected, "%s", with_pid(getpid(), complete_line));
    sprintf(
        expected + n,
        "==%d== gleaner: lost now 5 blocks 500 bytes (direct 2 blocks 200 bytes), possibly lost 1 "
        "blocks 16 bytes, proved not lost: freed 7, resized 8, written 9, read 11, reached again 10\n",
        getpid());
    ck_assert_str_eq(contents("err"), expected);
}
END_TEST

/* Lost blocks for which there was no memory stand at the end of the line, where there are any. */
START_TEST(blocks_without_records)
{
    struct config c = config_for(LOG_DEBUG, "gc.log");
    unrecorded = 2;
    collect_log_start(&c);
    collection_done(&example);
    const char *text = contents("gc.log"), *end = ", reached again 10, lost without a record 2 blocks 96 bytes\n";
    ck_assert_uint_gt(strlen(text), strlen(end));
    ck_assert_str_eq(text + strlen(text) - strlen(end), end);
}
END_TEST

START_TEST(no_such_folder)
{
    int file = open("err", O_RDWR | O_CREAT | O_APPEND, 0600), real = dup(2);
    ck_assert_int_eq(dup2(file, 2), 2);
    struct config c = config_for(LOG_GC, "none/gc.log");
    collect_log_start(&c);
    collection_done(&example);
    dup2(real, 2);
    char expected[2048];
    size_t n = (size_t)sprintf(
        expected, "gleaner: %s/none/gc.log cannot be written (error 2): the log goes to stderr\n",
        folder);
    sprintf(expected + n, "%s", with_pid(getpid(), complete_line));
    ck_assert_str_eq(contents("err"), expected);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("log");
    TCase *c = tcase_create("log");
    tcase_set_timeout(c, 120);
    tcase_add_checked_fixture(c, enter_folder, leave_folder);
    tcase_add_test(c, lines);
    tcase_add_test(c, off);
    tcase_add_test(c, appends_to_a_file);
    tcase_add_test(c, after_all_descriptors_were_closed);
    tcase_add_test(c, stderr_and_a_program_that_closes_it);
    tcase_add_test(c, no_such_folder);
    tcase_add_test(c, blocks_without_records);
    suite_add_tcase(suite, c);
    return suite_run(suite);
}
