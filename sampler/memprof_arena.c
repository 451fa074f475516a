/* memprof_arena.c: pools of the program's own.

   1. Data.  For each page of an arena (4 KiB of it; the arena need not begin at one) there are two bits for every 8 bytes, where announced blocks start
      and where they end, and, once a block in it is sampled, the numbers of entries by block.  That is 3 % of the arena, and half
      of it where every block is sampled.  The tables lie in the metadata area, which gives nothing back, so an ended arena keeps them, and serves the next
      of its size.
   2. Synchronisation.  Bits and numbers change atomically: threads may be at work on different blocks.  Ended arenas lie on Treiber stacks
      (idstack.h), one for each power of two of pages.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/heap.h"
#include "heap/idstack.h"
#include "heap/meta.h"
#include "sampler/memprof_profile.h"

#include <errno.h>

#define UNIT 8u
#define PAGE_UNITS 512u /* of 8 bytes */
#define MOST ((size_t)1 << 40)
#define ORDERS 29 /* 2^28 pages are 2^40 bytes */

struct page {
    _Atomic uint64_t start[PAGE_UNITS / 64], last[PAGE_UNITS / 64];
    _Atomic(_Atomic uint32_t *) entries; /* by unit; NULL: none was sampled yet */
};

struct gleaner_arena {
    uintptr_t base;
    size_t bytes;
    int flags;
    uint32_t number; /* for the stacks */
    unsigned order;  /* 2^order pages */
    _Atomic uint32_t link;
    struct page *pages;
};

#define ARENAS_A_BLOCK 1024u
#define BLOCKS 4096u
static _Atomic(struct gleaner_arena *) blocks[BLOCKS]; /* of ARENAS_A_BLOCK each */
static _Atomic uint32_t arenas;
static idstack ended[ORDERS];

static struct gleaner_arena *arena_at(uint32_t number)
{
    struct gleaner_arena *b = atomic_load(&blocks[number / ARENAS_A_BLOCK]);
    if (!b) __builtin_unreachable(); /* it was made */
    return b + number % ARENAS_A_BLOCK;
}

#define LINK(id) (arena_at(id)->link)
IDSTACK_FUNCTIONS(arenas, LINK)

static struct gleaner_arena *make(unsigned order)
{
    struct page *pages = meta_alloc(sizeof *pages << order);
    uint32_t number = pages ? atomic_fetch_add(&arenas, 1) : UINT32_MAX;
    if (number >= BLOCKS * ARENAS_A_BLOCK) return NULL;
    _Atomic(struct gleaner_arena *) *at = &blocks[number / ARENAS_A_BLOCK];
    if (!atomic_load(at)) {
        struct gleaner_arena *none = NULL, *made = meta_alloc(ARENAS_A_BLOCK * sizeof *made);
        if (!made) return NULL;
        atomic_compare_exchange_strong(at, &none, made);
    }
    struct gleaner_arena *a = arena_at(number);
    a->number = number;
    a->order = order;
    a->pages = pages;
    return a;
}

struct gleaner_arena *memprof_arena_begin(void *memory, size_t bytes, int flags)
{
    if (bytes == 0 || bytes > MOST || ((uintptr_t)memory & (UNIT - 1))) return NULL;
    memprof_install(false);
    size_t pages = (bytes + PAGE_UNITS * UNIT - 1) / (PAGE_UNITS * UNIT);
    unsigned order = 0;
    while ((size_t)1 << order < pages) order++;
    uint32_t number = arenas_pop(&ended[order]);
    struct gleaner_arena *a = number == ID_NONE ? make(order) : arena_at(number);
    if (!a) return NULL;
    a->base = (uintptr_t)memory;
    a->bytes = bytes;
    a->flags = flags;
    return a;
}

/* ---- units ---- */

static struct page *page_of(const struct gleaner_arena *a, size_t unit) { return &a->pages[unit / PAGE_UNITS]; }

static bool set(_Atomic uint64_t *bits, size_t unit)
{
    uint64_t bit = (uint64_t)1 << unit % 64;
    return !(atomic_fetch_or(&bits[unit % PAGE_UNITS / 64], bit) & bit);
}

static bool clear(_Atomic uint64_t *bits, size_t unit)
{
    uint64_t bit = (uint64_t)1 << unit % 64;
    return atomic_fetch_and(&bits[unit % PAGE_UNITS / 64], ~bit) & bit;
}

/* The block that starts at a unit ends in this one. */
static size_t last_of(const struct gleaner_arena *a, size_t unit)
{
    size_t end = (size_t)PAGE_UNITS << a->order;
    while (unit < end) {
        uint64_t bits = atomic_load(&page_of(a, unit)->last[unit % PAGE_UNITS / 64]) >> unit % 64;
        if (bits) return unit + (unsigned)__builtin_ctzll(bits);
        unit = (unit / 64 + 1) * 64;
    }
    return end - 1;
}

static bool unit_of(const struct gleaner_arena *a, const void *block, size_t *unit)
{
    size_t at = (uintptr_t)block - a->base;
    *unit = at / UNIT;
    return at < a->bytes && at % UNIT == 0;
}

