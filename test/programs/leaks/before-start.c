/* before-start.c: only 16 bytes before the block (H47), where no other block lies: the neighbours are
   free.  Not what the marker follows: possibly lost.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#define STATE GLEANER_POSSIBLY_LOST
#define BLOCK among_free_ones()
#include "leaks.h"

#define BYTES 2500
#define NEIGHBOURS 12

static struct block *among_free_ones(void)
{
    static concealed row[NEIGHBOURS];
    for (int i = 0; i < NEIGHBOURS; i++) row[i] = conceal(block_make(BYTES));
    struct block *chosen = reveal(row[NEIGHBOURS / 2]);
    for (int i = 0; i < NEIGHBOURS; i++) {
        if (reveal(row[i]) != chosen) free(reveal(row[i]));
    }
    return chosen;
}

#include "place.h"

static char *volatile here;

static void put(void *block)
{
    here = (char *)block - 16;
}

static void *take(void)
{
    char *before = here;
    here = NULL;
    return before + 16;
}
