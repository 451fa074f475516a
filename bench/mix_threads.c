// Threads that share nothing, each replacing blocks of 8 to 4096 bytes, small ones far more often:
// the cost of the fast path with threads alive.
// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench.h"

enum { THREADS, OPS, SLOTS, LOW, HIGH, PARAMS };
static struct bench_param param[PARAMS] = {
    [THREADS] = {"threads", 2, 2, "threads", 0},
    [OPS] = {"ops", 15000000, 1500000, "allocations of one thread", 0},
    [SLOTS] = {"slots", 1024, 1024, "blocks alive in a thread", 0},
    [LOW] = {"min", 8, 8, "smallest block", 0},
    [HIGH] = {"max", 4096, 4096, "largest block", 0},
};

#define DRAWS 4096 // sizes are drawn from a table of so many

static size_t sizes[DRAWS];

// Density proportional to 1/size^2: by inversion, size = 1 / (1/low - u (1/low - 1/high)).
static void sizes_fill(void)
{
    double low = 1.0 / (double)param[LOW].value, high = 1.0 / (double)param[HIGH].value;
    for (int i = 0; i < DRAWS; i++) sizes[i] = (size_t)(1 / (low - i * (low - high) / (DRAWS - 1)));
}

static void *run(void *argument)
{
    uint64_t random = *(uint64_t *)argument;
    size_t last = (size_t)param[SLOTS].value - 1;
    struct entry {
        void *block;
        size_t size;
    } *table = calloc(last + 1, sizeof *table);
    if (table == NULL) bench_fail("out of memory");
    for (long n = 0; n < param[OPS].value; n++) {
        struct entry *entry = &table[rng_range(&random, 0, last)];
        if (entry->block != NULL) block_delete(entry->block, entry->size, entry->size);
        entry->size = sizes[rng_next(&random) % DRAWS];
        entry->block = block_new(entry->size, entry->size);
    }
    for (size_t i = 0; i <= last; i++)
        if (table[i].block != NULL) block_delete(table[i].block, table[i].size, table[i].size);
    free(table);
    return NULL;
}

int main(int argc, char **argv)
{
    bench_args(argc, argv, param, PARAMS);
    sizes_fill();
    size_t threads = (size_t)param[THREADS].value;
    pthread_t *thread = calloc(threads, sizeof *thread);
    uint64_t *seed = calloc(threads, sizeof *seed);
    if (thread == NULL || seed == NULL) bench_fail("out of memory");
    for (size_t i = 0; i < threads; i++) {
        seed[i] = i + 1;
        thread[i] = thread_start(run, &seed[i]);
    }
    for (size_t i = 0; i < threads; i++) thread_wait(thread[i]);
    free(thread);
    free(seed);
    return bench_done((uint64_t)threads * (uint64_t)param[OPS].value);
}
