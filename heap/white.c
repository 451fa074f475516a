/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/white.h"
#include "heap/collect.h"
#include "heap/heap.h"
#include "heap/large.h"
#include "heap/os.h"
#include "heap/tag.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* Which of 64 state bytes are those of blocks that are wanted: live, and with `young` not old. */
static inline uint64_t wanted_64(const int8_t *state, bool young)
{
    uint64_t found = 0;
#if defined(__SSE2__)
    const __m128i class = _mm_set1_epi8(STATE_CLASS), old = _mm_set1_epi8(STATE_OLD), zero = _mm_setzero_si128();
    for (unsigned i = 0; i < 4; i++) {
        __m128i s = _mm_loadu_si128((const __m128i *)(const void *)(state + 16 * i));
        unsigned mask = ~(unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_and_si128(s, class), zero)) & 0xffff;
        if (young) mask &= (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_and_si128(s, old), zero));
        found |= (uint64_t)mask << 16 * i;
    }
#else
    for (unsigned i = 0; i < 8; i++) { /* eight bytes at a time: a flag in bit 6 of each, then gathered */
        uint64_t s;
        __builtin_memcpy(&s, state + 8 * i, 8);
        if (s == 0) continue;
        uint64_t flags = ((s & 0x3f3f3f3f3f3f3f3f) + 0x3f3f3f3f3f3f3f3f) & 0x4040404040404040;
        if (young) flags &= ~s;
        found |= ((flags >> 6) * 0x0102040810204080 >> 56) << 8 * i;
    }
#endif
    return found;
}

static bool map_area(struct white_area *a, size_t granules, size_t pools)
{
    a->granules = granules;
    a->bits_bytes = round_up(granules / 8 + 64, OS_PAGE);
    a->class_bytes = round_up(2 * (pools + 1), OS_PAGE);
    a->bits = os_map(a->bits_bytes);
    a->class_of = pools ? os_map(a->class_bytes) : NULL;
    if (!a->bits || (pools && !a->class_of)) return false;
    a->had = a->class_of ? a->class_of + pools + 1 : NULL;
    /* Touched at random by the marker; a heap of a GiB needs four huge pages here. */
    if (a->bits_bytes >= 2 * MIB) os_prefer_huge(a->bits, a->bits_bytes);
    return true;
}

static bool is_ignored(const struct pool *p, unsigned slot)
{
    _Atomic uint32_t *tags = atomic_load(&p->entries);
    return tags && (atomic_load(&tags[slot]) & TAG_IGNORED);
}

static void fill_pool(struct white *w, bool medium, struct pool *p, bool young)
{
    struct white_area *a = &w->area[medium];
    unsigned shift = medium ? MEDIUM_POOL_SHIFT - MEDIUM_GRANULE_SHIFT : SMALL_POOL_SHIFT - SMALL_GRANULE_SHIFT;
    uint32_t index = pool_id(p) - (medium ? SMALL_POOLS : 0);
    size_t first = (size_t)index << shift, count = (size_t)1 << shift;
    const int8_t *state = (medium ? pool_tables.medium_state : pool_tables.small_state) + first;
    unsigned blocks = 0;
    a->class_of[index] = p->class;
    for (size_t i = 0; i < count; i += 64) {
        uint64_t bits = wanted_64(state + i, young);
        if (bits == 0) continue;
        a->bits[(first + i) / 64] = bits;
        blocks += (unsigned)__builtin_popcountll(bits);
    }
    a->had[index] = blocks != 0;
    w->blocks += blocks;
    w->bytes += (uint64_t)blocks * class_size[p->class];
}

/* Ignored blocks are live without anybody: not white. */
static void leave_out_ignored(struct white *w, struct pool *p)
{
    for (unsigned slot = 0; slot < p->slots; slot++) {
        struct white_block b;
        if (!is_ignored(p, slot) || !white_find(w, (uintptr_t)slot_address(p, slot), &b) || !white_take(w, &b))
            continue;
        w->blocks--;
        w->bytes -= b.bytes;
    }
}

struct fill_large {
    struct white *white;
    bool young;
};

