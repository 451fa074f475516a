/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/remember_sweep.h"
#include "heap/os.h"
#include "heap/remember_filter.h"
#include "heap/remember_ranges.h"
#include "heap/remember_sample.h"
#include "heap/syscall.h"

#include <fcntl.h>

#define BATCH 512u
_Static_assert(FILTER_MOST * sizeof(uintptr_t) == OS_PAGE, "the filter takes a page at a time");

struct sweep {
    struct marker *marker;
    const struct white *young;
    const struct present *present;
    struct filter filter;
    uint64_t bytes;
    bool by_file;        /* the pages may be guard regions: to be copied, not loaded (present.h) */
    long memory;         /* /proc/…/mem, -1: not opened */
    uint32_t mixed_pool; /* the latest pool that was asked for old blocks, and the answer */
    bool mixed;
    unsigned n;
    uintptr_t batch[BATCH];
    uint16_t found[FILTER_MOST];
    _Alignas(32) uintptr_t copy[FILTER_MOST];
    uint64_t unit[FILTER_UNITS / 64 + 1];
};

/* ---- where young blocks lie ---- */

static bool any_bit(const uint64_t *bits, size_t words)
{
    uint64_t any = 0;
    for (size_t i = 0; i < words; i++) any |= bits[i];
    return any != 0;
}

static void add_pools(struct filter *f, const struct white *young, bool medium)
{
    const struct white_area *a = &young->area[medium];
    unsigned shift = medium ? MEDIUM_POOL_SHIFT : SMALL_POOL_SHIFT;
    size_t each = (size_t)1 << (shift - a->shift), pools = a->granules / each;
    for (size_t i = 0; i < pools; i++)
        if (a->class_of[i] != 0 && any_bit(a->bits + i * each / 64, each / 64))
            filter_add(f, a->base + (i << shift), (size_t)1 << shift);
}

static void add_large(struct filter *f, const struct white *young)
{
    const struct white_area *a = &young->area[AREA_LARGE];
    for (size_t i = 0; i < (a->granules + 63) / 64; i++)
        for (uint64_t bits = a->bits[i]; bits != 0; bits &= bits - 1) {
            struct white_block b;
            white_block_of(young, AREA_LARGE, i * 64 + (unsigned)__builtin_ctzll(bits), &b);
            filter_add(f, b.start, b.bytes + 1); /* a pointer to its end counts, see mark.c */
        }
}

struct sweep *sweep_begin(struct marker *m, const struct white *young, uintptr_t guard,
                          const struct present *present)
{
    struct sweep *s = os_map(round_up(sizeof *s, OS_PAGE));
    if (!s) return NULL;
    s->marker = m;
    s->young = young;
    s->present = present;
    s->memory = -1;
    s->filter = (struct filter){.guard = guard, .unit = s->unit};
    s->mixed_pool = ID_NONE;
    add_pools(&s->filter, young, false);
    add_pools(&s->filter, young, true);
    add_large(&s->filter, young);
    return s;
}

bool sweep_any(const struct sweep *s)
{
    return s->filter.bytes != 0;
}

/* ---- words ---- */

static void hand_over(struct sweep *s)
{
    mark_words(s->marker, s->batch, s->batch + s->n);
    s->n = 0;
}

static inline void add_word(struct sweep *s, uintptr_t word)
{
    if (unlikely(s->n == BATCH)) hand_over(s);
    s->batch[s->n++] = word;
}

/* NULL for what cannot be read: a guard. */
static NOINLINE const uintptr_t *copy_page(struct sweep *s, uintptr_t page)
{
    if (s->memory < 0)
        s->memory =
            raw_syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/mem", O_RDONLY | O_CLOEXEC, 0);
    if (s->memory < 0) return (const uintptr_t *)page; /* not dumpable: as the marker */
    return raw_syscall(SYS_pread64, s->memory, s->copy, OS_PAGE, page) == (long)OS_PAGE ? s->copy
                                                                                        : NULL;
}

/* A page's words that pass the filter: their numbers are in s->found. */
static inline unsigned filter_page(struct sweep *s, uintptr_t page, const uintptr_t **words)
{
    *words = likely(!s->by_file) ? (const uintptr_t *)page : copy_page(s, page);
    if (unlikely(!*words)) return 0;
    if (likely(!s->by_file)) sample_page(*words);
    s->bytes += OS_PAGE;
    return filter_words(&s->filter, *words, FILTER_MOST, s->found);
}

