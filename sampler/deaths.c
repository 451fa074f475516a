/* deaths.c: see deaths.h.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sampler/deaths.h"

#define RELAXED(op, ...) atomic_##op##_explicit(__VA_ARGS__, memory_order_relaxed)

static _Atomic(struct deaths *) threads[DEATHS_THREADS];

void deaths_of(struct deaths *d, unsigned shard)
{
    atomic_store_explicit(&threads[shard - SITE_OWN], d, memory_order_release);
}

static bool view(struct death *d, struct death_view *v)
{
    uint64_t what = RELAXED(load, &d->what);
    v->entry = (uint32_t)what & ~DEATH_OLD;
    v->old = what & DEATH_OLD;
    v->ticks = (uint32_t)(what >> 32);
    v->bytes = RELAXED(load, &d->bytes);
    return v->entry && tracked_get(v->entry, &v->was) && (uintptr_t)v->was.block == RELAXED(load, &d->block);
}

void deaths_pending(struct deaths_pending *to)
{
    struct death_view *death = to->death;
    unsigned n = 0;
    for (unsigned t = 0; t < DEATHS_THREADS; t++) {
        struct deaths *d = atomic_load_explicit(&threads[t], memory_order_acquire);
        for (unsigned i = 0; d && i < DEATHS; i++) {
            struct death_view v = {.thread = (uint16_t)(t + 1)}; /* site_shard gives them in this order */
            if (!view(&d->ring[i], &v)) continue;
            unsigned at = n;
            while (at > 0 && death[at - 1].entry > v.entry) at--;
            /* Counted since it was read, and its entry dead once more: one of the two is enough. */
            if (at > 0 && death[at - 1].entry == v.entry) continue;
            for (unsigned k = n++; k > at; k--) death[k] = death[k - 1];
            death[at] = v;
        }
    }
    to->count = n;
}

void deaths_forget(void)
{
    for (unsigned t = 0; t < DEATHS_THREADS; t++) {
        struct deaths *d = RELAXED(load, &threads[t]);
        for (unsigned i = 0; d && i < DEATHS; i++) {
            RELAXED(store, &d->ring[i].what, 0);
            RELAXED(store, &d->ring[i].at, NULL);
        }
    }
}
