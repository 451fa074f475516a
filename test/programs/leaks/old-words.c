/* old-words.c: words that are older than the block whose address they hold: pointers in old memory that were left when a block was
   freed, and another one takes its place.  No collection calls that one lost, since such a word is as good as a pointer; a minor one that knows which
   pages were written does not look at them, and `verify` does not take that for a fault.  The old memory is so large that tracking is worth while.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "leaks.h"

#define OLD_BLOCKS 32
#define OLD_WORDS 524288 /* 4 MiB */
#define PLACES 32
#define MINORS 8 /* until the pages are tracked: that it is worth while is noticed, a descriptor opened, pages armed */

static uint64_t *volatile old[OLD_BLOCKS];
static concealed place[PLACES];

NOINLINE static void fill(void)
{
    for (int i = 0; i < OLD_BLOCKS; i++) {
        CHECK((old[i] = malloc(OLD_WORDS * 8)));
        for (int k = 0; k < OLD_WORDS; k++) old[i][k] = (uint64_t)(k + 1);
    }
    for (int i = 0; i < PLACES; i++) {
        struct block *b = block_make(208);
        old[i % OLD_BLOCKS][i * 10000] = (uint64_t)(uintptr_t)b;
        place[i] = conceal(b);
    }
}

/* As long as no young block is left that roots do not reach old memory is not looked at. */
NOINLINE static void lose_one(void) { (void)conceal(block_make(64)); }

/* The words stay. */
NOINLINE static void take_places(void)
{
    int taken = 0;
    for (int i = 0; i < PLACES; i++) {
        free(reveal(place[i]));
        struct block *b = block_make(208);
        taken += place[i] == conceal(b);
        place[i] = conceal(b);
    }
    if (taken != PLACES) FAIL("%d of %d blocks lie where the one before them lay", taken, PLACES);
}

int main(void)
{
    collections_are_there();
    fill();
    controls_lose();
    scrub();
    for (int i = 0; i < MINORS; i++) {
        lose_one();
        scrub();
        collect(GLEANER_MINOR);
    }
    take_places();
    scrub();
    collect(GLEANER_MINOR);
    majors(2);
    for (int i = 0; i < PLACES; i++) {
        enum gleaner_state s = gleaner_state(reveal(place[i]));
        if (s != GLEANER_OLD) FAIL("a block whose address is in old memory is %s", state_name(s));
    }
    controls_are_lost();
    return 0;
}
