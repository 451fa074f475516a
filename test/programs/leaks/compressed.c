/* compressed.c: in 32 bits (H44), `low`: the low half of the address; `shifted`: the low half of an eighth of it, as
   virtual machines with compressed references do.  Possibly lost.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#define STATE GLEANER_POSSIBLY_LOST
#include "place.h"

/* The words beside it are no part of an address. */
static volatile uint32_t here[6] = {0, 0, 0, 0, 0, 0};
static concealed high;

static unsigned shift(void)
{
    return strcmp(variant, "shifted") == 0 ? 3 : 0;
}

static void put(void *block)
{
    uint64_t word = (uint64_t)(uintptr_t)block >> shift();
    here[2] = (uint32_t)word;
    high = conceal((void *)(uintptr_t)(word >> 32 << 32));
}

static void *take(void)
{
    uint64_t word = (uint64_t)(uintptr_t)reveal(high) | here[2];
    here[2] = 0;
    return (void *)(uintptr_t)(word << shift());
}
