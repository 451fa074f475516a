/* rank.h: the number of a white block: how many white blocks lie before it, by area and ascending address.

   1. Data.  The count of the set bits before every word of the bitmaps: four bytes for 64 granules.  With one
      population count of the rest this is the rank of a bit vector (G. Jacobson, FOCS 1989), so that a
      dense array of the white blocks can be indexed by address with no table of addresses and no hashing.
   2. The numbers hold as long as no bit changes.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_RANK_H
#define GLEANER_RANK_H

#include "heap/white.h"

#define RANK_MOST                                                                                  \
    (UINT32_MAX / 2 - 1) /* white blocks that can be numbered: 31 bits, two values left over */

struct rank {
    const struct white *white;
    uint32_t *before[AREAS]; /* of each word of the bitmap: white blocks before it */
    size_t bytes[AREAS];
    uint32_t count; /* of all white blocks */
};

/* Counts the bits of `white`, which must stay as it is while the ranks are used.  Mappings of its own, given back by
   rank_free; false without memory, or where there are more than RANK_MOST. */
bool rank_make(struct rank *, const struct white *white);
void rank_free(struct rank *);

static inline unsigned rank_ones(uint64_t x) /* H. S. Warren, Hacker's Delight, 5-1 */
{
    x -= x >> 1 & 0x5555555555555555;
    x = (x & 0x3333333333333333) + (x >> 2 & 0x3333333333333333);
    return (unsigned)(((x + (x >> 4)) & 0x0f0f0f0f0f0f0f0f) * 0x0101010101010101 >> 56);
}

/* The number of the block whose bit is `granule` of `area`; the bit must be set. */
static inline uint32_t rank_of(const struct rank *r, unsigned area, size_t granule)
{
    uint64_t below = ((uint64_t)1 << granule % 64) - 1;
    return r->before[area][granule / 64] +
           rank_ones(r->white->area[area].bits[granule / 64] & below);
}

#endif
