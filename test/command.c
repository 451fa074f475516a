/* command.c: runs programs from tests and keeps what they print.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "command.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char *read_back(FILE *file)
{
    fseek(file, 0, SEEK_END);
    size_t length = (size_t)ftell(file);
    rewind(file);
    char *text = malloc(length + 1);
    ck_assert_ptr_nonnull(text);
    ck_assert_uint_eq(fread(text, 1, length, file), length);
    text[length] = 0;
    fclose(file);
    return text;
}

#define LONG_SECONDS 100

/* What a program is at that takes long, for the log: where it hangs the test's own limit tells nothing. */
static void tell_where(const char *const *argv, pid_t pid)
{
    fprintf(stderr, "after %d s still running:", LONG_SECONDS);
    for (; *argv; argv++) fprintf(stderr, " %s", *argv);
    fputc('\n', stderr);
    char line[200];
    snprintf(line, sizeof line,
             "cd /proc/%d/task && for t in *; do echo $t $(cut -d' ' -f3,14,15 $t/stat) $(cat $t/wchan) $(cat $t/syscall); done >&2", (int)pid);
    if (system(line) != 0) fputs("nothing can be told of it\n", stderr);
}

/* Tells now and then where it is. */
static void wait_for_end(const char *const *argv, pid_t pid)
{
    struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
    if (end.fd < 0) return;
    while (poll(&end, 1, LONG_SECONDS * 1000) == 0) tell_where(argv, pid);
    close(end.fd);
}

struct ran run_program(const char *const *argv)
{
    FILE *out = tmpfile(), *err = tmpfile();
    ck_assert(out && err);
    fflush(NULL);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (!child) {
        setenv("TZ", "UTC", 1);
        unsetenv("DEBUGINFOD_URLS");
        dup2(fileno(out), STDOUT_FILENO);
        dup2(fileno(err), STDERR_FILENO);
        execvp(argv[0], (char *const *)argv);
        _exit(99);
    }
    struct ran ran;
    int status;
    wait_for_end(argv, child);
    while (waitpid(child, &status, 0) < 0) ck_assert_int_eq(errno, EINTR);
    ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    ran.out = read_back(out);
    ran.err = read_back(err);
    return ran;
}

void ran_free(struct ran *ran)
{
    free(ran->out);
    free(ran->err);
}

void must_run(const char *format, ...)
{
    char line[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    ck_assert_msg(system(line) == 0, "failed: %s", line);
}

const char *gleaner(void)
{
    const char *path = getenv("GLEANER_COMMAND");
    ck_assert_ptr_nonnull(path);
    return path;
}

static char folder[PATH_MAX];
static pid_t folder_owner;

static void remove_folder(void)
{
    char line[PATH_MAX + 16];
    if (getpid() != folder_owner) return; /* the tests' own forked processes leave it alone */
    snprintf(line, sizeof line, "rm -rf '%s'", folder);
    if (system(line)) fprintf(stderr, "%s stays\n", folder);
}

const char *test_folder(void)
{
    if (!*folder) {
        const char *base = getenv("TMPDIR");
        snprintf(folder, sizeof folder, "%s/gleaner-test.XXXXXX", base ? base : "/tmp");
        if (!mkdtemp(folder)) abort(); /* also called outside of tests */
        folder_owner = getpid();
        atexit(remove_folder);
    }
    return folder;
}

const char *in_folder(const char *name)
{
    static char paths[8][PATH_MAX + 64];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", test_folder(), name);
    return path;
}

void expect_part(const char *text, const char *part)
{
    ck_assert_msg(strstr(text, part), "'%s' is not in:\n%s", part, text);
}

void expect_no_part(const char *text, const char *part)
{
    ck_assert_msg(!strstr(text, part), "'%s' is in:\n%s", part, text);
}
