/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/ranges.h"
#include "heap/grow.h"

#define FIRST_ROOM 256

void ranges_add(struct ranges *r, uintptr_t from, uintptr_t to)
{
    if (from >= to) return;
    if (r->count == r->room) {
        struct cut_range *more = grow(r->range, r->count, &r->room, sizeof *r->range, FIRST_ROOM);
        if (!more) {
            r->incomplete = true;
            return;
        }
        r->range = more;
    }
    r->range[r->count++] = (struct cut_range){from, to};
}

static void sink(struct cut_range *heap, size_t at, size_t count)
{
    struct cut_range moved = heap[at];
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && heap[child + 1].from > heap[child].from) child++;
        if (heap[child].from <= moved.from) break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

/* Heapsort: in place, without recursion, and never quadratic. */
static void sort(struct cut_range *range, size_t count)
{
    for (size_t i = count / 2; i-- > 0;) sink(range, i, count);
    for (size_t left = count; left > 1;) {
        struct cut_range greatest = range[0];
        range[0] = range[--left];
        range[left] = greatest;
        sink(range, 0, left);
    }
}

void ranges_settle(struct ranges *r)
{
    if (r->count < 2) return;
    sort(r->range, r->count);
    size_t last = 0;
    for (size_t i = 1; i < r->count; i++) {
        struct cut_range *joined = &r->range[last];
        if (r->range[i].from <= joined->to) {
            if (joined->to < r->range[i].to) joined->to = r->range[i].to;
        } else {
            r->range[++last] = r->range[i];
        }
    }
    r->count = last + 1;
}

const struct cut_range *ranges_from(const struct ranges *r, uintptr_t address)
{
    size_t low = 0, high = r->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (r->range[middle].to > address) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low < r->count ? &r->range[low] : NULL;
}

void ranges_each_gap(const struct ranges *r, uintptr_t from, uintptr_t to,
                     void (*each)(uintptr_t from, uintptr_t to, void *user), void *user)
{
    const struct cut_range *next = ranges_from(r, from);
    for (; next && next < r->range + r->count && next->from < to; next++) {
        if (from < next->from) each(from, next->from, user);
        from = next->to;
    }
    if (from < to) each(from, to, user);
}

void ranges_free(struct ranges *r)
{
    grow_free(r->range, r->room, sizeof *r->range);
    *r = (struct ranges){0};
}
