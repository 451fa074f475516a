/* tracked_entry.h: what tracked.c and its inline parts share.  See tracked.c.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_TRACKED_ENTRY_H
#define GLEANER_TRACKED_ENTRY_H

#include "sampler/tracked.h"

#define TRACKED_CHUNK_SHIFT 14
#define TRACKED_CHUNK ((uint32_t)1 << TRACKED_CHUNK_SHIFT)

struct tracked_entry {
    _Atomic uint64_t what;         /* see 1 */
    _Atomic uint64_t asked_thread; /* asked << 24 | upper 8 bits of the clock << 16 | thread */
    _Atomic uint32_t site;         /* free: the next batch */
    _Atomic uint32_t n_samples;
    _Atomic uint32_t time;
    _Atomic uint32_t next; /* live: the lower 32 bits of the clock; free: see 2 */
};

HIDDEN extern _Atomic(struct tracked_entry *) tracked_chunks[TRACKED_MAX >> TRACKED_CHUNK_SHIFT];
HIDDEN extern _Atomic uint32_t tracked_generation;

static ALWAYS_INLINE struct tracked_entry *tracked_entry_at(uint32_t number)
{
    if (unlikely(number >= TRACKED_MAX)) return NULL;
    struct tracked_entry *chunk =
        atomic_load_explicit(&tracked_chunks[number >> TRACKED_CHUNK_SHIFT], memory_order_acquire);
    return likely(chunk) ? &chunk[number & (TRACKED_CHUNK - 1)] : NULL;
}

/* Of the number of an entry that was made. */
static ALWAYS_INLINE struct tracked_entry *tracked_made(uint32_t number)
{
    return atomic_load_explicit(&tracked_chunks[number >> TRACKED_CHUNK_SHIFT], memory_order_acquire) + (number & (TRACKED_CHUNK - 1));
}

static ALWAYS_INLINE void tracked_store_birth(struct tracked_entry *e, size_t asked, uint64_t clock, uint16_t thread)
{
    atomic_store_explicit(&e->asked_thread, (uint64_t)asked << 24 | (clock >> 16 & 0xff0000) | thread, memory_order_relaxed);
    atomic_store_explicit(&e->next, (uint32_t)clock, memory_order_relaxed);
}

static ALWAYS_INLINE void tracked_store(struct tracked_entry *e, const struct tracked_view *v)
{
    tracked_store_birth(e, v->asked, v->clock, v->thread);
    atomic_store_explicit(&e->site, v->site, memory_order_relaxed);
    atomic_store_explicit(&e->n_samples, v->n_samples, memory_order_relaxed);
    atomic_store_explicit(&e->time, v->time, memory_order_relaxed);
    atomic_store_explicit(&e->what, (uint64_t)(uintptr_t)v->block << 16 | v->flags,
                          memory_order_release);
}

static ALWAYS_INLINE void tracked_load(struct tracked_entry *e, uint64_t what, struct tracked_view *v)
{
    uint64_t asked_thread = atomic_load_explicit(&e->asked_thread, memory_order_relaxed);
    v->block = (void *)(what >> 16);
    v->flags = (uint16_t)what;
    v->asked = asked_thread >> 24;
    v->thread = (uint16_t)asked_thread;
    v->clock = (asked_thread & 0xff0000) << 16 | atomic_load_explicit(&e->next, memory_order_relaxed);
    v->site = atomic_load_explicit(&e->site, memory_order_relaxed);
    v->n_samples = atomic_load_explicit(&e->n_samples, memory_order_relaxed);
    v->time = atomic_load_explicit(&e->time, memory_order_relaxed);
}

#endif
