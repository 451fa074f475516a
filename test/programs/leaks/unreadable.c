/* unreadable.c: in a page that is made PROT_NONE afterwards (H36).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "place.h"

static void *volatile *page;

static void put(void *block)
{
    page = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    page[512 + 7] = block;
    CHECK(mprotect((void *)(page + 512), 4096, PROT_NONE) == 0);
}

static void *take(void)
{
    CHECK(mprotect((void *)(page + 512), 4096, PROT_READ | PROT_WRITE) == 0);
    void *block = page[512 + 7];
    page[512 + 7] = NULL;
    return block;
}
