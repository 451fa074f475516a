/* wait-all.c: a program that counts its children by every kind of wait, while snapshots are taken
   of it (T13).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "program.h"

#include <sys/wait.h>

static atomic_int chld;
static void on_chld(int sig)
{
    atomic_fetch_add(&chld, 1);
}

static void have_children(int n, int code)
{
    for (int i = 0; i < n; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) _exit(code);
    }
}

static void by_wait(void)
{
    int n = 0, status;
    have_children(3, 5);
    while (wait(&status) > 0) {
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5);
        n++;
    }
    CHECK(errno == ECHILD && n == 3);
}

static void by_waitpid_all(void)
{
    int n = 0, status;
    have_children(3, 6);
    while (waitpid(-1, &status, __WALL) > 0) {
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 6);
        n++;
    }
    CHECK(errno == ECHILD && n == 3);
}

static void by_waitid_all(void)
{
    int n = 0;
    siginfo_t info;
    have_children(3, 7);
    while (waitid(P_ALL, 0, &info, WEXITED | WNOWAIT | __WALL) == 0) {
        CHECK(info.si_status == 7);
        CHECK(waitid(P_PID, (id_t)info.si_pid, &info, WEXITED) == 0);
        n++;
    }
    CHECK(errno == ECHILD && n == 3);
}

static void one_signal_each(void)
{
    int before = atomic_load(&chld), status;
    for (int i = 0; i < 3; i++) {
        pid_t pid = fork();
        if (pid == 0) _exit(0);
        CHECK(waitpid(pid, &status, 0) == pid);
    }
    struct timespec ts = {0, 20000000};
    nanosleep(&ts, NULL);
    CHECK(atomic_load(&chld) == before + 3);
}

int main(void)
{
    struct sigaction a = {.sa_handler = on_chld, .sa_flags = SA_RESTART};
    if (getenv("STOPS_A_SECOND")) stopper_start(20, 0); /* else there is one thread, and run.c asks for snapshots */
    for (int64_t end = now_ns() + 1500000000; now_ns() < end;) {
        signal(SIGCHLD, SIG_DFL);
        by_wait();
        by_waitpid_all();
        by_waitid_all();
        sigaction(SIGCHLD, &a, NULL);
        one_signal_each();
        signal(SIGCHLD, SIG_IGN); /* children vanish by themselves */
        have_children(3, 0);
        CHECK(wait(NULL) == -1 && errno == ECHILD);
    }
    return 0;
}
