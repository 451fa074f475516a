// Threads are born and die all the time, each with a few blocks: a thread frees what a dead one
// left, and leaves blocks of its own to be freed later.
// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench.h"

enum { LANES, WAVES, BLOCKS, LOW, HIGH, PARAMS };
static struct bench_param param[PARAMS] = {
    [LANES] = {"threads", 4, 4, "threads of a wave", 0},
    [WAVES] = {"waves", 4000, 400, "waves one after another", 0},
    [BLOCKS] = {"blocks", 60, 60, "blocks that a thread makes", 0},
    [LOW] = {"min", 16, 16, "smallest block", 0},
    [HIGH] = {"max", 2000, 2000, "largest block", 0},
};

struct lane {
    void **left;   // blocks that a dead thread left here; the sizes follow from `seed`
    uint64_t seed; // of those blocks
};

static size_t size_next(uint64_t *random)
{
    return rng_range(random, (size_t)param[LOW].value, (size_t)param[HIGH].value);
}

static void lane_clear(struct lane *lane)
{
    uint64_t random = lane->seed;
    if (lane->left == NULL) return;
    for (long i = 0; i < param[BLOCKS].value; i++)
        block_delete(lane->left[i], size_next(&random), lane->seed);
    free(lane->left);
    lane->left = NULL;
}

static void *live(void *argument)
{
    struct lane *lane = argument;
    uint64_t seed = lane->seed + 1, random = seed;
    void **mine = escape(malloc((size_t)param[BLOCKS].value * sizeof *mine));
    if (mine == NULL) bench_fail("out of memory");
    for (long i = 0; i < param[BLOCKS].value; i++) mine[i] = block_new(size_next(&random), seed);
    // Some blocks that die with the thread, before the dead thread's are freed.
    for (long i = 0; i < param[BLOCKS].value; i++)
        block_delete(block_new(64, (uint64_t)i), 64, (uint64_t)i);
    lane_clear(lane);
    lane->left = mine;
    lane->seed = seed;
    return NULL;
}

int main(int argc, char **argv)
{
    bench_args(argc, argv, param, PARAMS);
    size_t lanes = (size_t)param[LANES].value;
    struct lane *lane = calloc(lanes, sizeof *lane);
    pthread_t *thread = calloc(lanes, sizeof *thread);
    if (lane == NULL || thread == NULL) bench_fail("out of memory");
    for (size_t i = 0; i < lanes; i++) lane[i].seed = i * 1000000;
    for (long wave = 0; wave < param[WAVES].value; wave++) {
        for (size_t i = 0; i < lanes; i++) thread[i] = thread_start(live, &lane[i]);
        for (size_t i = 0; i < lanes; i++) thread_wait(thread[i]);
        if (wave % 8 == 7) lane_clear(&lane[(size_t)wave / 8 % lanes]);
    }
    for (size_t i = 0; i < lanes; i++) lane_clear(&lane[i]);
    free(thread);
    free(lane);
    return bench_done((uint64_t)lanes * (uint64_t)param[WAVES].value *
                      (2 * (uint64_t)param[BLOCKS].value + 1));
}
