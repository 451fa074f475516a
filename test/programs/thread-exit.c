/* thread-exit.c: threads by the thousand that allocate until their very end, in destructors of
   thread-specific data that come back for every round; what they leave is freed by others.  The process
   must not grow with the number of threads (after glibc's malloc-thread-exit; jemalloc#896, snmalloc#161).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCKS 50

static pthread_key_t keys[40];

static void again(void *value)
{
    char *p = value;
    int round = p[0];
    free(p);
    p = malloc(300);
    memset(p, 0, 300);
    p[0] = (char)(round + 1);
    if (round < 2) {
        for (int i = 0; i < 40; i++)
            if (!pthread_getspecific(keys[i])) {
                pthread_setspecific(keys[i], p);
                return;
            }
    }
    free(p);
}

static void *work(void *argument)
{
    void **blocks = calloc(BLOCKS, sizeof *blocks);
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc((size_t)(i * 97 % 2000 + 1));
        memset(blocks[i], i, (size_t)(i * 97 % 2000 + 1));
    }
    for (int i = 0; i < 40; i += 13) pthread_setspecific(keys[i], calloc(1, 200));
    return blocks;
}

static long resident(void)
{
    long size, pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%ld %ld", &size, &pages) != 2) pages = 0;
    if (f) fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static int run(int threads)
{
    pthread_t t[8];
    for (int i = 0; i < threads; i += 8) {
        for (int j = 0; j < 8; j++)
            if (pthread_create(&t[j], NULL, work, NULL) != 0) return 2;
        for (int j = 0; j < 8; j++) {
            void *result;
            pthread_join(t[j], &result);
            void **blocks = result;
            for (int k = 0; k < BLOCKS; k++) free(blocks[k]);
            free(blocks);
        }
    }
    return 0;
}

int main(void)
{
    for (int i = 0; i < 40; i++) pthread_key_create(&keys[i], again);
    if (run(400) != 0) return 2;
    long before = resident();
    if (run(4000) != 0) return 2;
    long after = resident();
    /* 4000 threads left 50 KiB each behind: 200 MiB if nobody took it up. */
    if (after > before + 20000) {
        printf("grew from %ld to %ld KiB\n", before, after);
        return 1;
    }
    puts("no growth");
    return 0;
}
