/* free.c: the slow paths of free, what lies at an address, and misuse.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/every.h"
#include "heap/fast.h"
#include "heap/heap.h"
#include "heap/large.h"
#include "heap/lost.h"
#include "heap/reclaim.h"
#include "heap/reclaimed.h"
#include "heap/tag.h"

static struct heap_thread_hook *hook_of_thread(void)
{
    return heap_tls.heap ? &heap_tls.heap->hook : NULL;
}

/* As at the end of an allocation. */
static void end_of_call(void)
{
    struct thread_heap *h = heap_tls.heap;
    if (h && unlikely(h->hook.pending != 0) && heap_hooks->callbacks) heap_hooks->callbacks(&h->hook);
}

static bool in_area(const void *block, bool medium)
{
    return medium ? (((uintptr_t)block - pool_tables.medium_base) >> MEDIUM_GRANULE_SHIFT) <
                        pool_tables.medium_granules
                  : (((uintptr_t)block - pool_tables.small_base) >> SMALL_GRANULE_SHIFT) <
                        pool_tables.small_granules;
}

static bool in_large(const void *block)
{
    return window_base != 0 && (uintptr_t)block - (window_base + WINDOW_LARGE_OFFSET) < WINDOW_LARGE_BYTES;
}

/* ---- looking up ---- */

/* The slot around an address of a pool area: its pool and number, or false. */
static bool find_slot(const void *address, bool medium, struct pool **pool, unsigned *slot)
{
    if (!in_area(address, medium)) return false;
    struct pool *p = pool_of(address, medium);
    if (p->class == 0) return false;
    *pool = p;
    *slot = slot_of(p, address);
    return *slot < p->slots;
}

bool heap_find(const void *address, void **block, size_t *size, uint32_t *entry)
{
    struct pool *p;
    unsigned slot;
    for (unsigned medium = 0; medium < 2; medium++) {
        if (!find_slot(address, medium, &p, &slot)) continue;
        void *start = slot_address(p, slot);
        int8_t state = *state_of(start, medium);
        if (!state_is_live(state)) return false;
        *block = start;
        *size = class_size[p->class];
        *entry = state < 0 ? tag_entry(pool_tag(p, slot)) : 0;
        return true;
    }
    if (!in_large(address) || !large_find(address, block, size)) return false;
    *entry = tag_entry(large_entry(*block));
    return true;
}

size_t heap_usable_size(const void *block)
{
    if (!block) return 0;
    for (unsigned medium = 0; medium < 2; medium++)
        if (in_area(block, medium)) {
            uintptr_t mask = (1u << (medium ? MEDIUM_GRANULE_SHIFT : SMALL_GRANULE_SHIFT)) - 1;
            return ((uintptr_t)block & mask) == 0 ? class_size[*state_of(block, medium) & STATE_CLASS] : 0;
        }
    if (in_large(block)) return large_size(block);
    if (!window_holds(block) && heap_hooks->foreign_size) return heap_hooks->foreign_size(block);
    return 0;
}

bool heap_owns(const void *block) { return window_holds(block) && heap_usable_size(block) != 0; }

/* ---- misuse ---- */

static COLD void misuse(void *address)
{
    struct pool *p;
    unsigned slot;
    uint32_t place;
    if (unlikely(reclaimed_take(address, &place))) { /* it was lost by all that we know, and was not */
        reclaim_proved_late(place, PROOF_FREED);
        return;
    }
    if (!heap_hooks->misuse) return;
    for (unsigned medium = 0; medium < 2; medium++) {
        if (!find_slot(address, medium, &p, &slot)) continue;
        void *start = slot_address(p, slot);
        int8_t state = *state_of(start, medium);
        enum heap_misuse kind = start == address && !state_is_live(state) ? HEAP_DOUBLE_FREE : HEAP_INVALID_FREE;
        heap_hooks->misuse(kind, address, start, class_size[p->class], state_is_live(state) && state < 0 ? tag_entry(pool_tag(p, slot)) : 0);
        return;
    }
    void *block;
    size_t size;
    if (in_large(address) && large_find(address, &block, &size)) {
        heap_hooks->misuse(HEAP_INVALID_FREE, address, block, size, tag_entry(large_entry(block)));
        return;
    }
    bool page = ((uintptr_t)address & (OS_PAGE - 1)) == 0;
    heap_hooks->misuse(in_large(address) && page ? HEAP_DOUBLE_FREE : HEAP_INVALID_FREE, address, NULL, 0, 0);
}

