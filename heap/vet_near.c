/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/vet_near.h"
#include "heap/os.h"

#define LARGE_LINE_SHIFT 9u
#define LINES_MOST ((uintptr_t)128 << 20)
#define QUARTER ((uintptr_t)1 << VET_QUARTER_SHIFT)
#define PAGE ((uintptr_t)1 << VET_COARSE_SHIFT)
_Static_assert(VET_BEFORE_MOST <= PAGE, "the near begins a page before the window");

/* What of the offsets [from, to) lies in the quarter of `from`: up to *end.  NULL where that is behind the last. */
static struct vet_quarter *quarter_at(struct vet_near *n, uintptr_t from, uintptr_t to,
                                      uintptr_t *end)
{
    uintptr_t i = from >> VET_QUARTER_SHIFT;
    *end = (i + 1) * QUARTER < to ? (i + 1) * QUARTER : to;
    return i < VET_QUARTERS ? &n->quarter[i] : NULL;
}

/* The offsets that concern a lost block. */
static uintptr_t near_from(const struct vet_near *n, const struct white_block *b)
{
    return b->start - VET_BEFORE_MOST - n->base;
}
static uintptr_t near_to(const struct vet_near *n, const struct white_block *b)
{
    return b->start + b->bytes + 1 - n->base;
}

/* Parts start at whole pages, so that no line straddles a granule. */
static void extend(const struct white_block *b, void *user)
{
    struct vet_near *n = user;
    uintptr_t to = near_to(n, b), end;
    for (uintptr_t from = near_from(n, b); from < to; from = end) {
        struct vet_quarter *q = quarter_at(n, from, to, &end);
        if (!q) return;
        uintptr_t first = from & ~(PAGE - 1), last = q->from + q->span;
        if (q->span == 0 || first < q->from) q->from = first;
        q->span = (end > last ? end : last) - q->from;
    }
}

static void change_lines(struct vet_lines *l, uintptr_t first, uintptr_t end, bool to)
{
    for (uintptr_t line = first; line < end;) {
        uintptr_t n = 64 - line % 64 < end - line ? 64 - line % 64 : end - line;
        uint64_t bits = (n == 64 ? ~(uint64_t)0 : ((uint64_t)1 << n) - 1) << line % 64;
        if (to)
            l->bits[line / 64] |= bits;
        else
            l->bits[line / 64] &= ~bits;
        line += n;
    }
}

static void set_near(const struct white_block *b, void *user)
{
    struct vet_near *n = user;
    uintptr_t to = near_to(n, b), end;
    for (uintptr_t from = near_from(n, b); from < to; from = end) {
        struct vet_quarter *q = quarter_at(n, from, to, &end);
        if (!q) return;
        uintptr_t first = from - q->from, last = end - 1 - q->from;
        change_lines(&q->coarse, first >> q->coarse.shift, (last >> q->coarse.shift) + 1, true);
        change_lines(&q->fine, first >> q->fine.shift, (last >> q->fine.shift) + 1, true);
    }
}

/* ---- live blocks ---- */

static void clear_live(struct vet_near *n, uintptr_t start, size_t bytes)
{
    uintptr_t to = start + bytes - n->base, end;
    for (uintptr_t from = start - n->base; from < to; from = end) {
        struct vet_quarter *q = quarter_at(n, from, to, &end);
        if (!q) return;
        uintptr_t line = (uintptr_t)1 << q->fine.shift, low = from < q->from ? q->from : from;
        uintptr_t high = end < q->from + q->span ? end : q->from + q->span;
        if (low >= high) continue;
        change_lines(&q->fine, (low - q->from + line - 1) >> q->fine.shift,
                     (high - q->from) >> q->fine.shift, false);
    }
}