static _Atomic uint32_t *entries_of(struct page *p, bool make_them)
{
    _Atomic uint32_t *there = atomic_load(&p->entries), *made;
    if (there || !make_them) return there;
    if (!(made = meta_alloc(PAGE_UNITS * sizeof *made))) return NULL;
    return atomic_compare_exchange_strong(&p->entries, &there, made) ? made : there;
}

/* ---- sampling ---- */

/* `stack`: the one that was taken for an earlier block of the same call, or 0. */
static int sample(struct gleaner_arena *a, struct heap_thread_hook *hook, size_t unit, void *block, size_t bytes,
                  enum gleaner_source source, uint32_t *stack)
{
    struct memprof_profile *p;
    struct memprof_thread *t = hook ? hook->memprof : NULL;
    size_t given = (bytes + UNIT - 1) / UNIT * UNIT;
    unsigned n = memprof_points(t, given / UNIT, &p);
    if (n == 0 || heap_sampling_is_suspended()) return 0;
    _Atomic uint32_t *entries = entries_of(page_of(a, unit), true);
    if (!entries) return ENOMEM;
    if (*stack == 0) *stack = memprof_stack(t);
    const struct memprof_new of = {.block = block, .asked = bytes, .given = given, .n_samples = n, .stack = *stack,
                                   .source = source, .kind = MEMPROF_PIECE, .old = a->flags & GLEANER_ARENA_OLD};
    uint32_t number = memprof_make(t, p, &of);
    if (number == 0) return ENOMEM;
    atomic_store(&entries[unit % PAGE_UNITS], number);
    memprof_publish(hook, number);
    return 0;
}

static int announce(struct gleaner_arena *a, struct heap_thread_hook *hook, void *block, size_t bytes, enum gleaner_source source,
                    uint32_t *stack)
{
    size_t unit;
    if (bytes == 0 || !unit_of(a, block, &unit) || bytes > a->bytes - unit * UNIT) return EINVAL;
    if (!set(page_of(a, unit)->start, unit)) return EINVAL;
    size_t last = unit + (bytes - 1) / UNIT;
    set(page_of(a, last)->last, last);
    return sample(a, hook, unit, block, bytes, source, stack);
}

int memprof_arena_alloc(struct gleaner_arena *a, void *block, size_t bytes)
{
    struct heap_thread_hook *hook = heap_own_hook();
    uint32_t stack = 0;
    int error = announce(a, hook, block, bytes, GLEANER_ARENA, &stack);
    if (hook && hook->pending) memprof_callbacks(hook);
    return error;
}

int memprof_arena_bulk(struct gleaner_arena *a, const struct gleaner_piece *pieces, size_t count)
{
    struct heap_thread_hook *hook = heap_own_hook();
    uint32_t stack = 0;
    int error = 0;
    for (size_t i = 0; i < count; i++) {
        int e = announce(a, hook, pieces[i].block, pieces[i].bytes, GLEANER_BULK, &stack);
        if (e && !error) error = e;
    }
    if (hook && hook->pending) memprof_callbacks(hook);
    return error;
}

/* ---- ends ---- */

static void end_entry(struct heap_thread_hook *hook, struct page *p, size_t unit)
{
    _Atomic uint32_t *entries = entries_of(p, false);
    uint32_t number = entries ? atomic_exchange(&entries[unit % PAGE_UNITS], 0) : 0;
    if (number) memprof_died(hook, number, MEMPROF_FREED);
}

int memprof_arena_free(struct gleaner_arena *a, void *block)
{
    size_t unit;
    if (!unit_of(a, block, &unit)) return EINVAL;
    struct page *p = page_of(a, unit);
    size_t last = last_of(a, unit); /* before another can start in it */
    if (!clear(p->start, unit)) return EINVAL;
    clear(page_of(a, last)->last, last);
    struct heap_thread_hook *hook = heap_own_hook();
    end_entry(hook, p, unit);
    if (hook && hook->pending) memprof_callbacks(hook);
    return 0;
}

void memprof_arena_reset(struct gleaner_arena *a)
{
    struct heap_thread_hook *hook = heap_own_hook();
    size_t pages = (a->bytes + PAGE_UNITS * UNIT - 1) / (PAGE_UNITS * UNIT);
    for (size_t i = 0; i < pages; i++) {
        struct page *p = &a->pages[i];
        for (unsigned w = 0; w < PAGE_UNITS / 64; w++) {
            uint64_t starts = atomic_load_explicit(&p->start[w], memory_order_relaxed);
            if (starts) atomic_store(&p->start[w], 0);
            if (atomic_load_explicit(&p->last[w], memory_order_relaxed)) atomic_store(&p->last[w], 0);
            for (; starts && entries_of(p, false); starts &= starts - 1) end_entry(hook, p, w * 64 + (unsigned)__builtin_ctzll(starts));
        }
    }
    if (hook && hook->pending) memprof_callbacks(hook);
}

void memprof_arena_end(struct gleaner_arena *a)
{
    memprof_arena_reset(a);
    a->base = a->bytes = 0;
    arenas_push(&ended[a->order], a->number);
}
