// A program that grows while it churns: sizes are log-normal (most small, some of many kilobytes);
// some blocks live for a few operations, some until they are replaced, some until the end.
// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench.h"
#include <math.h>

enum { OPS, TABLE, LONG_LIVED, MEDIAN, LARGEST, PARAMS };
static struct bench_param param[PARAMS] = {
    [OPS] = {"ops", 10000000, 1000000, "allocations", 0},
    [TABLE] = {"table", 60000, 8000, "blocks that live until they are replaced", 0},
    [LONG_LIVED] = {"keep", 60, 60, "one allocation in so many lives until the end", 0},
    [MEDIAN] = {"median", 80, 80, "median size in bytes", 0},
    [LARGEST] = {"max", 262144, 262144, "largest size in bytes", 0},
};

#define SHORT 256      // blocks that die after so many of their kind
#define QUANTILES 8192 // sizes are drawn from a table of so many

struct entry {
    void *block;
    size_t size;
};

static size_t quantile[QUANTILES];

// Sizes exp(mu + 1.3 sigma): quantiles of the normal distribution by bisection of erfc.
static void quantiles_fill(void)
{
    for (int i = 0; i < QUANTILES; i++) {
        double p = (i + 0.5) / QUANTILES, low = -6, high = 6;
        for (int step = 0; step < 50; step++) {
            double middle = (low + high) / 2;
            if (erfc(-middle * M_SQRT1_2) / 2 < p)
                low = middle;
            else
                high = middle;
        }
        double size = (double)param[MEDIAN].value * exp(1.3 * low);
        quantile[i] = size < 1                              ? 1
                      : size > (double)param[LARGEST].value ? (size_t)param[LARGEST].value
                                                            : (size_t)size;
    }
}

static void entry_replace(struct entry *entry, size_t size)
{
    if (entry->block != NULL) block_delete(entry->block, entry->size, (uintptr_t)entry);
    entry->size = size;
    entry->block = size == 0 ? NULL : block_new(size, (uintptr_t)entry);
}

int main(int argc, char **argv)
{
    bench_args(argc, argv, param, PARAMS);
    quantiles_fill();
    size_t table_size = (size_t)param[TABLE].value;
    size_t kept_size = (size_t)(param[OPS].value / param[LONG_LIVED].value + 1), kept_count = 0;
    static struct entry ring[SHORT];
    struct entry *table = calloc(table_size, sizeof *table);
    struct entry *kept = calloc(kept_size, sizeof *kept);
    if (table == NULL || kept == NULL) bench_fail("out of memory");
    uint64_t random = 1;
    for (long n = 0; n < param[OPS].value; n++) {
        uint64_t draw = rng_next(&random);
        size_t size = quantile[draw % QUANTILES];
        if (n % param[LONG_LIVED].value == 0)
            entry_replace(&kept[kept_count++], size);
        else if ((draw >> 20) % 4 != 0)
            entry_replace(&ring[(draw >> 40) % SHORT], size);
        else
            entry_replace(&table[rng_range(&random, 0, table_size - 1)], size);
    }
    for (size_t i = 0; i < SHORT; i++) entry_replace(&ring[i], 0);
    for (size_t i = 0; i < table_size; i++) entry_replace(&table[i], 0);
    for (size_t i = 0; i < kept_count; i++) entry_replace(&kept[i], 0);
    free(table);
    free(kept);
    return bench_done((uint64_t)param[OPS].value);
}
