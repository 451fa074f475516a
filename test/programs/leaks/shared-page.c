/* shared-page.c: in a page that is mapped shared (H38).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "place.h"

static void *volatile *page;

static void put(void *block)
{
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    page[100] = block;
}

static void *take(void)
{
    void *block = page[100];
    page[100] = NULL;
    return block;
}
