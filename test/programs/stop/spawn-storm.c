/* spawn-storm.c: threads that fork, exec, spawn and start threads as fast as they can while the
   world stops: no hang, no failure, and wait sees every child once (T12).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "program.h"

#include <spawn.h>
#include <sys/wait.h>

static atomic_bool end;
static char *const argv_true[] = {"/bin/true", NULL};
extern char **environ;

static void reap(pid_t pid, int want)
{
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != want) FAIL("a child's status is %x", status);
}

static void *forks(void *unused)
{
    while (!atomic_load(&end)) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            free(malloc(100));
            _exit(7);
        }
        reap(pid, 7);
    }
    return NULL;
}

static void *execs(void *unused)
{
    while (!atomic_load(&end)) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            execv("/nonexistent", argv_true);
            execv(argv_true[0], argv_true);
            _exit(8);
        }
        reap(pid, 0);
    }
    return NULL;
}

static void *vforks(void *unused)
{
    while (!atomic_load(&end)) {
        pid_t pid = vfork();
        CHECK(pid >= 0);
        if (pid == 0) {
            signal(SIGINT, SIG_DFL);
            execv("/nonexistent", argv_true);
            execl(argv_true[0], argv_true[0], (char *)NULL);
            _exit(8);
        }
        reap(pid, 0);
    }
    return NULL;
}

static void *spawns(void *unused)
{
    while (!atomic_load(&end)) {
        pid_t pid;
        CHECK(posix_spawn(&pid, argv_true[0], NULL, NULL, argv_true, environ) == 0);
        reap(pid, 0);
    }
    return NULL;
}

static void *nothing(void *p)
{
    return p;
}

static void *threads(void *unused)
{
    while (!atomic_load(&end)) {
        pthread_t t[4];
        void *r;
        for (int i = 0; i < 4; i++) CHECK(pthread_create(&t[i], NULL, nothing, t + i) == 0);
        for (int i = 0; i < 4; i++) CHECK(pthread_join(t[i], &r) == 0 && r == &t[i]);
    }
    return NULL;
}

int main(void)
{
    void *(*const all[])(void *) = {forks, execs, vforks, spawns, threads, threads};
    enum { N = sizeof all / sizeof all[0] };
    pthread_t t[N];
    stopper_start(50, 0);
    for (int i = 0; i < N; i++) CHECK(pthread_create(&t[i], NULL, all[i], NULL) == 0);
    sleep(2);
    while (!stopper_had(1)) usleep(1000);
    atomic_store(&end, true);
    for (int i = 0; i < N; i++) pthread_join(t[i], NULL);
    stopper_end(1);
    CHECK(wait(NULL) == -1 && errno == ECHILD);
    CHECK(waitpid(-1, NULL, __WALL) == -1 && errno == ECHILD);
    return 0;
}
