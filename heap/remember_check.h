/* remember_check.h: with `verify`: did the kernel name every page that was written since it was armed?

   1. A hash of each page is noted when it is armed.  A page that is not named later must have it still: else a store to it was not seen.
   2. So where all is well, what a full mark reaches and a tracked collection does not hangs on words that are older than the young block: a
      number that happens to be its address, or a pointer to an earlier block in its place.  That is no fault, see collect.c.
   In a stopped world only.  The hashes lie in the window's tables, where no scan of roots looks.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REMEMBER_CHECK_H
#define GLEANER_REMEMBER_CHECK_H

#include "heap/present.h"
#include "heap/ranges.h"

/* Pages of one unit (remember_ranges.h) that were armed just now, as present_each names them. `blind`: parts that must not be loaded
   from (NULL: none).  Without memory they are not checked later. */
void check_note(uintptr_t from, uintptr_t to, const struct present *, const struct ranges *blind);

struct check_found {
    uint64_t pages; /* whose contents are not what was noted */
    uintptr_t first;
};

/* Adds up what of a range within one unit has changed since it was noted, right after all pages that were written have been named and noted anew.
   Pages that are not in memory, and such as the kernel has marked as written meanwhile (it may do so while the world is stopped,
   for a read that is under way), are left out. */
void check_range(uintptr_t from, uintptr_t to, struct present *, const struct ranges *blind, struct check_found *);

#endif
