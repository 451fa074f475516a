/* groups.c: what hangs together goes together, or stays.  Pairs of which one block is also pointed to by an odd address stay, both; others go.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "../leaks/leaks.h"

#define PAIRS 30

struct __attribute__((packed)) odd {
    char pad;
    void *volatile pointer[PAIRS];
};
static struct odd odd;
static concealed parent[2 * PAIRS], child[2 * PAIRS];

struct pair {
    uint64_t magic;
    struct pair *other;
    uint64_t fill[8];
};

/* From the first pair to the last, from the last to the first, or in a ring. */
NOINLINE static void make(const char *how, int i)
{
    struct pair *a = malloc(sizeof *a), *b = malloc(sizeof *b);
    CHECK(a && b);
    memset(a, 0x33, malloc_usable_size(a));
    memset(b, 0x33, malloc_usable_size(b));
    a->magic = b->magic = BLOCK_MAGIC;
    a->other = b;
    b->other = NULL;
    if (!strcmp(how, "ring")) b->other = a;
    parent[i] = conceal(a);
    child[i] = conceal(b);
    if (i < PAIRS) odd.pointer[i] = !strcmp(how, "child") ? b : a;
}

NOINLINE static int count(int first)
{
    int n = 0;
    for (int i = first; i < first + PAIRS; i++) {
        struct pair *a = reveal(parent[i]), *b = reveal(child[i]);
        bool there = malloc_usable_size(a) != 0, there_too = malloc_usable_size(b) != 0;
        if (there != there_too) FAIL("of pair %d one block is left", i);
        if (there && (a->magic != BLOCK_MAGIC || a->other != b || b->magic != BLOCK_MAGIC)) FAIL("pair %d has changed", i);
        n += there;
    }
    return n;
}

int main(int argc, char **argv)
{
    collections_are_there();
    for (int i = 0; i < 2 * PAIRS; i++) make(argc > 1 ? argv[1] : "parent", i);
    for (int i = 0; i < 5; i++) {
        scrub();
        collect(GLEANER_MAJOR);
    }
    if (count(0) != PAIRS) FAIL("of %d pairs that an odd pointer explains %d are left", PAIRS, count(0));
    if (count(PAIRS) > 2) FAIL("of %d lost pairs %d are left", PAIRS, count(PAIRS));
    puts("done");
    return 0;
}
