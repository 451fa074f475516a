/* in-window.c: in memory that the program maps at an address of its choice, which lies among those that the heap keeps for itself (V8 asks for
   addresses at random).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "place.h"

static void *volatile *page;

static void put(void *block)
{
    uintptr_t gib = (uintptr_t)1 << 30, far = ((uintptr_t)block & ~(gib - 1)) + 64 * gib;
    /* Among the tables, which come 960 GiB behind the first block. */
    if (strcmp(variant, "tables") == 0) far += 950 * gib;
    page = mmap((void *)far, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK((uintptr_t)page == far);
    page[9] = block;
}

static void *take(void)
{
    void *block = page[9];
    page[9] = NULL;
    return block;
}
