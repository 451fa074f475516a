// Zeroed blocks of all sizes: each must come zero although blocks were dirtied before they were
// freed.
// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench.h"

enum { OPS, TABLE, LARGEST, PARAMS };
static struct bench_param param[PARAMS] = {
    [OPS] = {"ops", 10000000, 1000000, "allocations", 0},
    [TABLE] = {"table", 2000, 2000, "blocks alive", 0},
    [LARGEST] = {"max", 65536, 65536, "largest block", 0},
};

struct entry {
    unsigned char *block;
    size_t size;
};

// The octave of a size: three times in four one higher, up to 1 KiB; one block in 32 goes on from
// there, every other time one higher, up to the largest.
static size_t size_next(uint64_t *random)
{
    uint64_t draw = rng_next(random);
    size_t top = 16;
    bool large = (draw & 31) == 0;
    for (draw >>= 5; (draw & 3) != 0 && top < 1024; draw >>= 2) top *= 2;
    if (large)
        while (top < (size_t)param[LARGEST].value && ((draw >>= 1) & 1) != 0) top *= 2;
    return rng_range(random, top / 2 + 1, top);
}

int main(int argc, char **argv)
{
    bench_args(argc, argv, param, PARAMS);
    size_t count = (size_t)param[TABLE].value;
    struct entry *table = calloc(count, sizeof *table);
    if (table == NULL) bench_fail("out of memory");
    uint64_t random = 1;
    for (long n = 0; n < param[OPS].value; n++) {
        struct entry *entry = &table[rng_range(&random, 0, count - 1)];
        free(entry->block);
        entry->size = size_next(&random);
        entry->block = escape(calloc(1, entry->size));
        if (entry->block == NULL) bench_fail("out of memory");
        size_t middle = rng_range(&random, 0, entry->size - 1);
        if (entry->block[0] != 0 || entry->block[middle] != 0 || entry->block[entry->size - 1] != 0)
            bench_fail("calloc gave a block of %zu bytes that is not zero", entry->size);
        entry->block[0] = entry->block[middle] = entry->block[entry->size - 1] = 0xff;
    }
    for (size_t i = 0; i < count; i++) free(table[i].block);
    free(table);
    return bench_done((uint64_t)param[OPS].value);
}
