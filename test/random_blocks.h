/* random_blocks.h: sizes of blocks, and pointers to them, at random but the same in every run, for tests on random graphs.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_TEST_RANDOM_BLOCKS_H
#define GLEANER_TEST_RANDOM_BLOCKS_H

#include "random_number.h"

#include <stddef.h>

static void seed(uint64_t n)
{
    random_state = n * 0x9e3779b97f4a7c15u + 1;
}

static size_t random_size(void)
{
    switch (random_number() % 12) {
    case 0:
        return 1100 + random_number() % 30000;
    case 1:
        return 40000 + random_number() % 100000;
    case 2:
        return 300000 + random_number() % 1000000; /* asked for its pages */
    default:
        return 16 * (1 + random_number() % 12);
    }
}

/* To the start of a block or into it, with a tag, mangled, or neither. */
static uintptr_t random_pointer(uintptr_t block, size_t given)
{
    uintptr_t p = block + (random_number() % 3 == 0 ? random_number() % given : 0);
    switch (random_number() % 5) {
    case 0:
        return p | random_number() << 48;
    case 1:
        return mangled(p);
    default:
        return p;
    }
}

#endif
