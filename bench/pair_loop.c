// pair_loop MODE SIZE PAIRS: allocates and frees PAIRS blocks of SIZE bytes, for counting
// instructions. m0 frees each block at once, m1 allocates 64 and then frees 64, m2 is m0 with
// calloc. Everything but count_pairs is start and warm-up: callgrind counts that function only
// (instructions.py). SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench.h"

#define BATCH 64    // blocks of m1 that are alive together
#define WARMUP 8192 // pairs until caches and pools are in their steady state

enum mode { AT_ONCE, BATCHED, ZEROED };

// Called by name under --toggle-collect, so it must stay a function of its own.
__attribute__((noinline, noclone)) void count_pairs(enum mode mode, size_t size, long pairs);

static void run(enum mode mode, size_t size, long pairs)
{
    void *block[BATCH];
    switch (mode) {
    case AT_ONCE:
        for (long n = 0; n < pairs; n++) free(escape(malloc(size)));
        break;
    case BATCHED:
        for (long n = 0; n < pairs; n += BATCH) {
            for (int i = 0; i < BATCH; i++) block[i] = escape(malloc(size));
            for (int i = 0; i < BATCH; i++) free(block[i]);
        }
        break;
    case ZEROED:
        for (long n = 0; n < pairs; n++) free(escape(calloc(1, size)));
        break;
    }
}

void count_pairs(enum mode mode, size_t size, long pairs)
{
    run(mode, size, pairs);
    __asm__ volatile("");
}

int main(int argc, char **argv)
{
    char *end_size, *end_pairs;
    size_t size = argc == 4 ? strtoul(argv[2], &end_size, 10) : 0;
    long pairs = argc == 4 ? strtol(argv[3], &end_pairs, 10) : 0;
    if (size < 1 || pairs < BATCH || pairs % BATCH != 0 || *end_size != '\0' ||
        *end_pairs != '\0' || argv[1][0] != 'm' || argv[1][1] < '0' || argv[1][1] > '2' ||
        argv[1][2] != '\0') {
        fprintf(stderr, "usage: %s m0|m1|m2 SIZE PAIRS (a multiple of %d)\n", argv[0], BATCH);
        return 2;
    }
    enum mode mode = (enum mode)(argv[1][1] - '0');
    run(mode, size, WARMUP);
    count_pairs(mode, size, pairs);
    return bench_done((uint64_t)pairs);
}
