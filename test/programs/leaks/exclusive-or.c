/* exclusive-or.c: only the exclusive-or with a key holds it, as a list that keeps both neighbours in a word does (H44).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#define CANNOT_BE_KNOWN
#include "place.h"

static volatile uint64_t here;

static void put(void *block)
{
    here = conceal(block);
}

static void *take(void)
{
    uint64_t word = here;
    here = 0;
    return reveal(word);
}
