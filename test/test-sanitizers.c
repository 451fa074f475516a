/* test-sanitizers.c: the sanitizers of this build do find bugs: one of each kind is planted in a
   child, which must end in failure with the sanitizer's own words.  A run of the suites under
   sanitizers that could not fail would prove nothing.  (The idea: OCaml's
   tools/ci/inria/sanitizers/script.)
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "suite.h"

#include <check.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int seven = 7;

static void overflow(void)
{
    char *volatile block = malloc(7);
    block[seven] = 1;
    free(block);
}

static void use_after_free(void)
{
    int *volatile block = malloc(sizeof *block);
    free(block);
    seven = *block;
}

static void signed_overflow(void)
{
    seven = INT_MAX - 7 + seven + seven;
}

static void misaligned(void)
{
    char room[16];
    memset(room, 0, sizeof room);
    seven = *(int *)(void *)(room + (((size_t)room & 1) ? 0 : 1));
}

static const struct {
    void (*plant)(void);
    const char *words;
} bugs[] = {
    {overflow, "heap-buffer-overflow"},
    {use_after_free, "heap-use-after-free"},
    {signed_overflow, "signed integer overflow"},
    {misaligned, "misaligned address"},
};

START_TEST(planted_bug_is_found)
{
    int out[2], status;
    ck_assert_int_eq(pipe(out), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(out[1], STDERR_FILENO);
        bugs[_i].plant();
        _exit(0);
    }
    close(out[1]);
    static char text[65536];
    size_t n = 0;
    for (ssize_t got; n < sizeof text - 1 && (got = read(out[0], text + n, sizeof text - 1 - n)) > 0;)
        n += (size_t)got;
    text[n] = 0;
    close(out[0]);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(strstr(text, bugs[_i].words), "not found: %s: '%.500s'", bugs[_i].words, text);
    ck_assert_msg(status != 0, "%s was reported and the program went on", bugs[_i].words);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sanitizers");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, planted_bug_is_found, 0, (int)(sizeof bugs / sizeof *bugs));
    suite_add_tcase(suite, t);
    return suite_run(suite);
}
