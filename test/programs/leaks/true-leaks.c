/* true-leaks.c: leaks of known number and size: lists, cycles, big blocks (T24).  Three lists are not lost, because a slot
   of a living frame still points to them.

   Under the library it compares what a check finds with what it lost.  Built with LeakSanitizer it has that print
   its list.  Either way it says first what is lost; the suite compares the two lists with each other.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "leaks.h"

#define LISTS 1000
#define NODES 50
#define CYCLES 100
#define CYCLE 10
#define BIG 10
#define BIG_BYTES ((size_t)1 << 20)
#define STALE 3

extern int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

struct node {
    struct node *next;
    uint64_t filler[];
};

/* What was allocated: each block's concealed address, and what the program asked for. */
struct kind {
    const char *name;
    concealed *block;
    size_t *asked;
    size_t count, heads;
};
static concealed list_blocks[LISTS * NODES], cycle_blocks[CYCLES * CYCLE], big_blocks[BIG], stale_blocks[STALE * NODES];
static size_t list_asked[COUNT(list_blocks)], cycle_asked[COUNT(cycle_blocks)], big_asked[BIG],
    stale_asked[COUNT(stale_blocks)];
static struct kind lists = {"lists", list_blocks, list_asked, 0, LISTS},
                   cycles = {"cycles", cycle_blocks, cycle_asked, 0, CYCLES},
                   big = {"big blocks", big_blocks, big_asked, 0, BIG},
                   stale = {"held lists", stale_blocks, stale_asked, 0, 0};

static struct node *note(struct kind *k, size_t asked, struct node *next)
{
    struct node *n = malloc(asked);
    CHECK(n);
    memset(n, 0x33, malloc_usable_size(n));
    n->next = next;
    k->block[k->count] = conceal(n);
    k->asked[k->count++] = asked;
    return n;
}

static struct node *list(struct kind *k, int nodes, int which)
{
    struct node *first = NULL;
    for (int i = 0; i < nodes; i++) first = note(k, 16 + (size_t)(which * 7 + i * 13) % 33 * 8, first);
    return first;
}

NOINLINE static void lose_all(void)
{
    for (int i = 0; i < LISTS; i++) list(&lists, NODES, i);
    for (int i = 0; i < CYCLES; i++) {
        struct node *last = note(&cycles, 40, NULL), *n = last;
        for (int k = 1; k < CYCLE; k++) n = note(&cycles, 24 + (size_t)k * 8, n);
        last->next = n;
    }
    for (int i = 0; i < BIG; i++) note(&big, BIG_BYTES, NULL);
}

NOINLINE static void make_stale(struct node *volatile *slot)
{
    for (int i = 0; i < STALE; i++) slot[i] = list(&stale, NODES, i);
}

/* The blocks of a kind that are lost, and the bytes that they take. */
static size_t count_lost(const struct kind *k, size_t *given)
{
    size_t lost = 0;
    for (size_t i = 0; i < k->count; i++) {
        if (gleaner_state(reveal(k->block[i])) != GLEANER_LOST) continue;
        lost++;
        *given += malloc_usable_size(reveal(k->block[i]));
    }
    return lost;
}

/* Lists lose their first node last: it is in the last place of each. */
static size_t heads_lost(void)
{
    size_t heads = 0;
    for (int i = 0; i < LISTS; i++) {
        heads += gleaner_state(reveal(list_blocks[i * NODES + NODES - 1])) == GLEANER_LOST;
    }
    return heads;
}

static void compare(void)
{
    const struct kind *all[] = {&lists, &cycles, &big};
    size_t lost = 0, given = 0, of_cycles = 0;
    struct gleaner_leaks found = check_leaks();
    for (size_t i = 0; i < COUNT(all); i++) {
        size_t n = count_lost(all[i], &given);
        if (n < all[i]->count - all[i]->count / 100) {
            FAIL("of %zu lost blocks (%s) %zu were found", all[i]->count, all[i]->name, n);
        }
        if (all[i] == &cycles) of_cycles = n / CYCLE;
        lost += n;
    }
    if (count_lost(&stale, &given)) FAIL("blocks of a list that a frame holds are lost");
    if (found.lost.blocks != lost) FAIL("%zu blocks are called lost, %zu of them ours", found.lost.blocks, lost);
    /* Given is the slot: one byte of it, the one past the end, is no part of what may be used. */
    if (found.lost.bytes != given && found.lost.bytes != given + lost) {
        FAIL("%zu bytes are called lost, not %zu", found.lost.bytes, given);
    }
    size_t heads = heads_lost() + of_cycles + BIG;
    if (found.direct.blocks < heads - heads / 100 || found.direct.blocks > heads + heads / 100) {
        FAIL("%zu blocks are directly lost, not %zu", found.direct.blocks, heads);
    }
    if (found.direct.blocks + found.indirect.blocks != found.lost.blocks ||
        found.direct.bytes + found.indirect.bytes != found.lost.bytes) {
        FAIL("direct and indirect do not add up");
    }
    printf("found: direct %zu indirect %zu\n", found.direct.blocks, found.indirect.blocks);
}

int main(void)
{
    struct node *volatile slot[STALE];
    make_stale(slot);
    lose_all();
    size_t asked = 0, heads = LISTS + BIG;
    for (size_t i = 0; i < lists.count; i++) asked += lists.asked[i];
    for (size_t i = 0; i < cycles.count; i++) asked += cycles.asked[i];
    asked += BIG * BIG_BYTES;
    printf("lost: heads %zu cycles %d others %zu bytes %zu\n", heads, CYCLES,
           lists.count - LISTS + cycles.count - CYCLES, asked);
    fflush(stdout);
    scrub();
    if (__lsan_do_recoverable_leak_check && !gleaner_collect) {
        __lsan_do_recoverable_leak_check();
    } else {
        collections_are_there();
        majors(3);
        compare();
    }
    for (int i = 0; i < STALE; i++) CHECK(slot[i] == reveal(stale.block[(i + 1) * NODES - 1]));
    fflush(stdout);
    _exit(0);
}