/* ---- free ---- */

/* The block was checked and its state byte says free: into the bin, or back to its pool. */
static void put_away(void *block, unsigned class)
{
    struct thread_heap *h = heap_tls.heap;
    if (unlikely(!h)) {
        h = heap_tls.ending ? NULL : thread_heap_get();
        if (!h) {
            slot_return(block, class);
            return;
        }
    }
    struct bin *b = h->bin[class];
    if (unlikely(b->class == 0)) bin_open(b, class);
    bool full = b->n >= b->cap;
    while (b->n >= b->cap) bin_overflow(h, b);
    b->slot[b->n++] = block;
    /* Last, when the heap is whole again: a tick may collect, or run code that frees. */
    if (full && unlikely((++h->ticks & 63) == 0)) thread_heap_tick(h);
}

void heap_free_full(void *block, struct bin *bin)
{
    /* A thread without a heap has a bin of no class, and so has, in every thread, a pool that is not in use: its class is 0, as the
       state of what does not live. */
    unsigned class = bin->class ? bin->class : pool_of(block, false)->class;
    if (unlikely(class == 0)) misuse(block);
    else put_away(block, class);
}

void heap_free_tracked(void *block, bool medium)
{
    int8_t *state = state_of(block, medium);
    if (!state_is_live(*state)) {
        misuse(block);
        return;
    }
    unsigned class = *state & STATE_CLASS;
    if (likely(!(*state & STATE_TRACKED))) {
        *state = 0;
        put_away(block, class);
        return;
    }
    struct pool *p = pool_of(block, medium);
    uint32_t tag = pool_take_tag(p, slot_in_pool(block, class, medium)), entry = tag_entry(tag);
    if (unlikely(tag & TAG_LOST) && !lost_proved(block, tag, PROOF_FREED)) return;
    bool old = *state & STATE_OLD;
    *state = 0;
    if (entry && heap_hooks->freed) {
        heap_tls.slot_in_hand = true;
        heap_hooks->freed(hook_of_thread(), block, entry, old);
        heap_tls.slot_in_hand = false;
    }
    put_away(block, class);
    end_of_call();
}

static NOINLINE void free_large(void *block)
{
    heap_notice_fork();
    uint32_t tag;
    bool old;
    size_t size = large_free(block, &tag, &old);
    if (unlikely(size == 0)) {
        misuse(block);
        return;
    }
    heap_account(-(int64_t)size);
    uint32_t entry = tag_entry(tag);
    if (unlikely(tag & TAG_LOST)) lost_proved(block, tag, PROOF_FREED);
    if (entry && heap_hooks->freed) heap_hooks->freed(hook_of_thread(), block, entry, old);
    struct thread_heap *h = heap_tls.heap;
    if (h && unlikely((++h->ticks & 63) == 0)) thread_heap_tick(h);
    end_of_call();
}

void heap_free_other(void *block)
{
    if (!block) return;
    uintptr_t granule = rotate_right((uintptr_t)block - pool_tables.medium_base, MEDIUM_GRANULE_SHIFT);
    if (likely(granule < pool_tables.medium_granules)) {
        int8_t *state = pool_tables.medium_state + granule;
        intptr_t class = *state;
        if (unlikely(class <= 0)) {
            heap_free_every_medium(block);
            return;
        }
        *state = 0;
        struct bin *b = heap_tls.by_class[class];
        uint32_t n = b->n;
        if (unlikely(n >= b->cap)) {
            put_away(block, (unsigned)class & STATE_CLASS);
            return;
        }
        b->slot[n] = block;
        b->n = n + 1;
        return;
    }
    if (in_large(block)) free_large(block);
    else if (window_holds(block)) misuse(block);
    else if (heap_hooks->foreign_free) heap_hooks->foreign_free(block);
    else misuse(block);
}

void heap_free(void *block) { heap_free_fast(block); }
