/* fast.h: the fast paths of malloc and free, inline in the exported functions.

   malloc: size → bin (thread-local), pop a slot, count it, mark it live: 18 instructions.
   free: address → granule (one rotation checks area and alignment together), state byte → class → bin, push:
   19 instructions.  test-instructions holds both to their numbers.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_FAST_H
#define GLEANER_FAST_H

#include "heap/thread_heap.h"

/* Everything that the fast paths do not do. */
void *heap_malloc_slow(size_t size, enum heap_source source, const void *caller);
void *heap_malloc_medium(size_t size, enum heap_source source, const void *caller);
void heap_free_other(void *block);             /* not a granule of the small area */
void heap_free_slow(void *block, bool medium); /* tracked, or no live block */
void heap_free_full(void *block, struct bin *bin); /* checked and marked free; the bin is full */

/* Where the function that this is inlined in was called from. */
#define CALLER() __builtin_extract_return_addr(__builtin_return_address(0))

/* Pops a slot from the bin and marks it, or lets `slow` run.  A slot is never NULL, which the
   compiler need not check again. */
#define BIN_POP(b, medium, slow)                                                                  \
    do {                                                                                          \
        size_t n_ = (b)->n;                                                                       \
        if (unlikely(n_ == 0)) slow;                                                              \
        if (unlikely(--(b)->left < 0)) slow; /* the slow path counts on it */                      \
        void *block_ = (b)->slot[n_ - 1];                                                         \
        if (!block_) __builtin_unreachable();                                                     \
        (b)->n = n_ - 1;                                                                         \
        *state_of(block_, medium) = (int8_t)(b)->class;                                           \
        return block_;                                                                            \
    } while (0)

static ALWAYS_INLINE void *heap_malloc_fast(size_t size, enum heap_source source)
{
    if (unlikely(size > SMALL_MAX)) return heap_malloc_medium(size, source, CALLER());
    struct bin *b = heap_tls.by_size[(size + 15) >> 4];
    BIN_POP(b, false, return heap_malloc_slow(size, source, CALLER()));
}

static ALWAYS_INLINE uintptr_t rotate_right(uintptr_t v, unsigned n)
{
    return v >> n | v << (8 * sizeof v - n);
}

static ALWAYS_INLINE void heap_free_fast(void *block)
{
    /* A misaligned address has bits that the rotation moves to the top: out of range, as is NULL and all that
       is not in the area. */
    uintptr_t granule = rotate_right((uintptr_t)block - pool_tables.small_base, SMALL_GRANULE_SHIFT);
    if (unlikely(granule >= pool_tables.small_granules)) {
        heap_free_other(block);
        return;
    }
    int8_t *state = pool_tables.small_state + granule;
    intptr_t class = *state;
    if (unlikely(class <= 0)) {
        heap_free_slow(block, false);
        return;
    }
    *state = 0;
    struct bin *b = heap_tls.by_class[class];
    size_t n = b->n;
    if (unlikely(n >= b->cap)) {
        heap_free_full(block, b);
        return;
    }
    b->slot[n] = block;
    b->n = n + 1;
}

#endif
