/* white.h: the blocks that a collection has not reached yet.

   1. Data.  Three areas hold blocks: small and medium pools, and large blocks.  Each has a bitmap with one bit a granule
      (16 bytes, 128 bytes, a page), set where a live block *starts* that has not been reached.  It is filled from the
      state bytes in one sequential pass, so that marking, which is random access, touches one bit a block and no state
      byte; what is left of it at the end are the blocks that nothing reaches.
   2. A dense table of the pools' classes (a byte a pool, so that it stays in the cache) turns an interior pointer into a block's start.
   3. Memory is mapped by white_make, in whoever marks, and unmapped by white_free.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_WHITE_H
#define GLEANER_WHITE_H

#include "heap/large_table.h"
#include "heap/pool.h"
#include "heap/ranges.h"

enum { AREA_SMALL, AREA_MEDIUM, AREA_LARGE, AREAS };

struct white_area {
    uintptr_t base;    /* first address */
    size_t granules;   /* there are */
    unsigned shift;    /* log2 of a granule */
    uint64_t *bits;    /* granules / 64, rounded up */
    uint8_t *class_of; /* of each pool: class, 0 none; NULL for large */
    uint8_t *had;      /* by pool: not 0 where white_make found a block; behind class_of */
    size_t bits_bytes, class_bytes;
};

struct white {
    struct white_area area[AREAS];
    uint64_t blocks, bytes; /* set by white_make */
    bool moving; /* so is this: a large block is being resized or moved; its contents may be under no record */
    const struct ranges *blind; /* parts of the window that must not be loaded from (roots.h); NULL: none */
    struct pieces *pieces;      /* the program's arenas (arenas_mark.h); NULL: none */
};

enum white_what {
    WHITE_LIVE, /* every live block */
    WHITE_YOUNG /* those allocated since the last collection */
};

/* Fills the bitmaps: exact where nothing else runs.  Blocks that are to be ignored are left out (they are roots:
   white_each_ignored).  False without memory. */
bool white_make(struct white *, enum white_what);
void white_free(struct white *);

/* Where a block lies. */
struct white_block {
    uintptr_t start;
    size_t bytes;   /* given */
    uint32_t area;
    uint32_t class; /* HEAP_CLASS_LARGE for large ones */
    size_t granule; /* index of its bit */
};

/* Must a part of a block not be loaded from? */
static inline bool white_is_blind(const struct white *w, uintptr_t start, size_t bytes)
{
    return unlikely(w->blind != NULL) && w->blind->count != 0 && ranges_meet(w->blind, start, start + bytes);
}

/* The slot or large block around an address in the window, whether white or not, live or not (a large one: live
   only); false where there is none. */
bool white_find(const struct white *, uintptr_t address, struct white_block *);

/* The block of a bit. */
void white_block_of(const struct white *, unsigned area, size_t granule, struct white_block *);

static inline bool white_is(const struct white *w, const struct white_block *b)
{
    return w->area[b->area].bits[b->granule / 64] >> b->granule % 64 & 1;
}

/* Clears the bit; was it set? */
static inline bool white_take(struct white *w, const struct white_block *b)
{
    uint64_t *word = &w->area[b->area].bits[b->granule / 64], bit = (uint64_t)1 << b->granule % 64;
    bool was = *word & bit;
    *word &= ~bit;
    return was;
}

/* Calls `each` for every white block, by area and ascending address. */
void white_each(const struct white *, void (*each)(const struct white_block *, void *user), void *user);

/* Calls `each` for every ignored live block (heap_ignore): they are roots. */
void white_each_ignored(void (*each)(uintptr_t start, size_t bytes, void *user), void *user);

/* Makes every young block old.  In a stopped world, or where nothing else runs.  `young` (NULL: none), made as WHITE_YOUNG since anything else
   ran, tells the pools that have any, so that the others' states are not read. */
struct white_young {
    uint64_t blocks, bytes; /* that were young */
};
void white_make_old(struct white_young *, const struct white *young);

/* Is the slot at a block's start allocated now (by its state byte)? */
bool white_is_live(const struct white_block *);

#endif
