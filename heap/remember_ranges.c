/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/remember_ranges.h"
#include "heap/large_table.h"

#define JOINED (256 * KIB) /* of free pools between two others */

struct join {
    uintptr_t from, to; /* the range so far; equal: none */
    bool (*each)(uintptr_t from, uintptr_t to, void *user);
    void *user;
    bool ended; /* `each` wants no more */
};

static bool flush(struct join *j)
{
    uintptr_t from = j->from, to = j->to;
    j->from = j->to = 0;
    if (from != to && !j->each(from, to, j->user)) j->ended = true;
    return !j->ended;
}

/* [from, to) crosses no unit's end. */
static bool add_within_unit(struct join *j, uintptr_t from, uintptr_t to, size_t gap)
{
    if (j->from != j->to && from - j->to <= gap && range_unit(from) == range_unit(j->from)) {
        j->to = to;
        return true;
    }
    if (!flush(j)) return false;
    j->from = from;
    j->to = to;
    return true;
}

static bool add_pools(struct join *j, bool medium)
{
    uint32_t first, count;
    pool_range(medium, &first, &count);
    size_t gap = 0;
    for (uint32_t id = first; id < first + count; id++) {
        const struct pool *p = pool_of_id(id);
        if (pool_may_live(p)) {
            if (!add_within_unit(j, pool_base(p), pool_base(p) + pool_bytes(p), gap)) return false;
            gap = JOINED;
        } else if (p->list == POOL_NOWHERE || p->list == POOL_AWAY) {
            gap = 0; /* a hole, or what is not ours */
        }
    }
    return flush(j);
}

static bool add_large(uint32_t page, size_t bytes, void *user)
{
    struct join *j = user;
    uintptr_t from = (uintptr_t)large_address(page), end = from + bytes;
    while (from < end) {
        uintptr_t unit_end = window_base + ((uintptr_t)(range_unit(from) + 1) << RANGE_UNIT_SHIFT);
        uintptr_t to = end < unit_end ? end : unit_end;
        if (!add_within_unit(j, from, to, 0)) return false;
        from = to;
    }
    return true;
}

bool ranges_each(bool (*each)(uintptr_t from, uintptr_t to, void *user), void *user)
{
    struct join j = {.each = each, .user = user};
    if (!add_pools(&j, false) || !add_pools(&j, true)) return false;
    large_table_each(add_large, &j);
    return !j.ended && flush(&j);
}
