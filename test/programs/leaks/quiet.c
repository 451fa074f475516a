/* quiet.c: threads that allocate, and wait; with an argument, collections beside them.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "leaks.h"

#define THREADS 4

static pthread_barrier_t all_there, collected;

static void *run(void *unused)
{
    for (int i = 0; i < 20000; i++) free(malloc((size_t)i));
    pthread_barrier_wait(&all_there);
    pthread_barrier_wait(&collected);
    for (int i = 0; i < 20000; i++) free(malloc((size_t)i));
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t t[THREADS];
    pthread_barrier_init(&all_there, NULL, THREADS + 1);
    pthread_barrier_init(&collected, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&t[i], NULL, run, NULL) == 0);
    pthread_barrier_wait(&all_there);
    if (argc > 1 && argv[1][0]) {
        collect(GLEANER_MINOR);
        collect(GLEANER_MAJOR);
    }
    pthread_barrier_wait(&collected);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    return 0;
}