static bool fill_large(uint32_t page, size_t bytes, void *user)
{
    struct fill_large *f = user;
    struct large_record *r = large_record_of(page);
    uint32_t state = atomic_load(&r->state);
    if ((state & LARGE_STATE_MASK) == LARGE_BUSY) f->white->moving = true;
    if (f->young && (state & LARGE_OLD)) return true;
    if (atomic_load(&r->entry) & TAG_IGNORED) return true;
    f->white->area[AREA_LARGE].bits[page / 64] |= (uint64_t)1 << page % 64;
    f->white->blocks++;
    f->white->bytes += bytes;
    return true;
}

bool white_make(struct white *w, enum white_what what)
{
    *w = (struct white){0};
    w->area[AREA_SMALL].base = pool_tables.small_base;
    w->area[AREA_SMALL].shift = SMALL_GRANULE_SHIFT;
    w->area[AREA_MEDIUM].base = pool_tables.medium_base;
    w->area[AREA_MEDIUM].shift = MEDIUM_GRANULE_SHIFT;
    w->area[AREA_LARGE].base = window_base + WINDOW_LARGE_OFFSET;
    w->area[AREA_LARGE].shift = 12;
    bool young = what == WHITE_YOUNG;
    for (unsigned medium = 0; medium < 2; medium++) {
        uint32_t first, count;
        pool_range(medium, &first, &count);
        if (!map_area(&w->area[medium], medium ? pool_tables.medium_granules : pool_tables.small_granules, count + 1u))
            goto none;
        for (uint32_t i = 0; i < count; i++)
            if (pool_of_id(first + i)->class != 0) fill_pool(w, medium, pool_of_id(first + i), young);
        for (uint32_t i = 0; i < count; i++)
            if (atomic_load_explicit(&pool_of_id(first + i)->ignored, memory_order_relaxed) && pool_of_id(first + i)->class != 0)
                leave_out_ignored(w, pool_of_id(first + i));
    }
    if (!map_area(&w->area[AREA_LARGE], large_table_pages(), 0)) goto none;
    struct fill_large f = {w, young};
    large_table_each(fill_large, &f);
    return true;
none:
    white_free(w);
    return false;
}

void white_free(struct white *w)
{
    for (unsigned i = 0; i < AREAS; i++) {
        struct white_area *a = &w->area[i];
        if (a->bits) os_unmap(a->bits, a->bits_bytes);
        if (a->class_of) os_unmap(a->class_of, a->class_bytes);
    }
    *w = (struct white){0};
}

bool white_find(const struct white *w, uintptr_t address, struct white_block *b)
{
    uintptr_t offset = address - window_base;
    if (offset >= WINDOW_TABLES_OFFSET) return false;
    if (offset >= WINDOW_LARGE_OFFSET) {
        uint32_t page;
        if (!large_table_find((const void *)address, &page, &b->bytes)) return false;
        *b = (struct white_block){(uintptr_t)large_address(page), b->bytes, AREA_LARGE, HEAP_CLASS_LARGE, page};
        return page < w->area[AREA_LARGE].granules;
    }
    bool medium = offset >= WINDOW_MEDIUM_OFFSET;
    const struct white_area *a = &w->area[medium];
    unsigned pool_shift = medium ? MEDIUM_POOL_SHIFT : SMALL_POOL_SHIFT;
    uintptr_t in_area = address - a->base;
    if (in_area >> a->shift >= a->granules) return false;
    unsigned class = a->class_of[in_area >> pool_shift];
    if (class == 0) return false;
    uintptr_t pool = in_area >> pool_shift << pool_shift;
    unsigned slot = slot_of_offset(class, in_area - pool);
    uintptr_t start = pool + (uintptr_t)slot * class_size[class];
    if (start + class_size[class] > pool + ((uintptr_t)1 << pool_shift)) return false; /* what is left over at a pool's end */
    *b = (struct white_block){a->base + start, class_size[class], medium, class, start >> a->shift};
    return true;
}

void white_block_of(const struct white *w, unsigned area, size_t granule, struct white_block *b)
{
    const struct white_area *a = &w->area[area];
    b->start = a->base + (granule << a->shift);
    b->area = area;
    b->granule = granule;
    if (area == AREA_LARGE) {
        b->class = HEAP_CLASS_LARGE;
        b->bytes = atomic_load(&large_record_of((uint32_t)granule)->bytes);
        return;
    }
    b->class = a->class_of[(b->start - a->base) >> (area == AREA_MEDIUM ? MEDIUM_POOL_SHIFT : SMALL_POOL_SHIFT)];
    b->bytes = class_size[b->class];
}

