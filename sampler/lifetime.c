/* lifetime.c: see lifetime.h.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sampler/lifetime.h"
#include "heap/meta.h"

#define RELAXED(op, ...) atomic_##op##_explicit(__VA_ARGS__, memory_order_relaxed)

_Atomic(_Atomic(struct lifetime *) *) lifetime_chunks[SITE_CHUNKS];
_Atomic uint64_t lifetime_clock;
_Atomic uint32_t lifetime_since;
uint64_t lifetime_start_ticks;

static _Atomic uint64_t since_clock; /* lifetime_clock at the fork */
static _Atomic uint32_t records;
static _Atomic uint64_t dropped, memory;

void lifetime_start(void)
{
    lifetime_start_ticks = os_ticks();
}

static _Atomic(struct lifetime *) *chunk_of(uint32_t site)
{
    _Atomic(_Atomic(struct lifetime *) *) *at = &lifetime_chunks[site >> SITE_CHUNK_SHIFT];
    _Atomic(struct lifetime *) *there = atomic_load_explicit(at, memory_order_acquire), *fresh;
    if (likely(there)) return there;
    if (!(fresh = meta_alloc(SITE_CHUNK * sizeof *fresh))) return NULL;
    RELAXED(fetch_add, &memory, SITE_CHUNK * sizeof *fresh);
    /* Of two the slower's stays unused, untouched. */
    return atomic_compare_exchange_strong(at, &there, fresh) ? fresh : there;
}

static struct lifetime *make(uint32_t site)
{
    if (site >= SITE_CHUNK * SITE_CHUNKS) return NULL;
    _Atomic(struct lifetime *) *chunk = chunk_of(site);
    if (!chunk) return NULL;
    _Atomic(struct lifetime *) *at = &chunk[site & (SITE_CHUNK - 1)];
    struct lifetime *there = atomic_load_explicit(at, memory_order_acquire), *fresh;
    if (there) return there;
    if (RELAXED(fetch_add, &records, 1) >= LIFETIME_MOST) {
        RELAXED(fetch_sub, &records, 1);
        return NULL;
    }
    if (!(fresh = meta_alloc(sizeof *fresh))) return NULL;
    RELAXED(fetch_add, &memory, sizeof *fresh);
    return atomic_compare_exchange_strong(at, &there, fresh) ? fresh : there;
}

void lifetime_died_slow(uint32_t site, const struct lifetime_death *d)
{
    struct lifetime *l = make(site);
    if (!l) {
        RELAXED(fetch_add, &dropped, 1);
        return;
    }
    if (d->birth.ticks >= RELAXED(load, &lifetime_since)) {
        lifetime_died(site, d);
        return;
    }
    count_add(d->old ? &l->inherited_old : &l->inherited_young, d->weight);
    if (d->elsewhere) count_add(&l->elsewhere, d->weight);
}

void lifetime_stats(struct lifetime_stats *to)
{
    uint64_t clock = RELAXED(load, &lifetime_clock);
    *to = (struct lifetime_stats){.records = RELAXED(load, &records),
                                  .memory_bytes = RELAXED(load, &memory),
                                  .dropped = RELAXED(load, &dropped),
                                  .observed_units = (clock - RELAXED(load, &since_clock)) / LIFETIME_UNIT,
                                  .now = lifetime_now(0),
                                  .since = RELAXED(load, &lifetime_since)};
    to->observed_ticks = to->now.ticks - to->since;
}

void lifetime_fork_child(void)
{
    /* The parent's records stay as they are, in pages that the child never touches. */
    for (unsigned i = 0; i < SITE_CHUNKS; i++) RELAXED(store, &lifetime_chunks[i], NULL);
    RELAXED(store, &records, 0);
    RELAXED(store, &dropped, 0);
    RELAXED(store, &memory, 0);
    RELAXED(store, &lifetime_since, lifetime_ticks());
    RELAXED(store, &since_clock, RELAXED(load, &lifetime_clock));
}
