/* large_keep.h: how much memory that no block uses stays with us, over jemalloc (large_jemalloc.h) and the big blocks
   (large_big.h): a page that was given back and is touched again costs up to a hundred times a page that was kept, and what a
   process with tens of megabytes can afford to keep is less than what one with gigabytes can.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_LARGE_KEEP_H
#define GLEANER_LARGE_KEEP_H

#include "heap/base.h"

/* Bytes in blocks and, with their pages, in none.  Any thread, no gate. */
void large_counts(uint64_t *used, uint64_t *unused);

/* What may lie unused for long beside `used` bytes. */
static inline uint64_t large_worth_keeping(uint64_t used)
{
    uint64_t most = used / 4 + 64 * MIB, small = used + 4 * MIB;
    return small < most ? small : most;
}

/* What may lie unused for a moment: while fresh pages are taken beside it, and when blocks have just been freed. */
static inline uint64_t large_most_growing(uint64_t used) { return large_worth_keeping(used) * 3 / 2; }
static inline uint64_t large_most_freed(uint64_t used) { return (used / 4 + 64 * MIB) * 3 / 2; }

#endif
