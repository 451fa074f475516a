/* limit-phases.c: a program under a limit of addresses lives in phases, each of blocks of another size until none
   is to be had; each must find what the one before has freed, and so must the stack of a thread.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define LIMIT ((size_t)200 << 20)
#define ENOUGH ((size_t)60 << 20) /* one block of 70 MB and no more fits where 140 MB do not */

static void *work(void *unused)
{
    return unused;
}

int main(void)
{
    static const size_t sizes[] = {300000, 100, 3000, 70000000, 100, 5000000, 300000, 3000};
    const struct rlimit limit = {LIMIT, LIMIT};
    struct link {
        struct link *next;
    } *all = NULL, *one;
    if (setrlimit(RLIMIT_AS, &limit) != 0) return 77;
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t got = 0;
        while ((one = malloc(sizes[i]))) {
            memset(one, 1, sizes[i]);
            one->next = all;
            all = one;
            got += sizes[i];
        }
        while ((one = all)) {
            all = one->next;
            free(one);
        }
        if (got < ENOUGH) {
            printf("only %zu bytes in blocks of %zu\n", got, sizes[i]);
            return 1;
        }
        pthread_t thread;
        if (pthread_create(&thread, NULL, work, NULL) != 0 || pthread_join(thread, NULL) != 0) {
            printf("no thread after blocks of %zu\n", sizes[i]);
            return 1;
        }
    }
    puts("every phase had its memory");
    return 0;
}