static void clear_live_slots(struct vet_near *n, const struct white *white, unsigned area,
                             size_t index)
{
    const struct white_area *a = &white->area[area];
    unsigned pool_shift = area == AREA_MEDIUM ? MEDIUM_POOL_SHIFT : SMALL_POOL_SHIFT;
    uintptr_t base = a->base + (index << pool_shift), end = (uintptr_t)1 << pool_shift;
    size_t slot = class_size[a->class_of[index]], first = (index << pool_shift) >> a->shift;
    const int8_t *state = state_of((const void *)base, area == AREA_MEDIUM);
    uintptr_t from = 0, at = 0; /* what lies between is live: neighbours at once */
    for (; at + slot <= end; at += slot) {
        size_t granule = at >> a->shift;
        bool lost = a->bits[(first + granule) / 64] >> (first + granule) % 64 & 1;
        if (!lost && state_is_live(state[granule])) continue;
        if (from < at) clear_live(n, base + from, at - from);
        from = at + slot;
    }
    if (from < at) clear_live(n, base + from, at - from);
}

/* A pool without a lost block near has no line to clear. */
static bool pool_is_near(const struct vet_near *n, uintptr_t base, size_t bytes)
{
    for (uintptr_t at = base - n->base; at < base - n->base + bytes; at += PAGE) {
        const struct vet_quarter *q = &n->quarter[at >> VET_QUARTER_SHIFT];
        if (at - q->from < q->span && vet_line_is_set(&q->coarse, at - q->from)) return true;
    }
    return false;
}

static void clear_live_pools(struct vet_near *n, const struct white *white, unsigned area)
{
    const struct white_area *a = &white->area[area];
    unsigned pool_shift = area == AREA_MEDIUM ? MEDIUM_POOL_SHIFT : SMALL_POOL_SHIFT;
    for (size_t i = 0; i < (a->granules << a->shift) >> pool_shift; i++)
        if (a->class_of[i] != 0 &&
            pool_is_near(n, a->base + (i << pool_shift), (size_t)1 << pool_shift))
            clear_live_slots(n, white, area, i);
}

struct clear_large {
    struct vet_near *near;
    const struct white *white;
};

static bool clear_live_large(uint32_t page, size_t bytes, void *user)
{
    const struct clear_large *c = user;
    const struct white_area *a = &c->white->area[AREA_LARGE];
    bool lost = page < a->granules && (a->bits[page / 64] >> page % 64 & 1);
    if (!lost) clear_live(c->near, (uintptr_t)large_address(page), bytes);
    return true;
}

/* ---- the whole ---- */

static bool map_lines(struct vet_lines *l, uintptr_t span, unsigned shift)
{
    for (l->shift = shift; span >> l->shift >= LINES_MOST;) l->shift++;
    l->bytes = round_up(((span >> l->shift) + 1) / 8 + 8, OS_PAGE);
    l->bits = os_map(l->bytes);
    if (l->bits && l->bytes >= 2 * MIB) os_prefer_huge(l->bits, l->bytes);
    return l->bits;
}

static unsigned fine_shift(unsigned quarter)
{
    return quarter == 0   ? SMALL_GRANULE_SHIFT
           : quarter == 1 ? MEDIUM_GRANULE_SHIFT
                          : LARGE_LINE_SHIFT;
}

bool vet_near_make(struct vet_near *n, const struct white *white)
{
    *n = (struct vet_near){.base = window_base - PAGE};
    white_each(white, extend, n);
    for (unsigned i = 0; i < VET_QUARTERS; i++) {
        struct vet_quarter *q = &n->quarter[i];
        if (q->span == 0) continue;
        if (map_lines(&q->coarse, q->span, VET_COARSE_SHIFT) &&
            map_lines(&q->fine, q->span, fine_shift(i)))
            continue;
        vet_near_free(n);
        return false;
    }
    white_each(white, set_near, n);
    clear_live_pools(n, white, AREA_SMALL);
    clear_live_pools(n, white, AREA_MEDIUM);
    large_table_each(clear_live_large, &(struct clear_large){n, white});
    return true;
}

void vet_near_free(struct vet_near *n)
{
    for (unsigned i = 0; i < VET_QUARTERS; i++) {
        struct vet_quarter *q = &n->quarter[i];
        if (q->coarse.bits) os_unmap(q->coarse.bits, q->coarse.bytes);
        if (q->fine.bits) os_unmap(q->fine.bits, q->fine.bytes);
    }
    *n = (struct vet_near){0};
}
