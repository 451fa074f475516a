/* unfrozen.c: in a page that a fork does not copy, `dont`: MADV_DONTFORK, or empties, `wipe`: MADV_WIPEONFORK (T22, H69).  What a
   snapshot sees there is not what the program has.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "place.h"

static void *volatile *page;

static void put(void *block)
{
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    CHECK(madvise((void *)page, 4096, strcmp(variant, "dont") == 0 ? MADV_DONTFORK : MADV_WIPEONFORK) == 0);
    page[9] = block;
}

static void *take(void)
{
    void *block = page[9];
    page[9] = NULL;
    return block;
}
