/* false_lost.c: an open-addressed table with linear probing, of fixed size, never emptied: a place that was wrong once stays
   known, in forked children too.

   Synchronisation.  A slot's key is set once by compare-and-swap; counters are added to.  Two threads that bring the same new
   key try the same slots in the same order, so that the second finds the first one's.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sampler/false_lost.h"

#define SLOTS (2 * FALSE_LOST_PLACES)
_Static_assert((SLOTS & (SLOTS - 1)) == 0, "a mask");

struct slot {
    _Atomic uint64_t key; /* where << 32 | number; 0: free, for LOST_NOWHERE is not entered */
    _Atomic uint64_t objects, bytes;
};

static struct slot slots[SLOTS], nowhere;
static _Atomic uint32_t used;

static struct slot *slot_of(struct lost_place place)
{
    uint64_t key = (uint64_t)place.where << 32 | place.number;
    uint32_t at = (uint32_t)(key * 0x9e3779b97f4a7c15u >> 32) & (SLOTS - 1);
    if (place.where == LOST_NOWHERE) return &nowhere;
    for (;; at = (at + 1) & (SLOTS - 1)) {
        uint64_t there = atomic_load(&slots[at].key);
        if (there == key) return &slots[at];
        if (there != 0) continue;
        /* Half of the slots stay free, so that every search ends; threads that come at once may use a few more. */
        if (atomic_load(&used) >= FALSE_LOST_PLACES) return &nowhere;
        if (atomic_compare_exchange_strong(&slots[at].key, &there, key)) {
            atomic_fetch_add(&used, 1);
            return &slots[at];
        }
        if (there == key) return &slots[at];
    }
}

void false_lost_note(struct heap_thread_hook *hook, uint32_t tag, size_t given, int proof)
{
    if (proof == PROOF_REACHED) return;
    struct slot *s = slot_of(lost_place_of(tag));
    atomic_fetch_add_explicit(&s->objects, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->bytes, given, memory_order_relaxed);
}

static void show(struct slot *s, void (*each)(const struct false_lost *, void *), void *user)
{
    uint64_t key = atomic_load(&s->key);
    struct false_lost f = {.place = {(enum lost_where)(key >> 32), (uint32_t)key},
                           .objects = atomic_load_explicit(&s->objects, memory_order_relaxed),
                           .bytes = atomic_load_explicit(&s->bytes, memory_order_relaxed)};
    if (f.objects) each(&f, user);
}

void false_lost_each(void (*each)(const struct false_lost *, void *), void *user)
{
    show(&nowhere, each, user);
    for (uint32_t i = 0; i < SLOTS; i++) show(&slots[i], each, user);
}
