/* remember_ranges.h: where live blocks lie, as ranges of addresses.

   By the pools' descriptors and the large blocks' records alone, so that no page of a block is touched.  What is in a range may be less than
   all live: neighbours are joined over free pools that are mapped, which costs less than a further range.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REMEMBER_RANGES_H
#define GLEANER_REMEMBER_RANGES_H

#include "heap/pool.h"

/* No range crosses a multiple of this (offset in the window), so a table with an entry for each unit serves whoever notes something
   of ranges. */
#define RANGE_UNIT_SHIFT 26
#define RANGE_UNITS (WINDOW_TABLES_OFFSET >> RANGE_UNIT_SHIFT)

static inline unsigned range_unit(uintptr_t address)
{
    return (unsigned)((address - window_base) >> RANGE_UNIT_SHIFT);
}

/* Can a live block lie in the pool? */
static inline bool pool_may_live(const struct pool *p)
{
    return p->class != 0 && p->list != POOL_NOWHERE && p->list != POOL_AWAY &&
           p->free != pool_bytes(p) / class_size[p->class];
}

/* Calls `each` for every range, by ascending address, until it returns false; true if it never did.  Every live block lies in ranges
   (a large one may lie in several), all of which are mapped.  In a stopped world. */
bool ranges_each(bool (*each)(uintptr_t from, uintptr_t to, void *user), void *user);

#endif
