/* hidden-then-freed.c: pointers that a program keeps in a file only: lost by all that a collector can know, and when they are read back and
   freed, the proof that they were not: counted, each one, and harmless (T29).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "leaks.h"

#define BLOCKS 200

static concealed block[BLOCKS];
static int file;

NOINLINE static void hide_all(void)
{
    for (int i = 0; i < BLOCKS; i++) {
        void *b = block_make(40 + (size_t)i * 8);
        block[i] = conceal(b);
        CHECK(write(file, &b, sizeof b) == sizeof b);
    }
}

NOINLINE static size_t count_lost(void)
{
    size_t lost = 0;
    for (int i = 0; i < BLOCKS; i++) lost += gleaner_state(reveal(block[i])) == GLEANER_LOST;
    return lost;
}

NOINLINE static void free_all(void)
{
    for (int i = 0; i < BLOCKS; i++) {
        struct block *b;
        CHECK(pread(file, &b, sizeof b, i * (off_t)sizeof b) == sizeof b);
        CHECK(block_is(b, block[i]));
        free(b);
    }
}

int main(void)
{
    collections_are_there();
    file = memfd_create("hidden", MFD_CLOEXEC);
    CHECK(file >= 0);
    hide_all();
    controls_lose();
    scrub();
    majors(10);
    size_t lost = count_lost();
    if (lost < BLOCKS - 2) FAIL("only %zu of %d blocks that nothing in memory points to are lost", lost, BLOCKS);
    free_all();
    scrub();
    struct gleaner_leaks leaks = check_leaks();
    if (leaks.false_lost.blocks != lost) {
        FAIL("%zu lost blocks were freed, and %zu counted as proofs", lost, leaks.false_lost.blocks);
    }
    if (leaks.lost.blocks > CONTROLS) FAIL("%zu blocks are lost after all hidden ones were freed", leaks.lost.blocks);
    controls_are_lost();
    return 0;
}
