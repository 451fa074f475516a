/* retag.c: the tag beside a live block (tag.h), for the layers above that want to hear of its end after it was allocated.

   A tag is meant only where the state byte says STATE_TRACKED (or callers are kept), so it is written first and the state byte
   after it, both by compare-and-swap: other threads may do the same, and the collector sets bits of both.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/heap.h"
#include "heap/large_table.h"
#include "heap/tag.h"
#include "heap/thread_heap.h"

#define NUMBER (TAG_CALLER | TAG_NUMBER)

struct place {
    int8_t *state; /* of a slot */
    struct large_record *large;
    struct pool *pool;
    unsigned slot;
};

static bool find(const void *block, struct place *p)
{
    if (!heap_owns(block)) return false;
    *p = (struct place){0};
    bool small = (uintptr_t)block - pool_tables.small_base < WINDOW_SMALL_BYTES;
    bool medium = (uintptr_t)block - pool_tables.medium_base < WINDOW_MEDIUM_BYTES;
    if (!small && !medium) return (p->large = large_record_at(block)) != NULL;
    p->state = state_of(block, medium);
    p->pool = pool_of(block, medium);
    p->slot = slot_of(p->pool, block);
    return true;
}

static _Atomic uint32_t *tag_word(const struct place *p)
{
    if (p->large) return &p->large->entry;
    _Atomic uint32_t *tags = atomic_load_explicit(&p->pool->entries, memory_order_acquire);
    return tags ? &tags[p->slot] : NULL;
}

/* What of a tag is meant. */
static uint32_t meant(const struct place *p, uint32_t tag)
{
    if (p->large || __atomic_load_n(p->state, __ATOMIC_ACQUIRE) < 0) return tag;
    return heap_options.watch && (tag & TAG_CALLER) ? tag & NUMBER : 0;
}

bool heap_tag(const void *block, uint32_t *tag)
{
    struct place p;
    if (!find(block, &p)) return false;
    _Atomic uint32_t *word = tag_word(&p);
    *tag = word ? meant(&p, atomic_load(word)) : 0;
    return true;
}

static bool make_tracked(int8_t *state)
{
    int8_t was = __atomic_load_n(state, __ATOMIC_ACQUIRE);
    do
        if (!state_is_live(was)) return false;
    while (!__atomic_compare_exchange_n(state, &was, (int8_t)(was | STATE_TRACKED), false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    return true;
}

bool heap_retag(const void *block, uint32_t from, uint32_t to)
{
    struct place p;
    if (!find(block, &p)) return false;
    _Atomic uint32_t *word = tag_word(&p);
    if (!word) {
        if (!pool_make_entries(p.pool)) return false;
        word = tag_word(&p);
    }
    uint32_t is = atomic_load(word), now;
    do {
        uint32_t old = meant(&p, is);
        if ((old & NUMBER) != from) return false;
        now = (old & ~NUMBER) | to;
    } while (!atomic_compare_exchange_weak(word, &is, now));
    return p.large || make_tracked(p.state);
}
