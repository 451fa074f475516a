// Threads write to small blocks of their own: when the allocator gave two threads parts of one
// cache line (actively, or by reusing a line that another thread's block was in), every write is
// slow. The pattern of Berger et al., "Hoard" (ASPLOS 2000), cache-scratch and cache-thrash.
// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench.h"

enum { THREADS, OPS, WRITES, SIZE, PARAMS };
static struct bench_param param[PARAMS] = {
    [THREADS] = {"threads", 2, 2, "threads", 0},
    [OPS] = {"ops", 25000, 4000, "blocks of one thread", 0},
    [WRITES] = {"writes", 12000, 8000, "writes to each block", 0},
    [SIZE] = {"size", 8, 8, "size of a block", 0},
};

struct writer {
    unsigned char *given; // allocated by the first thread, beside the other threads' ones
    pthread_barrier_t *start;
};

static void *scratch(void *argument)
{
    struct writer *writer = argument;
    size_t size = (size_t)param[SIZE].value;
    pthread_barrier_wait(writer->start);
    free(writer->given);
    for (long n = 0; n < param[OPS].value; n++) {
        volatile unsigned char *block = escape(malloc(size));
        if (block == NULL) bench_fail("out of memory");
        for (size_t i = 0; i < size; i++) block[i] = 0;
        for (long w = 0; w < param[WRITES].value; w++) block[(size_t)w % size]++;
        for (size_t i = 0; i < size; i++) {
            size_t writes = (size_t)param[WRITES].value;
            if (block[i] != (unsigned char)(writes / size + (i < writes % size)))
                bench_fail("two threads wrote to one block");
        }
        free((void *)block);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    bench_args(argc, argv, param, PARAMS);
    size_t threads = (size_t)param[THREADS].value;
    struct writer *writer = calloc(threads, sizeof *writer);
    pthread_t *thread = calloc(threads, sizeof *thread);
    pthread_barrier_t start;
    if (writer == NULL || thread == NULL ||
        pthread_barrier_init(&start, NULL, (unsigned)threads) != 0)
        bench_fail("start");
    for (size_t i = 0; i < threads; i++)
        writer[i] = (struct writer){escape(malloc((size_t)param[SIZE].value)), &start};
    for (size_t i = 0; i < threads; i++) thread[i] = thread_start(scratch, &writer[i]);
    for (size_t i = 0; i < threads; i++) thread_wait(thread[i]);
    pthread_barrier_destroy(&start);
    free(thread);
    free(writer);
    return bench_done((uint64_t)threads * ((uint64_t)param[OPS].value + 1));
}
