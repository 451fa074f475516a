/* tracked_entry.h: what tracked.c and its inline parts share.  See tracked.c.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_TRACKED_ENTRY_H
#define GLEANER_TRACKED_ENTRY_H

#include "sampler/tracked.h"

#define TRACKED_CHUNK_SHIFT 14
#define TRACKED_CHUNK ((uint32_t)1 << TRACKED_CHUNK_SHIFT)

struct tracked_entry {
    _Atomic uint64_t what;         /* see 1 */
    _Atomic uint64_t asked_thread; /* asked << 16 | thread */
    _Atomic uint32_t site;         /* free: the next batch */
    _Atomic uint32_t n_samples;
    _Atomic uint32_t time;
    _Atomic uint32_t next; /* free: the next entry of the batch; live: unused */
};

extern _Atomic(struct tracked_entry *) tracked_chunks[TRACKED_MAX >> TRACKED_CHUNK_SHIFT];
extern _Atomic uint32_t tracked_generation;

static ALWAYS_INLINE struct tracked_entry *tracked_entry_at(uint32_t number)
{
    if (unlikely(number >= TRACKED_MAX)) return NULL;
    struct tracked_entry *chunk =
        atomic_load_explicit(&tracked_chunks[number >> TRACKED_CHUNK_SHIFT], memory_order_acquire);
    return likely(chunk) ? &chunk[number & (TRACKED_CHUNK - 1)] : NULL;
}

static ALWAYS_INLINE void tracked_store(struct tracked_entry *e, const struct tracked_view *v)
{
    atomic_store_explicit(&e->asked_thread, (uint64_t)v->asked << 16 | v->thread,
                          memory_order_relaxed);
    atomic_store_explicit(&e->site, v->site, memory_order_relaxed);
    atomic_store_explicit(&e->n_samples, v->n_samples, memory_order_relaxed);
    atomic_store_explicit(&e->time, v->time, memory_order_relaxed);
    atomic_store_explicit(&e->what, (uint64_t)(uintptr_t)v->block << 16 | v->flags,
                          memory_order_release);
}

/* As tracked_add, inline where the cache has an entry. */
static ALWAYS_INLINE uint32_t tracked_add_quick(struct tracked_cache *cache,
                                                const struct tracked_view *v)
{
    uint32_t now = atomic_load_explicit(&tracked_generation, memory_order_relaxed);
    if (unlikely(cache->generation != now || cache->count == 0)) return tracked_add(cache, v);
    uint32_t number = cache->entry[--cache->count];
    tracked_store(tracked_entry_at(number), v);
    return number;
}

/* As tracked_remove, inline where the cache has room; tells the site and the sample points. */
static ALWAYS_INLINE bool tracked_remove_quick(struct tracked_cache *cache, uint32_t number,
                                               const void *block, uint32_t *site,
                                               uint32_t *n_samples)
{
    uint32_t now = atomic_load_explicit(&tracked_generation, memory_order_relaxed);
    if (unlikely(!cache || cache->generation != now || cache->count == TRACKED_CACHE)) {
        struct tracked_view was;
        if (!tracked_remove(cache, number, block, &was)) return false;
        *site = was.site;
        *n_samples = was.n_samples;
        return true;
    }
    struct tracked_entry *e = tracked_entry_at(number);
    if (unlikely(!e || !block)) return false;
    uint64_t what = atomic_load_explicit(&e->what, memory_order_relaxed);
    if (unlikely(what >> 16 != (uintptr_t)block)) return false;
    *site = atomic_load_explicit(&e->site, memory_order_relaxed);
    *n_samples = atomic_load_explicit(&e->n_samples, memory_order_relaxed);
    atomic_store_explicit(&e->what, now, memory_order_release);
    cache->entry[cache->count++] = number;
    return true;
}

#endif