void white_each(const struct white *w, void (*each)(const struct white_block *, void *user), void *user)
{
    for (unsigned area = 0; area < AREAS; area++) {
        const struct white_area *a = &w->area[area];
        for (size_t i = 0; i < (a->granules + 63) / 64; i++)
            for (uint64_t bits = a->bits[i]; bits != 0; bits &= bits - 1) {
                struct white_block b;
                white_block_of(w, area, i * 64 + (unsigned)__builtin_ctzll(bits), &b);
                each(&b, user);
            }
    }
}

bool white_is_live(const struct white_block *b)
{
    if (b->area != AREA_LARGE) return state_is_live(*state_of((const void *)b->start, b->area == AREA_MEDIUM));
    uint32_t state = atomic_load(&large_record_of((uint32_t)b->granule)->state) & LARGE_STATE_MASK;
    return state == LARGE_LIVE || state == LARGE_BUSY;
}

/* Calls `each` for every ignored block, which the marker takes for roots. */
struct ignored_large {
    void (*each)(uintptr_t start, size_t bytes, void *user);
    void *user;
};

static bool ignored_large(uint32_t page, size_t bytes, void *user)
{
    struct ignored_large *i = user;
    if (atomic_load(&large_record_of(page)->entry) & TAG_IGNORED) i->each((uintptr_t)large_address(page), bytes, i->user);
    return true;
}

void white_each_ignored(void (*each)(uintptr_t start, size_t bytes, void *user), void *user)
{
    for (unsigned medium = 0; medium < 2; medium++) {
        uint32_t first, count;
        pool_range(medium, &first, &count);
        for (uint32_t i = 0; i < count; i++) {
            struct pool *p = pool_of_id(first + i);
            if (p->class == 0 || !atomic_load_explicit(&p->ignored, memory_order_relaxed)) continue;
            for (unsigned slot = 0; slot < p->slots; slot++)
                if (is_ignored(p, slot) && state_is_live(*state_of(slot_address(p, slot), medium)))
                    each((uintptr_t)slot_address(p, slot), class_size[p->class], user);
        }
    }
    struct ignored_large large = {each, user};
    large_table_each(ignored_large, &large);
}

/* ---- ages ---- */

static uint64_t make_old_pool(int8_t *state, size_t count)
{
    uint64_t young = 0;
    for (size_t i = 0; i < count; i += 64) {
        uint64_t bits = wanted_64(state + i, true);
        if (bits == 0) continue;
        young += (unsigned)__builtin_popcountll(bits);
        for (; bits != 0; bits &= bits - 1) state[i + (unsigned)__builtin_ctzll(bits)] |= STATE_OLD;
    }
    return young;
}

static bool make_old_large(uint32_t page, size_t bytes, void *user)
{
    struct white_young *y = user;
    struct large_record *r = large_record_of(page);
    uint32_t state = atomic_load(&r->state);
    if ((state & LARGE_STATE_MASK) != LARGE_LIVE || (state & LARGE_OLD)) return true;
    if (!atomic_compare_exchange_strong(&r->state, &state, state | LARGE_OLD)) return true;
    y->blocks++;
    y->bytes += bytes;
    return true;
}

void white_make_old(struct white_young *y, const struct white *w)
{
    *y = (struct white_young){0};
    for (unsigned medium = 0; medium < 2; medium++) {
        uint32_t first, count;
        pool_range(medium, &first, &count);
        for (uint32_t i = 0; i < count; i++) {
            struct pool *p = pool_of_id(first + i);
            if (p->class == 0 || (w && !w->area[medium].had[i])) continue;
            uint64_t young = make_old_pool(state_of((void *)pool_base(p), medium),
                                           pool_bytes(p) >> (medium ? MEDIUM_GRANULE_SHIFT : SMALL_GRANULE_SHIFT));
            y->blocks += young;
            y->bytes += young * class_size[p->class];
        }
    }
    large_table_each(make_old_large, y);
}

bool heap_is_old(const void *block)
{
    if (!heap_owns(block)) return false;
    if ((uintptr_t)block - pool_tables.small_base < WINDOW_SMALL_BYTES) return *state_of(block, false) & STATE_OLD;
    if ((uintptr_t)block - pool_tables.medium_base < WINDOW_MEDIUM_BYTES) return *state_of(block, true) & STATE_OLD;
    return large_is_old(block);
}
