/* fork-stdio.c: forks while other threads are in getline (which holds a stream's lock and calls
   realloc), open streams (which takes the list's lock and calls malloc) and allocate; every child
   allocates, too.  Allocators that lock around fork hang here (glibc's tst-malloc-fork-deadlock).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FORKS 150

static atomic_int stop;

static void *reads(void *argument)
{
    while (!atomic_load(&stop)) {
        FILE *f = fopen("/proc/self/maps", "r");
        char *line = NULL;
        size_t n = 0;
        while (f && getline(&line, &n, f) > 0) {
        }
        if (f) fclose(f);
        free(line);
    }
    return NULL;
}

static void *long_lines(void *argument)
{
    FILE *f = tmpfile();
    for (int i = 0; i < 200000; i++) fputc('x', f);
    while (!atomic_load(&stop)) {
        rewind(f);
        char *line = NULL;
        size_t n = 0;
        if (getline(&line, &n, f) < 0) break;
        free(line);
    }
    fclose(f);
    return NULL;
}

static void *allocates(void *argument)
{
    while (!atomic_load(&stop)) {
        void *p[100];
        for (int i = 0; i < 100; i++) p[i] = malloc((size_t)(i * i * 31 % 70000));
        fflush(NULL);
        for (int i = 0; i < 100; i++) free(p[i]);
    }
    return NULL;
}

static void child(void)
{
    for (int i = 0; i < 500; i++) {
        size_t n = (size_t)(i * 7919 % 100000 + 1);
        char *p = malloc(n);
        if (!p) _exit(3);
        memset(p, 1, n);
        p = realloc(p, n * 2);
        free(p);
    }
    FILE *f = fopen("/dev/null", "w");
    if (!f) _exit(4);
    fprintf(f, "%d", 1);
    fclose(f);
    exit(0);
}

int main(void)
{
    pthread_t t[3];
    pthread_create(&t[0], NULL, reads, NULL);
    pthread_create(&t[1], NULL, long_lines, NULL);
    pthread_create(&t[2], NULL, allocates, NULL);
    int bad = 0;
    for (int i = 0; i < FORKS; i++) {
        pid_t pid = fork();
        if (pid == 0) child();
        int status;
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
            printf("child %d: status %x\n", i, pid < 0 ? -1 : status);
            bad++;
        }
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    if (bad == 0) puts("all came back");
    return bad != 0;
}
