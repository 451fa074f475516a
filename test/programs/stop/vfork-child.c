/* vfork-child.c: what a vfork child does with signals and exec stays in the child: afterwards the
   parent's handlers are the parent's, and it still stops and answers.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "program.h"

#include <sys/wait.h>

static volatile sig_atomic_t ours, childs;
static void ours_ran(int sig)
{
    ours++;
}
static void childs_ran(int sig)
{
    childs++;
}

static void *idle(void *unused)
{
    for (;;) usleep(1000);
    return NULL;
}

int main(void)
{
    int (*stop)(long) = stopper_find();
    pthread_t t;
    signal(SIGUSR1, ours_ran);
    CHECK(pthread_create(&t, NULL, idle, NULL) == 0);
    for (int i = 0; i < 20; i++) {
        pid_t pid = vfork();
        CHECK(pid >= 0);
        if (pid == 0) {
            char *argv[] = {"x", NULL};
            if (i % 2) signal(SIGUSR1, childs_ran);
            if (i % 3 == 0) signal(SIGUSR1, SIG_IGN);
            execv("/nonexistent", argv);
            _exit(3);
        }
        int status;
        CHECK(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 3);
        CHECK(raise(SIGUSR1) == 0 && ours == i + 1 && childs == 0);
        if (stop) stop_completely(stop, "after vfork");
    }
    pid_t pid = fork(); /* a real child can be stopped as well */
    if (pid == 0) {
        CHECK(pthread_create(&t, NULL, idle, NULL) == 0);
        if (stop) stop_completely(stop, "in the child");
        _exit(0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    usleep(3000000); /* for run.c to ask: a stop that met a vfork is tried again after a second */
    return 0;
}
