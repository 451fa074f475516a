/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/reclaim_place.h"
#include "heap/meta.h"

#define CHUNK_SHIFT 8
#define CHUNKS (RECLAIM_PLACES >> CHUNK_SHIFT)
#define IN_CHUNK ((1u << CHUNK_SHIFT) - 1)

struct place {
    _Atomic uint32_t caller;
    uint32_t condemned, condemned_now, number; /* before the latest collection that condemned one; by it; which it was */
    uint32_t first;                            /* tick of the first */
    _Atomic uint32_t vetoes;
    _Atomic uint32_t below; /* of a caller's: vetoes of the stacks that belong to it */
    _Atomic uint64_t reclaimed, reclaimed_bytes;
};

static _Atomic(struct place *) chunks[CHUNKS];

static struct place *place_at(uint32_t n)
{
    struct place *c = n < RECLAIM_PLACES ? atomic_load_explicit(&chunks[n >> CHUNK_SHIFT], memory_order_acquire) : NULL;
    return c ? &c[n & IN_CHUNK] : NULL;
}

bool reclaim_place_know(uint32_t place, uint32_t caller)
{
    if (place == 0 || place >= RECLAIM_PLACES) return false;
    struct place *chunk = atomic_load(&chunks[place >> CHUNK_SHIFT]);
    if (!chunk) {
        struct place *made = meta_alloc(sizeof *made << CHUNK_SHIFT);
        if (!made) return false;
        atomic_compare_exchange_strong(&chunks[place >> CHUNK_SHIFT], &chunk, made);
    }
    atomic_store_explicit(&place_at(place)->caller, caller, memory_order_relaxed);
    return true;
}

bool reclaim_place_is_vetoed(uint32_t n)
{
    const struct place *p = place_at(n);
    if (!p || atomic_load(&p->vetoes) > 0 || atomic_load(&p->below) > 0) return true;
    uint32_t caller = atomic_load(&p->caller);
    const struct place *above = caller != 0 && caller != n ? place_at(caller) : NULL;
    return above && atomic_load(&above->vetoes) > 0;
}

void reclaim_place_veto(uint32_t n)
{
    struct place *p = place_at(n);
    if (!p) return;
    atomic_fetch_add(&p->vetoes, 1);
    uint32_t caller = atomic_load(&p->caller);
    struct place *above = caller != 0 && caller != n ? place_at(caller) : NULL;
    if (above) atomic_fetch_add(&above->below, 1);
}

void reclaim_place_condemn(uint32_t n, uint32_t number, uint32_t tick)
{
    struct place *p = place_at(n);
    if (!p) return;
    if (p->number == 0) p->first = tick;
    if (p->number != number) {
        p->condemned += p->condemned_now;
        p->condemned_now = 0;
        p->number = number;
    }
    if (p->condemned_now < UINT32_MAX / 2 - p->condemned) p->condemned_now++;
}

uint32_t reclaim_place_condemned_before(uint32_t n, uint32_t number, uint32_t *first)
{
    const struct place *p = place_at(n);
    if (!p) return 0;
    *first = p->first;
    return p->number == number ? p->condemned : p->condemned + p->condemned_now;
}

void reclaim_place_reclaimed(uint32_t n, size_t bytes)
{
    struct place *p = place_at(n);
    if (!p) return;
    atomic_fetch_add(&p->reclaimed, 1);
    atomic_fetch_add(&p->reclaimed_bytes, bytes);
}

void reclaim_place_each(void (*each)(const struct reclaim_place_view *, void *user), void *user)
{
    for (uint32_t n = 1; n < RECLAIM_PLACES; n++) {
        const struct place *p = place_at(n);
        if (!p) {
            n |= IN_CHUNK;
            continue;
        }
        struct reclaim_place_view v = {n, atomic_load(&p->reclaimed), atomic_load(&p->reclaimed_bytes), atomic_load(&p->vetoes)};
        if (v.reclaimed || v.vetoes) each(&v, user);
    }
}

void reclaim_place_fork_child(void)
{
    for (uint32_t n = 1; n < RECLAIM_PLACES; n++) {
        struct place *p = place_at(n);
        if (!p) {
            n |= IN_CHUNK;
            continue;
        }
        atomic_store(&p->reclaimed, 0);
        atomic_store(&p->reclaimed_bytes, 0);
    }
}
