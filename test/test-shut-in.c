/* test-shut-in.c: the calls that the library asks filters for are those that it makes; and programs behind filters that kill for one call: what a
   child of sandbox-each outlives without the library it outlives with it.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "suite.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEXT 65536
#define TIMEOUT 240

static const char *library, *programs, *command;
static char folder[] = "/tmp/gleaner-test-XXXXXX"; /* the working folder of every run */

static void make_folder(void) { ck_assert_ptr_nonnull(mkdtemp(folder)); }

static void drop_folder(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
    strcpy(folder, "/tmp/gleaner-test-XXXXXX");
}

/* What it prints; it must end with 0, or with 77 where that is returned. */
static int run(const char *program, const char *a, const char *b, bool under, const char *conf, char to[TEXT])
{
    char path[512], preload[512], variable[512];
    int out[2], status;
    size_t n = 0;
    ssize_t got;
    snprintf(path, sizeof path, "%s/%s", programs, program);
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", library);
    snprintf(variable, sizeof variable, "GLEANER_CONF=%s", conf);
    ck_assert_int_eq(pipe2(out, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        int none = open("/dev/null", O_WRONLY | O_CLOEXEC);
        dup2(out[1], 1);
        dup2(none, 2);
        if (chdir(folder) != 0) _exit(120);
        execve(path, (char *[]){path, (char *)a, (char *)b, NULL}, under ? (char *[]){preload, variable, NULL} : (char *[]){NULL});
        _exit(121);
    }
    close(out[1]);
    while (n < TEXT - 1 && (got = read(out[0], to + n, TEXT - 1 - n)) > 0) n += (size_t)got;
    to[n] = 0;
    close(out[0]);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    int ended = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    ck_assert_msg(ended == 0 || ended == 77, "%s %s %s: status %x", program, a, b, (unsigned)status);
    return ended;
}

/* Everything at once, and nothing that was asked for. */
static const char *const confs[] = {
    "sample:all,leaks:every=5ms,collect:reclaim,reclaim_delay:0,nursery:64K,exit:profile,interval:10ms,signal:28,output:p.%p",
    "leaks:exit,exit:report",
    "",
};
static const char *const steps[] = {"nothing", "asking", "threads", "first-threads", "fork", "handlers", "again"};
static const char *const actions[] = {"kill", "errno"};

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))
#define CASES (COUNT(steps) * COUNT(actions))

/* Where no memory may be mapped, malloc fails; the program says so by its status.  And glibc itself ends a program whose threads
   wait for each other by a futex that fails. */
static bool is_excused(const char *line, const char *how)
{
    int call = -1;
    const char *at = strstr(line, "call ");
    if (at) call = atoi(at + 5);
    if (strstr(line, ", plain mmap: ") && strstr(line, ", plain mmap: ") < how) return strncmp(how, "died 0x200\n", 11) == 0;
    return call == SYS_futex && (strncmp(line, "threads", 7) == 0 || strncmp(line, "first-threads", 13) == 0);
}

START_TEST(lives_as_without)
{
    static char without[TEXT], with[TEXT];
    const char *step = steps[_i % COUNT(steps)], *action = actions[_i / COUNT(steps)];
    int lived = 0;
    ck_assert_int_eq(run("sandbox-each", action, step, false, "", without), 0);
    for (int c = 0; c < (_i < COUNT(steps) ? COUNT(confs) : 1); c++) { /* what fails takes its time */
        ck_assert_int_eq(run("sandbox-each", action, step, true, confs[c], with), 0);
        const char *a = without, *b = with;
        for (; *a && *b; a = strchr(a, '\n') + 1, b = strchr(b, '\n') + 1) {
            const char *without_it = strstr(a, ": ") + 2, *with_it = strstr(b, ": ") + 2;
            ck_assert_int_eq(strncmp(a, b, (size_t)(without_it - a)), 0); /* the same child */
            if (strncmp(without_it, "lived", 5) != 0) continue;
            lived++;
            ck_assert_msg(strncmp(with_it, "lived", 5) == 0 || is_excused(b, with_it), "%s, '%s': %.60s", action, confs[c], b);
        }
        ck_assert_int_eq(*a, 0);
        ck_assert_int_eq(*b, 0);
    }
    ck_assert_int_gt(lived, 100); /* the program itself lives where it should */
}
END_TEST

/* Each way to look at pages, to remember and to walk. */
static const char *const making[] = {
    "sample:all,leaks:every=5ms,collect:reclaim,reclaim_delay:0,nursery:64K,exit:profile,interval:10ms,signal:28,output:p.%p",
    "sample:all,unwind:fp,leaks:every=5ms,collect:report,nursery:64K,snapshot:no,pages:mincore,remember:sweep,exit:report",
    "leaks:every=5ms,collect:reclaim,reclaim_delay:0,reclaim_anyway:yes,nursery:64K,pages:pagemap,remember:track,verify:yes,log:debug=gc.log",
    "leaks:exit,exit:both,verify:yes,log:gc=gc.log,output:p.%p,suppressions:/dev/null",
    "",
};

START_TEST(makes_what_is_listed)
{
    static char text[TEXT];
    if (run("sandbox-calls", command, NULL, true, making[_i], text) == 77) return; /* the kernel hands no calls over */
    ck_assert_msg(strstr(text, ", 0 not listed, status 17\n") != NULL, "'%s': %.2000s", making[_i], text);
    ck_assert_int_gt(atoi(text), 1000);
}
END_TEST

int main(void)
{
    library = getenv("GLEANER_TEST_LIBRARY");
    programs = getenv("GLEANER_TEST_PROGRAMS");
    command = getenv("GLEANER_COMMAND");
    if (!library || !programs || !command) return 77;
    Suite *suite = suite_create("shut in");
    TCase *tests = tcase_create("filters");
    tcase_set_timeout(tests, TIMEOUT);
    tcase_add_checked_fixture(tests, make_folder, drop_folder);
    tcase_add_loop_test(tests, makes_what_is_listed, 0, COUNT(making));
    tcase_add_loop_test(tests, lives_as_without, 0, CASES);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
