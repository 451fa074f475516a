// pair_loop MODE SIZE...: allocates and frees blocks of each size in turn, for counting
// instructions. m0 frees each block at once, m1 allocates 64 and then frees 64, m2 is m0 with
// calloc. For each size, after a warm-up, count_pairs runs twice, with FEW and with MANY pairs:
// callgrind counts inside that function only and writes one figure a call (instructions.py).
// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench.h"

#define BATCH 64    // blocks of m1 that are alive together
#define WARMUP 6400 // pairs until caches and pools are in their steady state
#define FEW 640
#define MANY 7040

enum mode { AT_ONCE, BATCHED, ZEROED };

// Known by name to callgrind's --toggle-collect and --dump-after, so it must stay a function of its
// own: weak, because no compiler inlines or clones what the linker might replace.
__attribute__((noinline, weak)) void count_pairs(enum mode mode, size_t size, long pairs);

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
    if (argc < 3 || argv[1][0] != 'm' || argv[1][1] < '0' || argv[1][1] > '2' ||
        argv[1][2] != '\0') {
        fprintf(stderr, "usage: %s m0|m1|m2 SIZE...\n", argv[0]);
        return 2;
    }
    enum mode mode = (enum mode)(argv[1][1] - '0');
    for (int i = 2; i < argc; i++) {
        char *end;
        size_t size = strtoul(argv[i], &end, 10);
        if (size < 1 || *end != '\0') {
            fprintf(stderr, "%s: bad size: %s\n", argv[0], argv[i]);
            return 2;
        }
        // A tenth for calloc: under valgrind every byte that `rep stos` clears is an instruction.
        long part = mode == ZEROED ? 10 : 1;
        run(mode, size, WARMUP / part);
        count_pairs(mode, size, FEW / part);
        count_pairs(mode, size, MANY / part);
    }
    return 0;
}
