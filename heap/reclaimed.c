/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/reclaimed.h"
#include "heap/large_table.h"
#include "heap/meta.h"
#include "heap/thread_heap.h"

#define FIRST_PLACES 1024u
#define GONE UINT32_MAX /* page of an entry that was taken out */

struct table {
    uint32_t mask, used;           /* entries ever; the writer's */
    _Atomic uint64_t of[];         /* page + 1 << 32 | place; 0: free */
};

atomic_bool reclaimed_any;
static _Atomic(struct table *) large;

/* ---- large blocks ---- */

static uint32_t hash_of(uint32_t page) { return (uint32_t)((page + 1) * 0x9e3779b97f4a7c15u >> 32); }

static void put(struct table *t, uint64_t entry)
{
    uint32_t i = hash_of((uint32_t)(entry >> 32) - 1) & t->mask;
    while (atomic_load(&t->of[i]) != 0) i = (i + 1) & t->mask;
    atomic_store(&t->of[i], entry);
    t->used++;
}

static bool room_for_one(void)
{
    struct table *t = atomic_load(&large);
    if (t && t->used < (t->mask + 1) / 2) return true;
    uint32_t live = 0, places = FIRST_PLACES;
    for (uint32_t i = 0; t && i <= t->mask; i++) live += atomic_load(&t->of[i]) != 0 && atomic_load(&t->of[i]) >> 32 != GONE;
    while (places < 4 * (live + 1)) places *= 2;
    struct table *new = meta_alloc(sizeof *new + places * sizeof new->of[0]);
    if (!new) return false;
    new->mask = places - 1;
    for (uint32_t i = 0; t && i <= t->mask; i++) {
        uint64_t entry = atomic_load(&t->of[i]);
        if (entry != 0 && entry >> 32 != GONE) put(new, entry);
    }
    atomic_store(&large, new); /* what is taken out of the old one meanwhile comes back: a later double free may be misnamed */
    return true;
}

static bool take_large(uint32_t page, uint32_t *place)
{
    struct table *t = atomic_load_explicit(&large, memory_order_acquire);
    if (!t) return false;
    for (uint32_t i = hash_of(page) & t->mask;; i = (i + 1) & t->mask) {
        uint64_t entry = atomic_load(&t->of[i]);
        if (entry == 0) return false;
        if (entry >> 32 != page + 1) continue;
        *place = (uint32_t)entry;
        return atomic_compare_exchange_strong(&t->of[i], &entry, (uint64_t)GONE << 32);
    }
}

bool reclaimed_note_large(const void *block, uint32_t place)
{
    uint32_t before;
    take_large(large_page_of(block), &before);
    if (!room_for_one()) return false;
    atomic_store(&reclaimed_any, true);
    put(atomic_load(&large), (uint64_t)(large_page_of(block) + 1) << 32 | place);
    return true;
}

void reclaimed_forget_large(const void *block)
{
    uint32_t place;
    if (unlikely(atomic_load_explicit(&large, memory_order_relaxed) != NULL)) take_large(large_page_of(block), &place);
}

/* ---- slots ---- */

/* The tag of the slot that starts at an address, if the pool has reclaimed ones; its class, also where the pool has gone back since. */
static _Atomic uint32_t *tag_at(const void *address, unsigned *class)
{
    for (unsigned medium = 0; medium < 2; medium++) {
        uintptr_t base = medium ? pool_tables.medium_base : pool_tables.small_base;
        size_t granules = medium ? pool_tables.medium_granules : pool_tables.small_granules;
        if (((uintptr_t)address - base) >> (medium ? MEDIUM_GRANULE_SHIFT : SMALL_GRANULE_SHIFT) >= granules) continue;
        struct pool *p = pool_of(address, medium);
        _Atomic uint32_t *tags = atomic_load(&p->entries);
        if (!atomic_load(&p->reclaimed) || !tags) return NULL;
        *class = p->class ? p->class : p->former;
        unsigned slot = *class ? slot_of_offset(*class, (uintptr_t)address - pool_base(p)) : 0;
        bool start = *class && slot < p->slots && pool_base(p) + (size_t)slot * class_size[*class] == (uintptr_t)address;
        return start && !state_is_live(*state_of(address, medium)) ? &tags[slot] : NULL;
    }
    return NULL;
}

bool reclaimed_take(const void *address, uint32_t *place)
{
    unsigned class;
    if (!atomic_load_explicit(&reclaimed_any, memory_order_relaxed)) return false;
    if ((uintptr_t)address - window_base - WINDOW_LARGE_OFFSET < WINDOW_LARGE_BYTES)
        return (uintptr_t)address % OS_PAGE == 0 && take_large(large_page_of(address), place);
    _Atomic uint32_t *tag = tag_at(address, &class);
    uint32_t is = tag ? atomic_load(tag) : 0;
    if (!tag_is_reclaimed(is) || !atomic_compare_exchange_strong(tag, &is, 0)) return false;
    *place = is & TAG_NUMBER;
    return true;
}

size_t reclaimed_size(const void *address)
{
    unsigned class;
    if (!atomic_load_explicit(&reclaimed_any, memory_order_relaxed)) return 0;
    _Atomic uint32_t *tag = tag_at(address, &class);
    return tag && tag_is_reclaimed(atomic_load(tag)) ? class_size[class] : 0;
}

void reclaimed_reuse(void *block, unsigned class)
{
    bool medium = class_is_medium(class);
    struct pool *p = pool_of(block, medium);
    if (likely(!atomic_load_explicit(&p->reclaimed, memory_order_relaxed))) return;
    unsigned slot = slot_in_pool(block, class, medium);
    if (!tag_is_reclaimed(pool_tag(p, slot))) return;
    heap_tls.slot_in_hand = true; /* memset is libc's */
    __builtin_memset(block, 0, class_size[class]);
    pool_set_tag(p, slot, 0);
    heap_tls.slot_in_hand = false;
}

void reclaimed_forget_pool(struct pool *p)
{
    _Atomic uint32_t *tags = atomic_load(&p->entries);
    for (unsigned i = 0; tags && i < 1u << p->entries_order; i++) atomic_store_explicit(&tags[i], 0, memory_order_relaxed);
    atomic_store(&p->reclaimed, false);
}
