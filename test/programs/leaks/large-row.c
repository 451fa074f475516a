/* large-row.c: large blocks at multiples of a GiB are lost like others when nothing points to them.  The allocator's tables in the memory of a
   thread, of one that has ended, too, have such addresses; and at a multiple of 4 GiB no block may lie at all: two small numbers side by side
   would be its address.

      large-row WHO KIB    who loses them: `main`; a `thread`, which asks; a thread that has `ended`.  The size of a block
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "leaks.h"

#define GIB ((uintptr_t)1 << 30)
#define SPAN (7 * GIB / 2)      /* of addresses that are filled: a multiple of 4 GiB is among them */
#define CLEAR ((uintptr_t)64 << 20) /* around one of those */
#define KEPT_MOST 16

static size_t bytes;
static concealed kept[KEPT_MOST];
static int kept_count;

static int by_address(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)reveal(*(const concealed *)a), y = (uintptr_t)reveal(*(const concealed *)b);
    return x < y ? -1 : x > y;
}

/* Does a multiple lie in it, or nearer to it than to its neighbours? */
static bool is_near_multiple(uintptr_t before, uintptr_t block, uintptr_t after)
{
    uintptr_t above = (block + GIB - 1) / GIB * GIB, below = block / GIB * GIB;
    return above < block + bytes || (above >= block + bytes && above <= after) || (below >= before && below < block);
}

NOINLINE static void lose(void)
{
    size_t count = SPAN / bytes, map = (count + 2) * sizeof(concealed);
    concealed *all = mmap(NULL, map, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(all != MAP_FAILED);
    for (size_t i = 0; i < count; i++) {
        void *b = malloc(bytes); /* not touched */
        CHECK(b);
        all[i] = conceal(b);
    }
    qsort(all, count, sizeof *all, by_address);
    int multiples = 0;
    for (size_t i = 0; i < count; i++) {
        uintptr_t b = (uintptr_t)reveal(all[i]);
        uintptr_t before = i > 0 ? (uintptr_t)reveal(all[i - 1]) : b, after = i + 1 < count ? (uintptr_t)reveal(all[i + 1]) : b;
        uintptr_t of_4 = (b + CLEAR) / (4 * GIB) * (4 * GIB);
        if (of_4 + CLEAR > b || b + bytes + CLEAR > of_4 + 4 * GIB) FAIL("a block at %#lx", (unsigned long)b);
        if (b / GIB != before / GIB) multiples++;
        if (i > 0 && i + 1 < count && kept_count < KEPT_MOST && is_near_multiple(before, b, after)) kept[kept_count++] = all[i];
        else free((void *)b);
    }
    if (multiples < 3 || kept_count < 3) FAIL("%d multiples, %d blocks near them", multiples, kept_count);
    munmap(all, map);
}

static void all_are_lost(void)
{
    int possibly = 0; /* half of such an address is a round number, which some flag may be equal to */
    scrub();
    majors(2);
    for (int i = 0; i < kept_count; i++) {
        enum gleaner_state state = gleaner_state(reveal(kept[i]));
        if (state == GLEANER_POSSIBLY_LOST && ++possibly == 1) continue;
        if (state != GLEANER_LOST) FAIL("the block at %#lx is in state %d", (unsigned long)(uintptr_t)reveal(kept[i]), (int)state);
    }
}

static void *lose_and_end(void *unused)
{
    lose();
    scrub();
    return unused;
}

static void *lose_and_ask(void *unused)
{
    lose();
    all_are_lost();
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t t;
    CHECK(argc > 2);
    bytes = strtoul(argv[2], NULL, 10) << 10;
    collections_are_there();
    if (strcmp(argv[1], "main") == 0) {
        lose_and_ask(NULL);
        return 0;
    }
    bool ended = strcmp(argv[1], "ended") == 0;
    CHECK(pthread_create(&t, NULL, ended ? lose_and_end : lose_and_ask, NULL) == 0);
    CHECK(pthread_join(t, NULL) == 0);
    if (ended) all_are_lost();
    return 0;
}
