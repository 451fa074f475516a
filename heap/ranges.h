/* ranges.h: sets of address ranges: added in any order, then sorted once and looked up by binary search.
   Raw mappings only, so that they can be made while the world is stopped.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_RANGES_H
#define GLEANER_RANGES_H

#include "heap/cut.h"

struct ranges {
    struct cut_range *range;
    size_t count, room;
    bool incomplete; /* no memory for one */
};

/* Adds [from, to); nothing if it is empty. */
void ranges_add(struct ranges *, uintptr_t from, uintptr_t to);

/* Sorts by address and joins ranges that overlap or touch.  Before any of the following. */
void ranges_settle(struct ranges *);

/* The first range that ends after `address`; NULL if there is none. */
const struct cut_range *ranges_from(const struct ranges *, uintptr_t address);

/* Does any range share an address with [from, to)? */
static inline bool ranges_meet(const struct ranges *r, uintptr_t from, uintptr_t to)
{
    const struct cut_range *first = ranges_from(r, from);
    return first && first->from < to;
}

/* Does one range hold all of [from, to)? */
static inline bool ranges_hold(const struct ranges *r, uintptr_t from, uintptr_t to)
{
    const struct cut_range *first = ranges_from(r, from);
    return first && first->from <= from && to <= first->to;
}

/* Calls `each` for every part of [from, to) that lies in no range, by ascending address. */
void ranges_each_gap(const struct ranges *, uintptr_t from, uintptr_t to,
                     void (*each)(uintptr_t from, uintptr_t to, void *user), void *user);

void ranges_free(struct ranges *);

#endif
