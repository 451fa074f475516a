/* command.c: runs programs from tests and keeps what they print.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "command.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
