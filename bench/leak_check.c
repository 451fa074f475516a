/* leak_check.c: what a leak check costs a running program: a random graph of blocks, a thread that watches the clock, and the check.

      leak_check [MILLIONS [CHECKS]]

   Under Gleaner by gleaner_collect, in a build with -fsanitize=leak by __lsan_do_recoverable_leak_check.  Prints one line a check: seconds
   of the whole check, and the longest time that the watching thread did not run.  Run it under both in turn.
   SPDX-License-Identifier: LGPL-2.1-or-later */

#include "gleaner.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

extern int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

struct node {
    struct node *to[4];
    char rest[96];
};

static struct node **nodes;
static atomic_bool over;
static _Atomic uint64_t longest;

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *watch(void *unused)
{
    uint64_t last = now();
    while (!atomic_load_explicit(&over, memory_order_relaxed)) {
        uint64_t t = now();
        if (t - last > atomic_load_explicit(&longest, memory_order_relaxed)) atomic_store(&longest, t - last);
        last = t;
    }
    return NULL;
}

static uint64_t random_number(void)
{
    static uint64_t s = 88172645463325252u;
    s ^= s << 13;
    s ^= s >> 7;
    return s ^= s << 17;
}

static int check(int minor)
{
    if (gleaner_collect) return gleaner_collect(minor ? GLEANER_MINOR : GLEANER_MAJOR);
    if (__lsan_do_recoverable_leak_check && !minor) return __lsan_do_recoverable_leak_check() < 0;
    return -1;
}

static void timed(const char *what, int minor)
{
    atomic_store(&longest, 0);
    uint64_t began = now();
    int r = check(minor);
    uint64_t took = now() - began;
    printf("%s: %.3f s, longest pause %.2f ms%s\n", what, (double)took / 1e9, (double)atomic_load(&longest) / 1e6,
           r ? " (incomplete)" : "");
    fflush(stdout);
}

int main(int count, char **argument)
{
    size_t n = (size_t)((count > 1 ? atof(argument[1]) : 8) * 1e6);
    int checks = count > 2 ? atoi(argument[2]) : 3;
    pthread_t thread;
    nodes = malloc(n * sizeof *nodes);
    for (size_t i = 0; i < n; i++) nodes[i] = calloc(1, sizeof **nodes);
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < 4; k++) nodes[i]->to[k] = nodes[random_number() % n];
    pthread_create(&thread, NULL, watch, NULL);
    for (int i = 0; i < checks; i++) timed("major", 0);
    if (gleaner_collect)
        for (int i = 0; i < checks; i++) {
            /* 32 MiB of young blocks that stay, and a hundredth of the old memory written to, by pages. */
            struct node *young = NULL;
            for (size_t k = 0; k < 32u * 1024 * 1024 / sizeof *young; k++) {
                struct node *new = calloc(1, sizeof *new);
                new->to[0] = young;
                young = new;
            }
            for (size_t k = 0; k < n / 100; k += 28) {
                size_t from = random_number() % (n - 28);
                for (size_t i = 0; i < 28; i++) nodes[from + i]->to[1] = young;
            }
            timed("minor", 1);
        }
    atomic_store(&over, 1);
    pthread_join(thread, NULL);
    return 0;
}
