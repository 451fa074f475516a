/* flushed.c: blocks that lay free in a thread's cache when the cache was emptied by half, were given out again, and got lost: of what that has moved
   no address may stay in a register, where the waiting thread would hold the blocks with it.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "leaks.h"

#define BLOCKS 4096
#define BYTES 208

static concealed lost[BLOCKS];

/* Nothing here, and in what follows, may use a vector register: the registers are what is looked at. */
NOINLINE static void take(void)
{
    for (int i = 0; i < BLOCKS; i++) {
        volatile uint64_t *b = malloc(BYTES);
        CHECK(b);
        b[0] = BLOCK_MAGIC;
        for (int k = 1; k < BYTES / 8; k++) b[k] = 0;
        lost[i] = conceal(b);
    }
}

NOINLINE static void give_back(void)
{
    for (int i = 0; i < BLOCKS; i++) free(reveal(lost[i]));
}

int main(void)
{
    collections_are_there();
    majors(1); /* what a collection needs is there */
    for (int round = 0; round < 3; round++) {
        take();
        give_back();
    }
    take();
    scrub_stack(65536);
    majors(2); /* the second one in another thread, while this one waits */
    int held = 0;
    for (int i = 0; i < BLOCKS; i++) held += gleaner_state(reveal(lost[i])) != GLEANER_LOST;
    if (held > 1) FAIL("%d of %d lost blocks are held", held, BLOCKS);
    return 0;
}
