/* lifetime.c: see lifetime.h.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sampler/lifetime.h"
#include "heap/meta.h"
#include "sampler/deaths.h"

#define RELAXED(op, ...) atomic_##op##_explicit(__VA_ARGS__, memory_order_relaxed)

_Atomic(_Atomic(struct lifetime *) *) lifetime_chunks[LIFETIME_PARTS][SITE_CHUNKS];
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

static _Atomic(struct lifetime *) *chunk_of(uint32_t site, enum lifetime_part part)
{
    _Atomic(_Atomic(struct lifetime *) *) *at = &lifetime_chunks[part][site >> SITE_CHUNK_SHIFT];
    _Atomic(struct lifetime *) *there = atomic_load_explicit(at, memory_order_acquire), *fresh;
    if (likely(there)) return there;
    if (!(fresh = meta_alloc(SITE_CHUNK * sizeof *fresh))) return NULL;
    RELAXED(fetch_add, &memory, SITE_CHUNK * sizeof *fresh);
    /* Of two the slower's stays unused, untouched. */
    return atomic_compare_exchange_strong(at, &there, fresh) ? fresh : there;
}

static struct lifetime *make(uint32_t site, enum lifetime_part part)
{
    if (site >= SITE_CHUNK * SITE_CHUNKS) return NULL;
    _Atomic(struct lifetime *) *chunk = chunk_of(site, part);
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

void lifetime_died(uint32_t site, const struct lifetime_death *d)
{
    struct lifetime *l = lifetime_of(site, d->part);
    if (unlikely(!l) && !(l = make(site, d->part))) {
        RELAXED(fetch_add, &dropped, 1);
        return;
    }
    if (unlikely(d->birth.ticks < RELAXED(load, &lifetime_since))) {
        count_add(d->old ? &l->inherited_old : &l->inherited_young, d->weight);
    } else {
        count_add(&l->time[lifetime_time_bucket(d->now.ticks - d->birth.ticks)], d->weight);
        count_add(&l->span[lifetime_span_of(d->birth.units, d->now.units)], d->weight);
        if (unlikely(d->old)) count_add(&l->old, d->weight);
    }
    if (unlikely(d->elsewhere)) count_add(&l->elsewhere, d->weight);
}

static void add(_Atomic uint64_t *to, _Atomic uint64_t *from, unsigned count)
{
    for (unsigned i = 0; i < count; i++) RELAXED(store, &to[i], RELAXED(load, &to[i]) + RELAXED(load, &from[i]));
}

static void add_one(_Atomic uint64_t *to) { RELAXED(store, to, RELAXED(load, to) + 1); }

/* Deaths that their threads have still to count, as they will (sample_every.c). */
static bool add_pending(struct lifetime *to, uint32_t site, const struct deaths_pending *pending)
{
    bool any = false;
    for (unsigned i = 0; i < pending->count; i++) {
        const struct death_view *d = &pending->death[i];
        if (d->was.site != site) continue;
        any = true;
        if (d->thread != d->was.thread) add_one(&to->elsewhere);
        if (d->was.time < RELAXED(load, &lifetime_since)) {
            add_one(d->old ? &to->inherited_old : &to->inherited_young);
            continue;
        }
        add_one(&to->time[lifetime_time_bucket(d->ticks - d->was.time)]);
        add_one(&to->span[lifetime_span_of(d->was.clock, d->bytes / LIFETIME_UNIT)]);
        if (d->old) add_one(&to->old);
    }
    return any;
}

bool lifetime_sum(uint32_t site, const struct deaths_pending *pending, struct lifetime *to)
{
    bool any = false;
    __builtin_memset(to, 0, sizeof *to);
    for (unsigned part = 0; part < LIFETIME_PARTS; part++) {
        struct lifetime *l = lifetime_of(site, (enum lifetime_part)part);
        if (l) add((_Atomic uint64_t *)to, (_Atomic uint64_t *)l, sizeof *to / sizeof(uint64_t));
        any |= l != NULL;
    }
    return add_pending(to, site, pending) || any;
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
    for (unsigned part = 0; part < LIFETIME_PARTS; part++)
        for (unsigned i = 0; i < SITE_CHUNKS; i++) RELAXED(store, &lifetime_chunks[part][i], NULL);
    RELAXED(store, &records, 0);
    RELAXED(store, &dropped, 0);
    RELAXED(store, &memory, 0);
    RELAXED(store, &lifetime_since, lifetime_ticks());
    RELAXED(store, &since_clock, RELAXED(load, &lifetime_clock));
}
