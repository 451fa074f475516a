/* memprof_weak.c: weak handles, and memory that is held on account of a block.
A handle is the number of an entry and its generation, which no other use of the entry ever has again.  The entry stands in
the block's tag, so that the block's end finds it.  One that was given up while it was not foremost there stays until the
block ends, and the next handle of the block takes it over: a chain is never longer than the most handles that there were at
once.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/collect.h"
#include "heap/heap.h"
#include "sampler/memprof_profile.h"

#include <errno.h>

#define NUMBER (TAG_CALLER | TAG_NUMBER)
#define NO_HANDLE (MEMPROF_SILENT | MEMPROF_LOST | MEMPROF_ENDED)

bool memprof_attach(uint32_t number, void *block)
{
    uint32_t tag, before = UINT32_MAX;
    while (heap_tag(block, &tag)) {
        tag &= NUMBER;
        if (tag == before) return false; /* nobody else has changed it: no memory */
        before = tag;
        atomic_store_explicit(&memprof_entry(number)->below, tag, memory_order_release);
        if (heap_retag(block, tag, number)) return true;
    }
    return false;
}

static unsigned long handle_of(uint64_t state, uint32_t number) { return (state >> 32 << 32) | number; }

static void fill(uint32_t number, void (*cleared)(void *, enum gleaner_end, void *), void *user)
{
    struct memprof_entry *e = memprof_entry(number);
    atomic_store(&e->owner, *(void **)&cleared);
    atomic_store(memprof_data(number), user);
}

/* An entry in the block's chain that no handle leads to any more. */
static unsigned long take_over(void *block, uint32_t tag, void (*cleared)(void *, enum gleaner_end, void *), void *user)
{
    struct memprof_entry *e;
    for (; (e = memprof_at(tag_entry(tag))); tag = atomic_load(&e->below)) {
        uint64_t s = atomic_load(&e->state);
        if (!(s & MEMPROF_USED) || memprof_kind(e) != MEMPROF_WEAK || memprof_block(e) != block) continue;
        if (!(s & (MEMPROF_SILENT | MEMPROF_LOST)) || (s & (MEMPROF_QUEUED | MEMPROF_ENDED))) continue;
        uint64_t now = ((s >> 32) + 1) << 32 | MEMPROF_USED | MEMPROF_QUEUED;
        if (!atomic_compare_exchange_strong(&e->state, &s, now)) continue;
        fill(tag_entry(tag), cleared, user);
        memprof_settle(NULL, tag_entry(tag));
        return handle_of(now, tag_entry(tag));
    }
    return 0;
}

unsigned long memprof_weak_make(void *block, void (*cleared)(void *, enum gleaner_end, void *), void *user)
{
    uint32_t tag;
    memprof_install(false);
    if (!heap_tag(block, &tag)) return 0;
    unsigned long handle = take_over(block, tag, cleared, user);
    if (handle) return handle;
    struct heap_thread_hook *hook = heap_own_hook();
    struct memprof_thread *t = hook ? hook->memprof : NULL;
    uint32_t number = memprof_take(t ? &t->cache : NULL);
    if (number == 0) return 0;
    fill(number, cleared, user);
    uint64_t what = (uint64_t)(uintptr_t)block << 16 | MEMPROF_WEAK << 8;
    atomic_store_explicit(&memprof_entry(number)->what, what, memory_order_release);
    uint64_t state = memprof_use(number, 0);
    if (memprof_attach(number, block)) return handle_of(state, number);
    memprof_give(NULL, number);
    return 0;
}

void *memprof_weak_get(unsigned long handle)
{
    struct memprof_entry *e = memprof_at((uint32_t)handle);
    if (!e) return NULL;
    uint64_t s = atomic_load_explicit(&e->state, memory_order_acquire);
    if (handle_of(s, (uint32_t)handle) != handle || !(s & MEMPROF_USED) || (s & NO_HANDLE)) return NULL;
    void *block = memprof_block(e);
    if (memprof_kind(e) != MEMPROF_WEAK) return NULL;
    atomic_thread_fence(memory_order_acquire);
    s = atomic_load_explicit(&e->state, memory_order_relaxed);
    return handle_of(s, (uint32_t)handle) == handle && !(s & NO_HANDLE) ? block : NULL;
}

int memprof_weak_drop(unsigned long handle)
{
    struct memprof_entry *e = memprof_at((uint32_t)handle);
    if (!e) return EINVAL;
    for (;;) {
        uint64_t s = atomic_load(&e->state);
        if (handle_of(s, (uint32_t)handle) != handle || !(s & MEMPROF_USED) || (s & NO_HANDLE) || memprof_kind(e) != MEMPROF_WEAK)
            return EINVAL;
        if (memprof_silence((uint32_t)handle, s)) return 0;
    }
}

int memprof_custom(void *block, size_t bytes)
{
    struct memprof_profile *p;
    if (!heap_owns(block)) return EINVAL;
    struct heap_thread_hook *hook = heap_own_hook();
    struct memprof_thread *t = hook ? hook->memprof : NULL;
    unsigned n = memprof_points(t, (bytes + 7) / 8, &p);
    if (n == 0 || heap_sampling_is_suspended()) return 0;
    struct memprof_new of = {.block = block, .asked = bytes, .given = bytes, .n_samples = n, .stack = memprof_stack(t),
                             .source = GLEANER_CUSTOM, .kind = MEMPROF_BLOCK, .old = heap_is_old(block)};
    uint32_t number = memprof_make(t, p, &of);
    if (number == 0) return ENOMEM;
    bool attached = memprof_attach(number, block);
    memprof_publish(hook, number);
    if (!attached) memprof_died(hook, number, MEMPROF_FREED);
    if (hook->pending) memprof_callbacks(hook);
    return attached ? 0 : ENOMEM;
}
