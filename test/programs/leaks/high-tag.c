/* high-tag.c: with a tag in the high 16 bits, as NaN-boxing engines and lock-free queues have it (H44).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "place.h"

static volatile uint64_t here;

static void put(void *block)
{
    here = (uint64_t)(uintptr_t)block | (uint64_t)0xfff9 << 48;
}

static void *take(void)
{
    uint64_t word = here;
    here = 0;
    return (void *)(uintptr_t)(word & 0x0000ffffffffffff);
}
