/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/rescue.h"
#include "heap/large.h"
#include "heap/tag.h"
#include "heap/thread_heap.h"

static _Atomic uint32_t broken_heaps; /* and one more: there is something to rescue */

bool rescue_is_due(void) { return atomic_load(&broken_heaps) > 0; }

/* Only our own heap is whole.  Every other thread may have been in the middle of something, and while the kernel
   copied page after page they ran on, so even a heap that says it is idle may be torn. */
void rescue_fork_child(void)
{
    uint32_t broken = 1; /* a thread that had no heap yet, or none any more, may have had a slot in hand */
    for (uint32_t i = 0; i < thread_heap_count(); i++) {
        struct thread_heap *h = thread_heap_by_number(i);
        if (!h || h == heap_tls.heap) continue;
        atomic_store(&h->state, THREAD_HEAP_BROKEN);
        broken++;
    }
    thread_heap_forget_stacks();
    if (heap_tls.heap) heap_tls.heap->takes_since_fork = 0;
    atomic_store(&broken_heaps, broken);
}

/* What is live the state bytes say; all else is free, once no cache holds a slot. */
static void rebuild(struct pool *p)
{
    bool medium = pool_is_medium(p);
    uint64_t *bits = pool_bits(p);
    pool_set_class(p, p->class); /* its two places were copied at different times */
    for (unsigned w = 0; w < (p->slots + 63u) / 64; w++) bits[w] = 0;
    unsigned free = 0;
    for (unsigned i = 0; i < p->slots; i++) {
        int8_t *s = state_of(slot_address(p, i), medium);
        if (state_is_live(*s)) {
            /* Its tag may have been copied later, when the slot was another block's. */
            if (*s >= 0 && tag_is_for_free(pool_tag(p, i))) pool_set_tag(p, i, 0);
            continue;
        }
        *s = 0;
        bits[i / 64] |= (uint64_t)1 << i % 64;
        free++;
    }
    p->free = (uint16_t)free;
    p->cursor = 0;
    atomic_store(&p->returned, 0);
    atomic_store(&p->notified, false);
}

/* Sound only while ours is the one heap in use: then every slot that is not live is free. */
static bool only_heap_in_use(const struct thread_heap *mine)
{
    for (uint32_t i = 0; i < thread_heap_count(); i++) {
        struct thread_heap *h = thread_heap_by_number(i);
        if (h && h != mine && atomic_load(&h->state) == THREAD_HEAP_ACTIVE) return false;
    }
    return true;
}

static void rescue_pool(struct thread_heap *h, struct pool *p, int64_t *live)
{
    if (p->class == 0) { /* free, on a stack that was forgotten or in hands that are gone; or never used */
        pool_reclaim(p);
        return;
    }
    bool ours = atomic_load(&p->owner) == h;
    rebuild(p);
    live[p->class] += p->slots - p->free;
    if (ours) {
        bin_pool_freed(h->bin[p->class], p);
        return;
    }
    p->next = p->prev = ID_NONE;
    if (p->free == p->slots) pool_give(p);
    else pool_orphan(p);
}

bool rescue_heaps(struct thread_heap *h)
{
    uint32_t broken = atomic_load(&broken_heaps);
    if (broken == 0 || !only_heap_in_use(h) ||
        !atomic_compare_exchange_strong(&broken_heaps, &broken, 0))
        return false;
    thread_heap_trim(h);  /* no cache holds a slot any more */
    pool_fork_child(); /* nor any stack a pool: each is found and put on one below */
    int64_t live[HEAP_CLASSES] = {0}, live_bytes = 0;
    for (unsigned medium = 0; medium < 2; medium++) {
        uint32_t first, count;
        pool_range(medium, &first, &count);
        for (uint32_t i = 0; i < count; i++) rescue_pool(h, pool_of_id(first + i), live);
    }
    /* The counts of threads that are gone may be torn: replace all by what was found. */
    for (uint32_t i = 0; i < thread_heap_count(); i++) {
        struct thread_heap *other = thread_heap_by_number(i);
        if (!other) continue;
        bool gone = atomic_load(&other->state) == THREAD_HEAP_BROKEN;
        for (unsigned c = 1; c <= POOL_CLASSES; c++) {
            struct bin *b = other->bin[c];
            b->taken = 0;
            if (!gone) continue;
            b->n = 0;
            b->class = 0; /* opened anew */
            b->cap = 0;
            b->busy = false;
        }
        if (!gone) continue;
        atomic_store(&other->notices, 0);
        thread_heap_spare(other);
    }
    for (unsigned c = 1; c <= POOL_CLASSES; c++) {
        if (live[c] != 0 && h->bin[c]->class == 0) bin_open(h->bin[c], c);
        if (live[c] != 0) h->bin[c]->taken = live[c];
        live_bytes += live[c] * class_size[c];
        atomic_store(&late_taken[c], 0);
    }
    large_recount();
    struct large_stats large;
    large_stats(&large);
    atomic_store(&heap_taken_bytes, live_bytes + (int64_t)large.live_bytes);
    return true;
}
