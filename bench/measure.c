// measure [--small-pages] RESULT SECONDS [NAME=VALUE]... -- PROGRAM [ARG]...: runs a program with
// additions to its environment, on request as on a system without transparent huge pages, and writes "status user sys wall maxrss" to the file RESULT (seconds, KiB; status as
// a shell gives it, 124 when it was stopped after SECONDS). A program of its own because a child's
// ru_maxrss starts with the size of the process that forked it: an interpreter would hide small
// peaks.
// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile pid_t child;
static volatile sig_atomic_t stopped;

static void on_alarm(int number)
{
    stopped = 1;
    kill(-child, SIGKILL);
}

static void on_end(int number)
{
    kill(-child, SIGKILL);
    _exit(128 + number);
}

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

int main(int argc, char **argv)
{
    bool small_pages = argc > 1 && strcmp(argv[1], "--small-pages") == 0;
    if (small_pages) argv[1] = argv[0], argv++, argc--;
    int program = 3;
    while (program < argc && strcmp(argv[program], "--") != 0) program++;
    long limit = argc > 3 ? strtol(argv[2], NULL, 10) : 0;
    if (program + 1 >= argc || limit < 1) {
        fprintf(stderr, "usage: %s [--small-pages] RESULT SECONDS [NAME=VALUE]... -- PROGRAM [ARG]...\n", argv[0]);
        return 2;
    }
    FILE *result = fopen(argv[1], "we");
    if (result == NULL) {
        fprintf(stderr, "%s: %s: %s\n", argv[0], argv[1], strerror(errno));
        return 2;
    }
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    child = fork();
    if (child == 0) {
        setpgid(0, 0);
        for (int i = 3; i < program; i++) putenv(argv[i]);
        if (small_pages && prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0) {
            perror("prctl(PR_SET_THP_DISABLE)");
            _exit(126);
        }
        execvp(argv[program + 1], &argv[program + 1]);
        fprintf(stderr, "%s: %s: %s\n", argv[0], argv[program + 1], strerror(errno));
        _exit(127);
    }
    if (child < 0) {
        perror("fork");
        return 2;
    }
    setpgid(child, child); // in both, so that the alarm finds the group whoever runs first
    signal(SIGALRM, on_alarm);
    signal(SIGTERM, on_end);
    signal(SIGINT, on_end);
    alarm((unsigned)limit);
    int status;
    struct rusage usage;
    while (wait4(child, &status, 0, &usage) < 0)
        if (errno != EINTR) {
            perror("wait4");
            return 2;
        }
    clock_gettime(CLOCK_MONOTONIC, &end);
    double wall = (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9;
    int code = stopped ? 124 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    fprintf(result, "%d %.6f %.6f %.6f %ld\n", code, seconds(usage.ru_utime),
            seconds(usage.ru_stime), wall, usage.ru_maxrss);
    return fclose(result) == 0 ? 0 : 2;
}
