/* remember_sweep.h: reads old memory for words that may point to young blocks.

   1. Before: a bit for each unit that holds a young block, from the white bitmap (remember_filter.h).
   2. Page by page, in the order of addresses: the filter; the few words that pass it are looked at one by one: does an old live block hold
      them?  Words of free slots say nothing; those of young blocks are the marker's, when it reaches them.
   3. Those that do are handed to the marker in batches.
   Everything that it needs lies in one mapping, which is gone before the pause ends: no word of it can be taken for a root later.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REMEMBER_SWEEP_H
#define GLEANER_REMEMBER_SWEEP_H

#include "heap/mark.h"

struct sweep;

/* Notes where the young blocks lie that are white now. `guard`: of mark_demangled, 0 for none.  `present` is the one that the caller
   asks for pages, while it asks.  NULL without memory. */
struct sweep *sweep_begin(struct marker *, const struct white *young, uintptr_t guard,
                          const struct present *present);

/* Is there any young block? */
bool sweep_any(const struct sweep *);

/* Reads the old blocks' words in [from, to), which are present or swapped pages of one area; those in blind parts are roots and left
   out. `user` is the sweep: for present_each. */
void sweep_pages(uintptr_t from, uintptr_t to, void *user);

/* Bytes that were read so far. */
uint64_t sweep_bytes(const struct sweep *);

/* Hands over what is left. */
void sweep_end(struct sweep *);

#endif
