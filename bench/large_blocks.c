// Blocks of 5 to 25 MiB, replaced one after another and touched page by page: an allocator that
// gives them back to the system at once pays for every page again.
// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench.h"

enum { OPS, LIVE, LOW, HIGH, PARAMS };
static struct bench_param param[PARAMS] = {
    [OPS] = {"ops", 300, 40, "replacements", 0},
    [LIVE] = {"live", 6, 4, "blocks alive", 0},
    [LOW] = {"min", 5, 5, "smallest block, MiB", 0},
    [HIGH] = {"max", 25, 25, "largest block, MiB", 0},
};

struct entry {
    unsigned char *block;
    size_t size;
};

static void entry_delete(struct entry *entry)
{
    for (size_t at = 0; at < entry->size; at += 4096)
        if (entry->block[at] != (unsigned char)(entry->size + (at >> 12)))
            bench_fail("a large block changed while it was live");
    free(entry->block);
}

int main(int argc, char **argv)
{
    bench_args(argc, argv, param, PARAMS);
    size_t live = (size_t)param[LIVE].value;
    struct entry *table = calloc(live, sizeof *table);
    if (table == NULL) bench_fail("out of memory");
    uint64_t random = 1;
    for (long n = 0; n < param[OPS].value; n++) {
        struct entry *entry = &table[rng_range(&random, 0, live - 1)];
        entry_delete(entry);
        entry->size =
            rng_range(&random, (size_t)param[LOW].value << 20, (size_t)param[HIGH].value << 20);
        entry->block = escape(malloc(entry->size));
        if (entry->block == NULL) bench_fail("out of memory");
        for (size_t at = 0; at < entry->size; at += 4096)
            entry->block[at] = (unsigned char)(entry->size + (at >> 12));
    }
    for (size_t i = 0; i < live; i++) entry_delete(&table[i]);
    free(table);
    return bench_done((uint64_t)param[OPS].value);
}
