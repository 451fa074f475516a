/* every.c: malloc and free where every block is sampled.

   1. What alloc.c and free.c do for a tracked block, without what never applies there: the next sample point is the next block, so nobody is
      asked how far it is, and counts are kept block by block.  The hook comes last, so that it is jumped to and nothing need be
      kept meanwhile: a block is tracked with no entry until it has one, and back in its bin when its entry ends.  Whatever else may be (a
      beat, the bin's first block, sampling suspended, a thread that ends, blocks watched or ignored) is theirs.
   2. A block that was there at a collection may be called lost by another thread while it is freed, so its tag is taken by an exchange
      (free.c).  A young one is not: the collection that makes it old finds the pointer that is being freed.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/every.h"
#include "heap/fast.h"
#include "heap/heap.h"
#include "heap/tag.h"

/* Hooks may be set anew at any time (heap_set_hooks), so a call looks once. */
static ALWAYS_INLINE const struct heap_hooks *hooks_now(void) { return __atomic_load_n(&heap_hooks_every, __ATOMIC_ACQUIRE); }

static ALWAYS_INLINE bool as_usual(const struct thread_heap *h, const struct bin *b)
{
    return b->counted != 0 && (h->ticks & 63) != 63 && (heap_tls.suspended | heap_tls.attention) == 0 && !heap_tls.ending &&
           h->hooks == atomic_load_explicit(&heap_hooks_number, memory_order_relaxed);
}

/* The tags of the pool of the bin's next slot; NULL where anything is not as usual. */
static ALWAYS_INLINE _Atomic uint32_t *tags_of_next(struct bin *b, const struct heap_hooks *hooks, bool medium)
{
    if (unlikely(b->n == 0 || !hooks || !as_usual(heap_tls.heap, b))) return NULL;
    return atomic_load_explicit(&pool_of(b->slot[b->n - 1], medium)->entries, memory_order_acquire);
}

static ALWAYS_INLINE void *take(struct bin *b, const struct heap_hooks *hooks, _Atomic uint32_t *tags, size_t asked,
                                enum heap_source source, bool medium)
{
    struct thread_heap *h = heap_tls.heap;
    unsigned class = b->class;
    void *block = b->slot[b->n - 1];
    h->ticks++;
    b->counted++;
    b->left = 0;
    b->n--;
    tags += slot_in_pool(block, class, medium);
    atomic_store_explicit(tags, 0, memory_order_release);
    *state_of(block, medium) = (int8_t)(class | STATE_TRACKED);
    return hooks->every(&h->hook, block, asked, class_size[class] | (size_t)source, tags);
}

void *heap_malloc_slow(size_t size, enum heap_source source, const void *caller)
{
    struct bin *b = heap_tls.by_size[(size + 15) >> 4];
    const struct heap_hooks *hooks = hooks_now();
    _Atomic uint32_t *tags = tags_of_next(b, hooks, false);
    return likely(tags) ? take(b, hooks, tags, size, source, false) : heap_malloc_other(size, source, caller);
}

void *heap_malloc_every_medium(struct bin *b, size_t asked, enum heap_source source, const void *caller)
{
    const struct heap_hooks *hooks = hooks_now();
    _Atomic uint32_t *tags = tags_of_next(b, hooks, true);
    return likely(tags) ? take(b, hooks, tags, asked, source, true) : heap_malloc_due(b, asked, source, caller);
}

static ALWAYS_INLINE void give(void *block, bool medium)
{
    struct thread_heap *h = heap_tls.heap;
    const struct heap_hooks *hooks = hooks_now();
    if (unlikely(!hooks || !h)) goto other;
    /* Not by the state byte, so that the tag's address does not wait for it (see fast.h). */
    struct pool *p = pool_of(block, medium);
    unsigned class = p->class;
    int8_t *state = state_of(block, medium);
    if (unlikely((uint8_t)*state != (class | STATE_TRACKED) || class == 0)) goto other; /* old, or not tracked or not live */
    _Atomic uint32_t *tags = atomic_load_explicit(&p->entries, memory_order_acquire);
    if (unlikely(!tags)) goto other;
    tags += slot_in_pool(block, class, medium);
    uint32_t tag = atomic_load_explicit(tags, memory_order_relaxed);
    struct bin *b = h->bin[class];
    size_t n = b->n;
    if (unlikely(tag - 1 >= TAG_LOST - 1 || n >= b->cap)) goto other;
    atomic_store_explicit(tags, 0, memory_order_relaxed);
    *state = 0;
    b->slot[n] = block;
    b->n = n + 1;
    hooks->freed(&h->hook, block, tag, false); /* last, so that it is jumped to */
    return;
other:
    heap_free_tracked(block, medium);
}
_Static_assert(TAG_NUMBER == TAG_LOST - 1, "one comparison tells");

void heap_free_slow(void *block) { give(block, false); }
void heap_free_every_medium(void *block) { give(block, true); }