/* Young memory is not read, but what is written of it would be written while it is tracked, too: its pages were armed if they were there
   at the collection before. */
static void only_sample(const struct sweep *s, uintptr_t from, uintptr_t to)
{
    for (; from < to && !s->by_file; from += OS_PAGE) sample_page((const uint64_t *)from);
}

/* ---- pools ---- */

static bool has_old(const struct pool *p)
{
    bool medium = pool_is_medium(p);
    size_t n = pool_bytes(p) >> (medium ? MEDIUM_GRANULE_SHIFT : SMALL_GRANULE_SHIFT);
    const int8_t *state = state_of((const void *)pool_base(p), medium);
    uint64_t any = 0;
    for (size_t i = 0; i < n; i += 8) {
        uint64_t eight;
        __builtin_memcpy(&eight, state + i, 8);
        any |= eight;
    }
    return any & 0x0101010101010101u * STATE_OLD;
}

/* Pools where there is none hold the nursery; they are as large as it is. */
static bool has_old_cached(struct sweep *s, const struct pool *p)
{
    if (s->mixed_pool != pool_id(p)) {
        s->mixed_pool = pool_id(p);
        s->mixed = has_old(p);
    }
    return s->mixed;
}

static void pool_part(struct sweep *s, const struct pool *p, uintptr_t from, uintptr_t to)
{
    unsigned class = p->class, size = class_size[class];
    bool medium = pool_is_medium(p);
    unsigned shift = medium ? MEDIUM_GRANULE_SHIFT : SMALL_GRANULE_SHIFT;
    uintptr_t base = pool_base(p);
    const int8_t *state = state_of((const void *)base, medium);
    for (uintptr_t page = from; page < to; page += OS_PAGE) {
        const uintptr_t *words;
        unsigned n = filter_page(s, page, &words);
        for (unsigned i = 0; i < n; i++) {
            size_t start =
                (size_t)slot_of_offset(class, page - base + s->found[i] * sizeof *words) * size;
            if (start + size > pool_bytes(p)) continue; /* what is left over at its end */
            int8_t is = state[start >> shift];
            if (state_is_live(is) && (is & STATE_OLD)) add_word(s, words[s->found[i]]);
        }
    }
}

static void sweep_pools(struct sweep *s, uintptr_t from, uintptr_t to, bool medium)
{
    while (from < to) {
        const struct pool *p = pool_of((const void *)from, medium);
        uintptr_t end = pool_base(p) + pool_bytes(p);
        if (end > to) end = to;
        if (pool_may_live(p)) {
            if (!filter_has(&s->filter, from) || has_old_cached(s, p))
                pool_part(s, p, from, end);
            else
                only_sample(s, from, end);
        }
        from = end;
    }
}

/* ---- large blocks ---- */

static void sweep_large(struct sweep *s, uintptr_t from, uintptr_t to)
{
    while (from < to) {
        uint32_t page;
        size_t bytes;
        if (!large_table_find((const void *)from, &page, &bytes)) {
            from += OS_PAGE;
            continue;
        }
        uintptr_t end = (uintptr_t)large_address(page) + bytes;
        if (end > to) end = to;
        if (!(atomic_load(&large_record_of(page)->state) & LARGE_OLD)) {
            only_sample(s, from, end);
            from = end;
        }
        for (; from < end; from += OS_PAGE) {
            const uintptr_t *words;
            unsigned n = filter_page(s, from, &words);
            for (unsigned i = 0; i < n; i++) add_word(s, words[s->found[i]]);
        }
    }
}

static void sweep_seen(uintptr_t from, uintptr_t to, void *user)
{
    uintptr_t offset = from - window_base;
    if (offset >= WINDOW_LARGE_OFFSET)
        sweep_large(user, from, to);
    else
        sweep_pools(user, from, to, offset >= WINDOW_MEDIUM_OFFSET);
}

void sweep_pages(uintptr_t from, uintptr_t to, void *user)
{
    struct sweep *s = user;
    s->by_file = s->present->swapped && !s->present->knows_guards;
    if (white_is_blind(s->young, from, to - from))
        ranges_each_gap(s->young->blind, from, to, sweep_seen, s);
    else
        sweep_seen(from, to, s);
}

uint64_t sweep_bytes(const struct sweep *s)
{
    return s->bytes;
}

void sweep_end(struct sweep *s)
{
    if (s->n > 0) hand_over(s);
    if (s->memory >= 0) raw_syscall(SYS_close, s->memory);
    os_unmap(s, round_up(sizeof *s, OS_PAGE));
}
