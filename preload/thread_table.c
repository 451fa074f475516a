/* thread_table.c: the table of threads, lock-free.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/thread_table.h"
#include "preload/own_memory.h"
#include "preload/process.h"

#define SEGMENTS 4
#define PROBES 16u
#define FIRST 2048u /* records in the first segment; each next has four times as many */

static _Atomic(struct thread_record *) segments[SEGMENTS];

static uint32_t size_of(unsigned segment)
{
    return FIRST << (2 * segment);
}

/* Threads' ids are handed out in sequence, so their low bits spread them evenly. */
static struct thread_record *at(struct thread_record *s, unsigned segment, uint32_t tid,
                                uint32_t probe)
{
    return &s[(tid + probe) & (size_of(segment) - 1)];
}

struct thread_record *thread_find(uint32_t tid)
{
    for (unsigned i = 0; i < SEGMENTS; i++) {
        struct thread_record *s = atomic_load_explicit(&segments[i], memory_order_acquire);
        if (!s) break;
        for (uint32_t p = 0; p < PROBES; p++) {
            struct thread_record *r = at(s, i, tid, p);
            if (atomic_load_explicit(&r->tid, memory_order_acquire) == tid) return r;
        }
    }
    return NULL;
}

static struct thread_record *segment(unsigned i)
{
    struct thread_record *s = atomic_load_explicit(&segments[i], memory_order_acquire);
    if (s) return s;
    size_t bytes = size_of(i) * sizeof *s;
    struct thread_record *fresh = process_private(bytes);
    if (!fresh) return NULL;
    if (atomic_compare_exchange_strong(&segments[i], &s, fresh)) return fresh;
    own_unmap(fresh, bytes);
    return s;
}

struct thread_record *thread_enter(uint32_t tid)
{
    struct thread_record *found = thread_find(tid);
    for (unsigned i = 0; !found && i < SEGMENTS; i++) {
        struct thread_record *s = segment(i);
        if (!s) return NULL;
        for (uint32_t p = 0; !found && p < PROBES; p++) {
            struct thread_record *r = at(s, i, tid, p);
            uint32_t none = 0;
            if (atomic_compare_exchange_strong(&r->tid, &none, tid)) {
                /* What an earlier owner left. */
                atomic_store(&r->ticket, 0);
                atomic_store(&r->parked_for, 0);
                r->asked_for = r->seen_in = 0;
                r->stack_low = r->stack_high = 0;
                found = r;
            }
        }
    }
    return found;
}

void thread_each(void (*each)(struct thread_record *, void *), void *argument)
{
    for (unsigned i = 0; i < SEGMENTS; i++) {
        struct thread_record *s = atomic_load_explicit(&segments[i], memory_order_acquire);
        if (!s) break;
        for (uint32_t k = 0; k < size_of(i); k++) {
            if (atomic_load_explicit(&s[k].tid, memory_order_relaxed)) each(&s[k], argument);
        }
    }
}
