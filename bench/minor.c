/* minor.c: what a minor collection costs beside the heap's size: the sweep as a ratio to a plain read of the same memory, both ways of remembering, and
   a whole minor collection as a ratio to a major one's marking of the same heap.  Runs on the heap itself, without a preloaded library:

     minor [MIB of old blocks] [MIB of young ones] [per cent of the old pages written]

   Times are the processor's.  Blocks are 128 bytes with four pointers to random ones (8 million in a GiB), and 1000 roots.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/heap.h"
#include "heap/mark.h"
#include "heap/remember.h"
#include "heap/remember_cost.h"
#include "heap/remember_ranges.h"

#include <stdio.h>
#include <stdlib.h>

#define BLOCK 128
#define POINTERS 4

static uint64_t seed = 88172645463325252u;

static uint64_t any(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static uintptr_t *block_of_roots; /* the blocks, in the order of their allocation */
static size_t blocks;

static void allocate(size_t n, bool link)
{
    size_t first = blocks;
    for (; n > 0; n--) {
        uintptr_t *b = heap_calloc(1, BLOCK);
        if (!b) exit(1);
        block_of_roots[blocks++] = (uintptr_t)b;
    }
    for (size_t i = first; link && i < blocks; i++)
        for (unsigned k = 0; k < POINTERS; k++)
            ((uintptr_t *)block_of_roots[i])[k * 4] = block_of_roots[any() % blocks];
}

static uint64_t sum;

static bool read_plainly(uintptr_t from, uintptr_t to, void *unused)
{
    typedef uint64_t vector __attribute__((vector_size(32)));
    vector s[4] = {0};
    for (const vector *v = (const vector *)from; v < (const vector *)to; v += 4)
        for (unsigned i = 0; i < 4; i++) s[i] |= v[i];
    s[0] |= s[1] | s[2] | s[3];
    sum += s[0][0] | s[0][1] | s[0][2] | s[0][3];
    return true;
}

static double ms(uint64_t since)
{
    return (double)(cost_clock() - since) / 1e6;
}

static double best_plain_read(void)
{
    double best = 1e9;
    for (unsigned i = 0; i < 5; i++) {
        uint64_t began = cost_clock();
        ranges_each(read_plainly, NULL);
        double t = ms(began);
        if (t < best) best = t;
    }
    return best;
}

static double huge_mib(void)
{
    char line[200];
    unsigned long kib = 0;
    FILE *f = fopen("/proc/self/smaps_rollup", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "AnonHugePages: %lu", &kib) == 1) break;
    if (f) fclose(f);
    return (double)kib / 1024;
}

struct minor {
    double whole, white, words, mark, age;
    uint64_t promoted;
};

static struct minor minor(uintptr_t guard)
{
    struct minor t;
    struct present present;
    struct white white;
    struct white_young aged;
    uint64_t all = cost_clock();
    present_start(&present, PRESENT_SCAN);
    uint64_t step = cost_clock();
    if (!white_make(&white, WHITE_YOUNG)) exit(1);
    struct marker *m = mark_start(&white, guard, &present);
    t.white = ms(step), step = cost_clock();
    mark_words(m, block_of_roots, block_of_roots + 1000);
    mark_drain(m);
    t.mark = ms(step), step = cost_clock();
    if (!remember_words(m, &white, guard, &present)) exit(1);
    t.words = ms(step), step = cost_clock();
    mark_drain(m);
    t.mark += ms(step), step = cost_clock();
    struct mark_stats s;
    mark_stats(m, &s);
    t.promoted = s.blocks;
    white_make_old(&aged, &white);
    remember_arm(&present);
    t.age = ms(step);
    mark_end(m);
    white_free(&white);
    present_end(&present);
    remember_settle();
    t.whole = ms(all);
    return t;
}

