/* Nothing is counted on the fast paths but `left` (bin.h): per bin and class,

     allocated = counted + left_start - left
     live      = taken - n

   and freed is the difference, all summed over every heap that there ever was (heaps are never
   freed, so a thread's death loses nothing).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/stats.h"
#include "heap/large.h"
#include "heap/meta.h"
#include "heap/os.h"
#include "heap/thread_heap.h"

_Atomic int64_t heap_taken_bytes;

static _Atomic int64_t peak_mark; /* heap_taken_bytes beyond which the peak is looked at again */
static _Atomic uint64_t peak_bytes, peak_time;

/* What had been allocated and freed before the fork that made this process. */
static struct {
    uint64_t allocated, freed, allocated_bytes, freed_bytes;
} before[HEAP_CLASSES];

static void count_class(unsigned class, struct heap_class_stats *s)
{
    int64_t live = atomic_load_explicit(&late_taken[class], memory_order_relaxed);
    uint64_t allocated = 0;
    struct thread_heap *h;
    for (uint32_t i = 0; (h = thread_heap_by_number(i)) != NULL; i++) {
        const struct bin *b = h->bin[class];
        allocated += b->counted + (uint64_t)(b->left_start - b->left);
        live += b->taken - (int64_t)b->n;
    }
    s->size = class_size[class];
    s->live = live > 0 ? (uint64_t)live : 0;
    s->allocated = allocated;
}

static uint64_t live_in_pools(void)
{
    uint64_t bytes = 0;
    for (unsigned c = 1; c <= POOL_CLASSES; c++) {
        struct heap_class_stats s;
        count_class(c, &s);
        bytes += s.live * s.size;
    }
    return bytes;
}

uint64_t stats_live_bytes(void)
{
    struct large_stats large;
    large_stats(&large);
    return live_in_pools() + large.live_bytes;
}

/* The peak is taken when it happens, of the sum: when the slots outside their pools reach a new maximum, the live
   bytes are counted over all heaps.  Counting costs microseconds, so it is done when the maximum has grown by a 256th; a peak
   is thus seen within that, and within what the caches held. */
void heap_account(int64_t bytes)
{
    int64_t now = atomic_fetch_add_explicit(&heap_taken_bytes, bytes, memory_order_relaxed) + bytes;
    if (likely(now <= atomic_load_explicit(&peak_mark, memory_order_relaxed))) return;
    atomic_store_explicit(&peak_mark, now + now / 256 + 64 * 1024, memory_order_relaxed);
    uint64_t live = stats_live_bytes();
    if (live > atomic_load_explicit(&peak_bytes, memory_order_relaxed)) {
        atomic_store_explicit(&peak_bytes, live, memory_order_relaxed);
        atomic_store_explicit(&peak_time, os_realtime(), memory_order_relaxed);
    }
}

static void count_pools(struct heap_stats *to)
{
    for (unsigned medium = 0; medium < 2; medium++) {
        uint32_t first, count;
        pool_range(medium, &first, &count);
        for (uint32_t i = 0; i < count; i++) {
            const struct pool *p = pool_of_id(first + i);
            unsigned class = p->class;
            if (class != 0 && class <= POOL_CLASSES) to->of[class].pools++;
        }
    }
}

static void gather(struct heap_stats *to)
{
    *to = (struct heap_stats){.classes = POOL_CLASSES + 1};
    for (unsigned c = 1; c <= POOL_CLASSES; c++) {
        struct heap_class_stats *s = &to->of[c];
        count_class(c, s);
        s->freed = s->allocated - s->live;
        s->allocated_bytes = s->allocated * s->size;
        s->live_bytes = s->live * s->size;
        s->freed_bytes = s->freed * s->size;
    }
    struct large_stats large;
    large_stats(&large);
    struct heap_class_stats *s = &to->of[HEAP_CLASS_LARGE];
    s->live = s->pools = large.live;
    s->live_bytes = large.live_bytes;
    s->allocated = large.allocated;
    s->allocated_bytes = large.allocated_bytes;
    s->freed = s->allocated - s->live;
    s->freed_bytes = s->allocated_bytes - s->live_bytes;
    to->large_bytes = large.mapped_bytes;
}

void heap_stats(struct heap_stats *to)
{
    heap_start(NULL);
    gather(to);
    count_pools(to);
    uint64_t in_pools = 0, slots = 0;
    for (unsigned c = 0; c < HEAP_CLASSES; c++) {
        struct heap_class_stats *s = &to->of[c];
        s->allocated -= before[c].allocated;
        s->freed -= before[c].freed;
        s->allocated_bytes -= before[c].allocated_bytes;
        s->freed_bytes -= before[c].freed_bytes;
        to->allocated += s->allocated;
        to->freed += s->freed;
        to->live += s->live;
        to->allocated_bytes += s->allocated_bytes;
        to->freed_bytes += s->freed_bytes;
        to->live_bytes += s->live_bytes;
        if (c == HEAP_CLASS_LARGE) continue;
        in_pools += s->live_bytes;
        slots += s->pools << (class_is_medium(c) ? MEDIUM_POOL_SHIFT : SMALL_POOL_SHIFT);
    }
    to->free_slot_bytes = slots > in_pools ? slots - in_pools : 0;
    to->pool_bytes = pool_mapped_bytes();
    to->metadata_bytes = meta_bytes() + pool_table_bytes();
    to->peak_bytes = atomic_load(&peak_bytes);
    to->peak_time = atomic_load(&peak_time);
    if (to->live_bytes > to->peak_bytes) {
        to->peak_bytes = to->live_bytes;
        to->peak_time = os_realtime();
    }
}

void stats_fork_child(void)
{
    struct heap_stats s;
    gather(&s);
    uint64_t live = 0;
    for (unsigned c = 0; c < HEAP_CLASSES; c++) {
        before[c].allocated = s.of[c].allocated;
        before[c].freed = s.of[c].freed;
        before[c].allocated_bytes = s.of[c].allocated_bytes;
        before[c].freed_bytes = s.of[c].freed_bytes;
        live += s.of[c].live_bytes;
    }
    atomic_store(&peak_bytes, live);
    atomic_store(&peak_time, os_realtime());
    int64_t taken = atomic_load(&heap_taken_bytes);
    atomic_store(&peak_mark, taken + taken / 256 + 64 * 1024);
}
