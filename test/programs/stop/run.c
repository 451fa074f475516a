/* run.c: runs a program under the library, asks it for profiles meanwhile, and looks at what it
   leaves behind.

      run LIBRARY DUMPS_A_SECOND LEAST_DUMPS HOLD_MS PROGRAM [ARGUMENT]...

   Ends with 0 if the program did, if at least so many profiles came, and if no child of its
   outlived it.  How many come in the time that a program takes depends on what else the machine does: it is run again until
   there were enough.  LIBRARY "-" runs it alone.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ask.h"

#include <sys/prctl.h>
#include <sys/wait.h>

#define RUNS 10

static pid_t start(const char *library, const char *hold, char **argv)
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        if (strcmp(library, "-") != 0) setenv("LD_PRELOAD", library, 1);
        setenv("STOP_HOLD_MS", hold, 1);
        execv(argv[0], argv);
        FAIL("cannot start %s", argv[0]);
    }
    return pid;
}

/* Only zombies and living tasks of the program's are left, which we inherit as their subreaper. */
static void no_orphans(void)
{
    for (int64_t end = now_ns() + 15000000000;;) {
        pid_t r = waitpid(-1, NULL, __WALL | WNOHANG);
        if (r < 0 && errno == ECHILD) return;
        if (r == 0 && now_ns() > end) FAIL("a child is left");
        struct timespec ts = {0, 2000000};
        if (r == 0) nanosleep(&ts, NULL);
    }
}

/* Runs it once; how many profiles came. */
static int run(char **argv, int rate, int *asked)
{
    int came = 0, status;
    pid_t pid = start(argv[1], argv[4], argv + 5);
    for (;;) {
        siginfo_t ended;
        ended.si_pid = 0;
        /* The zombie stays, so that its pid is nobody else's. */
        CHECK(waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOHANG | WNOWAIT) == 0);
        if (ended.si_pid == pid) break;
        if (rate && ask_answers(pid)) {
            ++*asked;
            came += ask_dump(pid, (unsigned)*asked, 500 + atoi(argv[4]));
        }
        struct timespec ts = {0, rate ? 1000000000 / rate : 10000000};
        if (ts.tv_nsec > 999999999) ts.tv_nsec = 999999999;
        nanosleep(&ts, NULL);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    if (status != 0) {
        FAIL("%s ended with %s %d", argv[5], WIFSIGNALED(status) ? "signal" : "status",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    }
    no_orphans();
    return came;
}

int main(int argc, char **argv)
{
    if (argc < 6) FAIL("usage: run LIBRARY DUMPS_A_SECOND LEAST_DUMPS HOLD_MS PROGRAM...");
    int rate = atoi(argv[2]), least = atoi(argv[3]), came = 0, asked = 0, runs = 0;
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    do came += run(argv, rate, &asked);
    while (came < least && ++runs < RUNS);
    if (came < least) FAIL("%d profiles of %d asked for in %d runs, not %d", came, asked, runs, least);
    return 0;
}
