// Phases over time: each fills the heap with sizes of its own kind, then frees all but a few
// long-lived blocks that lie scattered. An allocator that cannot reuse what lies between grows from
// phase to phase; the peak is the result.
// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench.h"
#include <sys/resource.h>

enum { CYCLES, LIVE, KEEP, PARAMS };
static struct bench_param param[PARAMS] = {
    [CYCLES] = {"cycles", 4, 1, "times that all phases are run", 0},
    [LIVE] = {"live", 16, 8, "MiB that a phase fills", 0},
    [KEEP] = {"keep", 20, 20, "one block in so many outlives its phase, till the next cycle", 0},
};

// Sizes of the phases: small objects, records, buffers, odd sizes, pages, large ones.
static const struct {
    size_t low, high;
} phase[] = {{16, 64},      {100, 400},  {1000, 4000},    {24, 200},
             {5000, 30000}, {400, 1100}, {40000, 200000}, {16, 2000}};
#define PHASES (sizeof phase / sizeof phase[0])

struct entry {
    void *block;
    size_t size;
};

struct list {
    struct entry *entry;
    size_t count, room;
};

static void list_add(struct list *list, struct entry entry)
{
    if (list->count == list->room) {
        list->room = list->room * 2 + 64;
        list->entry = realloc(list->entry, list->room * sizeof *list->entry);
        if (list->entry == NULL) bench_fail("out of memory");
    }
    list->entry[list->count++] = entry;
}

static void list_clear(struct list *list)
{
    for (size_t i = 0; i < list->count; i++)
        block_delete(list->entry[i].block, list->entry[i].size, list->entry[i].size);
    list->count = 0;
}

int main(int argc, char **argv)
{
    bench_args(argc, argv, param, PARAMS);
    uint64_t random = 1, operations = 0;
    struct list live = {0}, kept[PHASES] = {{0}};
    for (long cycle = 0; cycle < param[CYCLES].value; cycle++)
        for (size_t p = 0; p < PHASES; p++) {
            size_t goal = (size_t)param[LIVE].value << 20;
            for (size_t sum = 0; sum < goal;) {
                struct entry entry = {.size = rng_range(&random, phase[p].low, phase[p].high)};
                entry.block = block_new(entry.size, entry.size);
                list_add(&live, entry);
                sum += entry.size;
                operations++;
                // One free for every two allocations while the phase grows.
                if (operations % 2 == 0) {
                    size_t at = rng_range(&random, 0, live.count - 1);
                    struct entry *victim = &live.entry[at];
                    block_delete(victim->block, victim->size, victim->size);
                    sum -= victim->size;
                    *victim = live.entry[--live.count];
                }
            }
            list_clear(&kept[p]);
            for (size_t i = 0; i < live.count;) {
                if (rng_range(&random, 1, (size_t)param[KEEP].value) != 1) {
                    i++;
                    continue;
                }
                list_add(&kept[p], live.entry[i]);
                live.entry[i] = live.entry[--live.count];
            }
            list_clear(&live);
        }
    for (size_t p = 0; p < PHASES; p++) {
        list_clear(&kept[p]);
        free(kept[p].entry);
    }
    free(live.entry);
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) == 0) printf("peak %ld KiB, ", usage.ru_maxrss);
    return bench_done(operations);
}
