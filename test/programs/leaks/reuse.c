/* reuse.c: threads that free and allocate blocks of one size as fast as they can while snapshots are marked: a verdict must
   not strike the block that took the slot since (T23, H70).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "leaks.h"

#define THREADS 4
#define HELD 400
#define MAJORS 25

static volatile bool end;

static void *churn(void *number)
{
    struct block *volatile mine[HELD] = {NULL}; /* in the thread's stack */
    unsigned r = (unsigned)(uintptr_t)number + 1;
    while (!end) {
        for (int k = 0; k < 64; k++) {
            r = r * 1664525 + 1013904223;
            struct block *volatile *at = &mine[(r >> 8) % HELD];
            if (*at) {
                if (!block_is(*at, conceal(*at))) FAIL("a block's contents have changed");
                free(*at);
            }
            struct block *b = malloc(56);
            CHECK(b);
            b->magic = BLOCK_MAGIC;
            b->self = conceal(b);
            *at = b;
        }
        enum gleaner_state s = gleaner_state(mine[(r >> 20) % HELD]);
        if (s == GLEANER_LOST || s == GLEANER_POSSIBLY_LOST) FAIL("a live block is %s", state_name(s));
    }
    for (int i = 0; i < HELD; i++) {
        free(mine[i]);
        mine[i] = NULL; /* libc keeps the stack, and other blocks will lie where these were */
    }
    return NULL;
}

int main(void)
{
    pthread_t t[THREADS];
    collections_are_there();
    controls_lose(); /* now: later they would lie where the threads' blocks were, which dead stacks still point to */
    scrub();
    for (uintptr_t i = 0; i < THREADS; i++) CHECK(pthread_create(&t[i], NULL, churn, (void *)i) == 0);
    for (int i = 0; i < MAJORS; i++) majors(1);
    end = true;
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    majors(1);
    struct gleaner_leaks leaks = check_leaks();
    if (leaks.false_lost.blocks) FAIL("%zu live blocks were called lost", leaks.false_lost.blocks);
    if (leaks.lost.blocks > CONTROLS) FAIL("%zu blocks are lost, of %d", leaks.lost.blocks, CONTROLS);
    controls_are_lost();
    return 0;
}