static double major(uintptr_t guard)
{
    struct present present;
    struct white white;
    uint64_t began = cost_clock();
    present_start(&present, PRESENT_SCAN);
    if (!white_make(&white, WHITE_LIVE)) exit(1);
    struct marker *m = mark_start(&white, guard, &present);
    mark_words(m, block_of_roots, block_of_roots + 1000);
    mark_drain(m);
    struct mark_stats s;
    mark_stats(m, &s);
    mark_end(m);
    white_free(&white);
    present_end(&present);
    double t = ms(began);
    printf("major: %.1f ms, %lu blocks reached\n", t, (unsigned long)s.blocks);
    return t;
}

int main(int argc, char **argv)
{
    size_t old = (argc > 1 ? strtoul(argv[1], NULL, 10) : 256) * MIB,
           young = (argc > 2 ? strtoul(argv[2], NULL, 10) : 32) * MIB;
    double written = argc > 3 ? strtod(argv[3], NULL) : 1;
    uintptr_t guard = 0x9f3c55aa12348877;
    block_of_roots = malloc((old + 64 * young) / BLOCK * sizeof *block_of_roots);
    if (!block_of_roots) return 1;
    allocate(old / BLOCK, true);
    double plain = best_plain_read(), whole = major(guard), again = major(guard);
    if (again < whole) whole = again;
    struct minor best[REMEMBER_TRACK + 1] = {{0}};
    for (unsigned cycle = 0; cycle < 24; cycle++) {
        if (cycle == 0) remember_start(REMEMBER_UNKNOWN);
        if (cycle == 8) remember_start(REMEMBER_SWEEP);
        if (cycle == 16) remember_start(REMEMBER_TRACK);
        size_t before = blocks;
        allocate(young / BLOCK, true);
        uint64_t began = cost_clock();
        size_t n = (size_t)((double)old / OS_PAGE * written / 100);
        for (size_t i = 0; i < n; i++) /* each on another page, most likely */
            ((uintptr_t *)block_of_roots[any() % (old / BLOCK)])[8] =
                block_of_roots[before + any() % (young / BLOCK)];
        double stores = ms(began);
        enum remember_way way = remember_way();
        double read = best_plain_read();
        struct minor t = minor(guard);
        struct remember_stats s;
        remember_stats(&s);
        printf("%s: words %.1f ms, a plain read %.1f ms (%.1f of %.1f MiB read, %.1f written); "
               "minor %.1f ms (white %.1f, mark %.1f, age %.1f); "
               "%zu stores %.1f ms; %lu of %zu blocks reached; %.0f MiB in huge pages\n",
               way == REMEMBER_TRACK ? "track" : "sweep", t.words, read,
               (double)s.bytes_scanned / MIB, (double)s.bytes / MIB, (double)s.bytes_written / MIB,
               t.whole, t.white, t.mark, t.age, n, stores, (unsigned long)t.promoted, young / BLOCK,
               huge_mib());
        if (cycle > 0 && (best[way].whole == 0 || t.whole < best[way].whole))
            best[way].whole = t.whole;
        if (cycle > 0 && (best[way].words == 0 || t.words < best[way].words))
            best[way].words = t.words;
        if (read < plain) plain = read;
        for (size_t i = before; i < blocks; i++) heap_free((void *)block_of_roots[i]);
        blocks = before;
    }
    struct remember_stats s;
    remember_stats(&s);
    for (unsigned way = REMEMBER_SWEEP; way <= REMEMBER_TRACK; way++)
        if (best[way].whole > 0)
            printf("%s, the best of all cycles: words %.2f of a plain read, minor collection "
                   "1/%.0f of the marking of a major one\n",
                   way == REMEMBER_TRACK ? "track" : "sweep", best[way].words / plain,
                   whole / best[way].whole);
    printf(
        "sweep %.0f ns a KiB; a write to an armed page %.0f ns; arming %.0f ns a page (sum %lu)\n",
        s.sweep_ns_per_kib, s.track_ns_per_page, s.arm_ns_per_page, (unsigned long)sum & 1);
    return 0;
}
