/* late.c: blocks to which the program has pointers that no collector sees, and which it uses after all.

      late HOW WHEN      free, free-twice, realloc, shrink, write; quarantined, reclaimed
      late double        a double free of the program's own, of a block that was never lost
      late OTHER         large-free and large-realloc: of 1 MiB

   Run with collect:reclaim,reclaim_delay:0: what one collection misses is quarantined, and the next reclaims it.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "../leaks/leaks.h"

#define BLOCKS 40

static concealed blocks[BLOCKS];
static size_t size = 200;

NOINLINE static void hide(void)
{
    for (int i = 0; i < BLOCKS; i++) blocks[i] = conceal(block_make(size));
}

/* Freed by the first half of the blocks, so that what follows is of a place that was proven. */
NOINLINE static void use(const char *how, bool gone)
{
    struct block *b = reveal(blocks[0]);
    bool kept = !gone || size < 65536; /* the pages of large ones are the system's at once */
    if (kept) CHECK(block_is(b, blocks[0]));
    if (!strcmp(how, "free") || !strcmp(how, "large-free")) {
        free(b);
    } else if (!strcmp(how, "free-twice")) {
        free(b);
        free(b); /* and this is one that is the program's own */
    } else if (!strcmp(how, "realloc") || !strcmp(how, "large-realloc")) {
        struct block *n = realloc(b, size * 3);
        CHECK(n && (n != b || size > 65536)); /* the addresses of a large one are free again */
        if (kept) CHECK(n->magic == BLOCK_MAGIC && n->self == blocks[0] && n->rest[100] == 0x33);
        n->rest[size * 2] = 1;
        free(n);
    } else if (!strcmp(how, "shrink")) {
        struct block *n = realloc(b, size - 20);
        CHECK(n && n->magic == BLOCK_MAGIC && n->self == blocks[0] && n->rest[100] == 0x33);
        free(n);
    } else if (!strcmp(how, "write")) {
        b->rest[7] = 1;
    } else {
        FAIL("no such way");
    }
}

/* How many of the hidden blocks are still the program's.  To look at them would keep them, since some fill whole pages. */
NOINLINE static int count_there(bool look)
{
    int n = 0;
    for (int i = 1; i < BLOCKS; i++)
        n += malloc_usable_size(reveal(blocks[i])) != 0 && (!look || size > 65536 || block_is(reveal(blocks[i]), blocks[i]));
    return n;
}

NOINLINE static void check_hidden(int least, bool look)
{
    int n = count_there(look);
    if (n < least) FAIL("only %d of %d blocks are left", n, BLOCKS - 1);
}

/* The next collections' stacks must not hold what these did. */
static void major(void)
{
    scrub();
    collect(GLEANER_MAJOR);
    scrub();
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    bool gone = argc > 2 && !strcmp(argv[2], "reclaimed");
    collections_are_there();
    if (!strcmp(how, "double")) {
        void *volatile p = malloc(64), *volatile q = p;
        free(p);
        free(q);
        return 0;
    }
    if (!strncmp(how, "large", 5)) size = 1 << 19; /* all of them too few for a collection by growth */
    hide_from_one(hide);
    scrub();
    check_hidden(BLOCKS - 1, !gone); /* quarantined: all there */
    if (gone) {
        major();
        int n = count_there(false);
        if (n > 2) FAIL("%d of %d blocks were not reclaimed", n, BLOCKS - 1);
        use(how, true);
    } else {
        use(how, false);
        major();
        major();
        major();
        check_hidden(BLOCKS - 3, true); /* of a place that was proven nothing is reclaimed */
    }
    major();
    /* The heap goes on. */
    for (int i = 0; i < 1000; i++) {
        void *volatile p = malloc((size_t)i * 7);
        CHECK(p);
        memset(p, i, (size_t)i * 7);
        free(p);
    }
    puts("done");
    return 0;
}
