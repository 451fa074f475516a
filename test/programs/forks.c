/* forks.c: forks from a program with busy threads; child and grandchild allocate, free what they
   inherited, and make threads of their own; vfork and posix_spawn in between.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_int stop;
static _Atomic(char *) shared[256];

static void *busy(void *argument)
{
    unsigned s = (unsigned)(size_t)argument;
    while (!atomic_load(&stop)) {
        s = s * 1664525u + 1013904223u;
        size_t n = (s >> 8) % 40000 + 1;
        char *p = malloc(n);
        if (p) p[0] = p[n - 1] = 5;
        free(atomic_exchange(&shared[s >> 24], p));
    }
    return NULL;
}

static void *short_lived(void *argument)
{
    for (int i = 0; i < 200; i++) free(memset(malloc(300), 1, 300));
    return NULL;
}

static int descend(int depth)
{
    for (int i = 0; i < 256; i++) free(atomic_exchange(&shared[i], NULL));
    pthread_t t;
    if (pthread_create(&t, NULL, short_lived, NULL) != 0) return 3;
    short_lived(NULL);
    pthread_join(t, NULL);
    if (depth == 0) return 0;
    pid_t pid = fork();
    if (pid == 0) _exit(descend(depth - 1));
    int status;
    return pid < 0 || waitpid(pid, &status, 0) != pid || status != 0 ? 4 : 0;
}

/* A child whose fork handlers did not run has the memory of a process with busy threads all the same. */
static int raw_child(void)
{
    alarm(30);
    for (int i = 0; i < 256; i++) free(atomic_exchange(&shared[i], NULL));
    for (size_t n = 1; n < 400000; n += n / 3 + 1) {
        char *p[50];
        for (int i = 0; i < 50; i++) {
            p[i] = malloc(n);
            if (!p[i]) return 6;
            memset(p[i], i, n);
        }
        for (int i = 0; i < 50; i++) {
            if (p[i][0] != i || p[i][n - 1] != i) return 7;
            free(p[i]);
        }
    }
    return 0;
}

int main(int count, char **argument)
{
    pthread_t t[4];
    for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, busy, (void *)(size_t)(i + 1));
    extern char **environ;
    int bad = 0;
    for (int i = 0; i < 60; i++) {
        int status = 0;
        pid_t pid;
        char *arguments[] = {"true", NULL};
        switch (count > 1 ? 3 : i % 3) {
        case 3:
            if (i >= 20) continue;
            pid = _Fork();
            if (pid == 0) _exit(raw_child());
            break;
        case 0:
            pid = fork();
            if (pid == 0) _exit(descend(2));
            break;
        case 1:
            pid = vfork();
            if (pid == 0) {
                execv("/bin/true", arguments);
                _exit(5);
            }
            break;
        default:
            if (posix_spawn(&pid, "/bin/true", NULL, NULL, arguments, environ) != 0) return 2;
        }
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
            printf("%d: status %x\n", i, status);
            bad++;
        }
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    if (bad == 0) puts("all came back");
    return bad != 0;
}
