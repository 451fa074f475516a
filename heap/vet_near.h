/* vet_near.h: may a value that points to an address explain a lost block?  Two tables of bits answer for nearly all addresses:
   a coarse one, small enough for the first-level cache, and a fine one that knows live blocks from free memory.

   1. Data.  The window (and a page before it) is divided into quarters; of each the part between its first and last lost
      block is divided into lines: coarse ones of 4 KiB, and fine ones of a granule (512 bytes among the
      large blocks), or of more where that would need over 16 MiB.  Areas fill up from their start, so lines
      are numbered and not hashed.
   2. A line's bit is set where an address in it lies in a lost block, at its end, or up to 256 bytes before its start;
      a fine line's not, where all of it lies in a live block that is not lost.  So a pointer to a live neighbour,
      and there are millions, is told by a bit.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_VET_NEAR_H
#define GLEANER_VET_NEAR_H

#include "heap/white.h"

#define VET_BEFORE_MOST                                                                            \
    256u /* bytes before a block's start that a base-minus pointer may point to */

#define VET_QUARTERS 4u
#define VET_QUARTER_SHIFT 38
#define VET_COARSE_SHIFT 12

struct vet_lines {
    uint64_t *bits;
    unsigned shift;
    size_t bytes;
};

struct vet_quarter {
    uintptr_t from, span; /* offset from the near's base, and length, 0: no lost block near */
    struct vet_lines coarse, fine;
};

struct vet_near {
    uintptr_t base; /* a page before the window */
    struct vet_quarter quarter[VET_QUARTERS];
};

/* For all blocks of `white`.  Mappings of its own; false without memory, then nothing is held. */
bool vet_near_make(struct vet_near *, const struct white *white);
void vet_near_free(struct vet_near *);

static inline bool vet_line_is_set(const struct vet_lines *l, uintptr_t in_quarter)
{
    uintptr_t line = in_quarter >> l->shift;
    return l->bits[line / 64] >> line % 64 & 1;
}

/* The quarter's lines, if a coarse one says that the address may be near, and the fine line's word is on its way to the cache. */
static inline const struct vet_quarter *vet_near_coarse(const struct vet_near *n, uintptr_t address)
{
    uintptr_t offset = address - n->base;
    if (offset >> VET_QUARTER_SHIFT >= VET_QUARTERS) return NULL;
    const struct vet_quarter *q = &n->quarter[offset >> VET_QUARTER_SHIFT];
    if (offset - q->from >= q->span || !vet_line_is_set(&q->coarse, offset - q->from)) return NULL;
    __builtin_prefetch(&q->fine.bits[(offset - q->from) >> q->fine.shift >> 6]);
    return q;
}

static inline bool vet_near_fine(const struct vet_near *n, const struct vet_quarter *q,
                                 uintptr_t address)
{
    return vet_line_is_set(&q->fine, address - n->base - q->from);
}

#endif
