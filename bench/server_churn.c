// A server's request handlers: every thread replaces random blocks of a table, then leaves the
// table to another thread and ends. After Larson and Krishnan, "Memory allocation for long-running
// server applications" (ISMM 1998).
// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench.h"
#include <semaphore.h>
#include <stdatomic.h>

enum { LANES, SLOTS, LOW, HIGH, OPS, GENERATIONS, PARAMS };
static struct bench_param param[PARAMS] = {
    [LANES] = {"threads", 2, 2, "threads alive at a time", 0},
    [SLOTS] = {"slots", 4000, 1000, "blocks in a table", 0},
    [LOW] = {"min", 8, 8, "smallest block", 0},
    [HIGH] = {"max", 1024, 1024, "largest block", 0},
    [OPS] = {"ops", 1000000, 60000, "replacements of one thread", 0},
    [GENERATIONS] = {"generations", 10, 4, "threads one after another", 0},
};

struct entry {
    void *block;
    size_t size;
};

// On a cache line of its own, or the lanes would slow each other down whatever the allocator does.
struct lane {
    _Alignas(64) struct entry *table;
    long generation;
    uint64_t random;
};

// A table that waits for its next owner: a lane that ends leaves its own here and takes what lies
// here, so blocks are freed by threads of another lane too.
static _Atomic(struct entry *) mailbox;
static sem_t finished;

static struct entry *table_new(uint64_t *random)
{
    struct entry *table = block_new(sizeof *table * (size_t)param[SLOTS].value, 0);
    for (long i = 0; i < param[SLOTS].value; i++) {
        table[i].size = rng_range(random, (size_t)param[LOW].value, (size_t)param[HIGH].value);
        table[i].block = block_new(table[i].size, table[i].size);
    }
    return table;
}

static void table_delete(struct entry *table)
{
    for (long i = 0; i < param[SLOTS].value; i++)
        block_delete(table[i].block, table[i].size, table[i].size);
    free(table);
}

static void *serve(void *argument)
{
    struct lane *lane = argument;
    size_t last = (size_t)param[SLOTS].value - 1;
    for (long n = 0; n < param[OPS].value; n++) {
        struct entry *entry = &lane->table[rng_range(&lane->random, 0, last)];
        block_delete(entry->block, entry->size, entry->size);
        entry->size = rng_range(&lane->random, (size_t)param[LOW].value, (size_t)param[HIGH].value);
        entry->block = block_new(entry->size, entry->size);
    }
    lane->table = atomic_exchange(&mailbox, lane->table);
    if (++lane->generation == param[GENERATIONS].value)
        sem_post(&finished);
    else
        pthread_detach(thread_start(serve, lane));
    return NULL;
}

int main(int argc, char **argv)
{
    bench_args(argc, argv, param, PARAMS);
    long lanes = param[LANES].value;
    struct lane *lane = aligned_alloc(_Alignof(struct lane), (size_t)lanes * sizeof *lane);
    if (lane == NULL || sem_init(&finished, 0, 0) != 0) bench_fail("start");
    memset(lane, 0, (size_t)lanes * sizeof *lane);
    uint64_t random = 1;
    atomic_store(&mailbox, table_new(&random));
    for (long i = 0; i < lanes; i++) {
        lane[i].random = (uint64_t)i + 1;
        lane[i].table = table_new(&lane[i].random);
    }
    for (long i = 0; i < lanes; i++) pthread_detach(thread_start(serve, &lane[i]));
    for (long i = 0; i < lanes; i++)
        while (sem_wait(&finished) != 0) continue;
    for (long i = 0; i < lanes; i++) table_delete(lane[i].table);
    table_delete(atomic_load(&mailbox));
    free(lane);
    return bench_done((uint64_t)(lanes * param[OPS].value * param[GENERATIONS].value));
}
