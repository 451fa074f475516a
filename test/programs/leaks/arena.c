/* arena.c: in an arena that the program has mapped itself (H33), most of which was never touched.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "place.h"

#define ARENA ((size_t)1 << 34)
static void *volatile *arena;

static void put(void *block)
{
    arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(arena != MAP_FAILED);
    arena[ARENA / 16 + 511] = block;
}

static void *take(void)
{
    void *block = arena[ARENA / 16 + 511];
    arena[ARENA / 16 + 511] = NULL;
    return block;
}
