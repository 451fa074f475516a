/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/arenas.h"
#include "heap/idstack.h"
#include "heap/meta.h"

#define ORDERS 29 /* 2^28 pages are ARENA_MOST */
#define ARENAS_A_BLOCK 1024u
#define BLOCKS 4096u

static _Atomic(struct arena *) blocks[BLOCKS]; /* of ARENAS_A_BLOCK each */
static _Atomic uint32_t count;
static idstack ended[ORDERS];

struct arena *arena_by_number(uint32_t number)
{
    if (number >= atomic_load_explicit(&count, memory_order_acquire) || number >= BLOCKS * ARENAS_A_BLOCK) return NULL;
    struct arena *b = atomic_load_explicit(&blocks[number / ARENAS_A_BLOCK], memory_order_acquire);
    return b ? b + number % ARENAS_A_BLOCK : NULL;
}

static struct arena *at(uint32_t number)
{
    struct arena *a = arena_by_number(number);
    if (!a) __builtin_unreachable(); /* it was made */
    return a;
}

#define LINK(id) (at(id)->link)
IDSTACK_FUNCTIONS(arenas, LINK)

static struct arena *make(unsigned order)
{
    struct arena_page *pages = meta_alloc(sizeof *pages << order);
    uint32_t number = pages ? atomic_fetch_add(&count, 1) : UINT32_MAX;
    if (number >= BLOCKS * ARENAS_A_BLOCK) return NULL;
    _Atomic(struct arena *) *block = &blocks[number / ARENAS_A_BLOCK];
    if (!atomic_load(block)) {
        struct arena *none = NULL, *made = meta_alloc(ARENAS_A_BLOCK * sizeof *made);
        if (!made) return NULL;
        atomic_compare_exchange_strong(block, &none, made);
    }
    struct arena *a = at(number);
    a->number = number;
    a->order = order;
    a->pages = pages;
    return a;
}

struct arena *arena_begin(void *memory, size_t bytes, int flags)
{
    if (bytes == 0 || bytes > ARENA_MOST || ((uintptr_t)memory & (ARENA_UNIT - 1))) return NULL;
    unsigned order = 0;
    while (ARENA_PAGE << order < bytes) order++;
    uint32_t number = arenas_pop(&ended[order]);
    struct arena *a = number == ID_NONE ? make(order) : at(number);
    if (!a) return NULL;
    a->base = (uintptr_t)memory;
    a->flags = flags;
    atomic_store(&a->bytes, bytes);
    return a;
}

void arena_end(struct arena *a)
{
    size_t pages = arena_pages(a);
    atomic_store(&a->bytes, 0);
    for (size_t i = 0; i < pages; i++)
        for (unsigned w = 0; w < ARENA_WORDS; w++) {
            struct arena_page *p = &a->pages[i];
            if (atomic_load_explicit(&p->last[w], memory_order_relaxed)) atomic_store(&p->last[w], 0);
            if (!atomic_load_explicit(&p->start[w], memory_order_relaxed)) continue;
            atomic_store(&p->start[w], 0);
            atomic_store(&p->old[w], 0);
            atomic_store(&p->lost[w], 0);
        }
    arenas_push(&ended[a->order], a->number);
}

bool arena_unit(const struct arena *a, const void *block, size_t *unit)
{
    size_t in = (uintptr_t)block - a->base;
    *unit = in / ARENA_UNIT;
    return in < atomic_load_explicit(&a->bytes, memory_order_relaxed) && in % ARENA_UNIT == 0;
}

static bool set(_Atomic uint64_t *bits, size_t unit)
{
    uint64_t bit = (uint64_t)1 << unit % 64;
    return !(atomic_fetch_or(&bits[unit % ARENA_PAGE_UNITS / 64], bit) & bit);
}

static bool clear(_Atomic uint64_t *bits, size_t unit)
{
    uint64_t bit = (uint64_t)1 << unit % 64;
    return atomic_fetch_and(&bits[unit % ARENA_PAGE_UNITS / 64], ~bit) & bit;
}

bool arena_announce(struct arena *a, size_t unit, size_t bytes)
{
    if (bytes == 0 || bytes > atomic_load_explicit(&a->bytes, memory_order_relaxed) - unit * ARENA_UNIT) return false;
    size_t last = unit + (bytes - 1) / ARENA_UNIT;
    if (arena_bit(arena_page(a, unit)->start, unit)) return false;
    set(arena_page(a, last)->last, last); /* first: a block that starts has an end */
    return set(arena_page(a, unit)->start, unit);
}

size_t arena_last(const struct arena *a, size_t unit)
{
    size_t end = (size_t)ARENA_PAGE_UNITS << a->order;
    while (unit < end) {
        _Atomic uint64_t *word = &arena_page(a, unit)->last[unit % ARENA_PAGE_UNITS / 64];
        uint64_t bits = atomic_load_explicit(word, memory_order_relaxed) >> unit % 64;
        if (bits) return unit + (unsigned)__builtin_ctzll(bits);
        unit = (unit / 64 + 1) * 64;
    }
    return end - 1;
}

bool arena_forget(struct arena *a, size_t unit)
{
    struct arena_page *p = arena_page(a, unit);
    if (!arena_bit(p->start, unit)) return false;
    size_t last = arena_last(a, unit); /* before another can start in it */
    if (arena_bit(p->old, unit)) {
        clear(p->old, unit);
        clear(p->lost, unit);
    }
    if (!clear(p->start, unit)) return false;
    clear(arena_page(a, last)->last, last);
    return true;
}

void arenas_make_old(void)
{
    struct arena *a;
    for (uint32_t n = 0; (a = arena_by_number(n)); n++)
        for (size_t i = 0, pages = arena_pages(a); i < pages; i++)
            for (unsigned w = 0; w < ARENA_WORDS; w++) {
                struct arena_page *p = &a->pages[i];
                uint64_t starts = atomic_load_explicit(&p->start[w], memory_order_relaxed);
                if (starts != atomic_load_explicit(&p->old[w], memory_order_relaxed)) atomic_store(&p->old[w], starts);
            }
}
