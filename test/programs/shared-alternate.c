/* shared-alternate.c: threads that share one alternate stack, as varnishd's do: none comes back from a stop with another's registers.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define THREADS 8

static char stack[65536];
static atomic_bool end;

static void *work(void *number)
{
    const stack_t shared = {.ss_sp = stack, .ss_size = sizeof stack};
    volatile long me = (long)number;
    if (sigaltstack(&shared, NULL) != 0) abort();
    while (!end)
        if (me != (long)number) abort();
    return (void *)me;
}

int main(void)
{
    pthread_t thread[THREADS];
    for (long i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, work, (void *)i) != 0) return 2;
    for (int i = 0; i < 100; i++) {
        usleep(10000);
        for (int k = 0; k < 2000; k++) {
            void *volatile p = malloc(1000);
            if (k % 4) free(p);
        }
    }
    end = 1;
    for (long i = 0; i < THREADS; i++) {
        void *number;
        pthread_join(thread[i], &number);
        if ((long)number != i) {
            printf("thread %ld ended as %ld\n", i, (long)number);
            return 1;
        }
    }
    puts("each itself");
    return 0;
}
