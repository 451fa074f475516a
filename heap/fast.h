/* fast.h: the fast paths of malloc and free, inline in the exported functions.

   malloc: size → bin (thread-local), pop a slot, count it, mark it live: 19 instructions.
   free: address → granule (one rotation checks area and alignment together) → pool → class → bin, push; the state byte
   must name that class: 21 instructions.  test-instructions holds both to their numbers.

   free could take the class from the state byte, which it reads anyway.  But where the live blocks are many that byte is not in
   the first cache, and then the bin's address, and all that later mallocs read of bins, waits for it.  The classes
   of pools are a byte for 32 KiB, so they are there; then only a comparison hangs on the state byte, which the
   processor guesses (bench/server_churn shows the difference).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_FAST_H
#define GLEANER_FAST_H

#include "heap/heap.h"
#include "heap/thread_heap.h"

/* Everything that the fast paths do not do. */
void *heap_malloc_slow(size_t size, enum heap_source source, const void *caller);
void *heap_malloc_medium(size_t size, enum heap_source source, const void *caller);
void heap_free_other(void *block);             /* not a granule of the small area */
void heap_free_slow(void *block);              /* tracked, old, or no live block */
void heap_free_full(void *block, struct bin *bin); /* checked and marked free; the bin is full.  Or in a pool without a class */

/* Where the function that this is inlined in was called from. */
#define CALLER() __builtin_extract_return_addr(__builtin_return_address(0))

/* Where a function's last step is to return the block: saves the copy that the compiler makes when the bin's address is in the
   register of the result. */
#ifdef __x86_64__
#define IN_RESULT_REGISTER(block, after) __asm__("" : "+a"(block), "+q"(after))
#else
#define IN_RESULT_REGISTER(block, after) ((void)0)
#endif

/* Pops a slot from the bin and marks it, or lets `slow` run. `tail`: what follows only returns it.  A slot is never NULL, which the
   compiler need not check again. */
#define BIN_POP(b, medium, tail, slow)                                                                 \
    do {                                                                                          \
        size_t n_;                                                                                \
        if (unlikely(__builtin_sub_overflow((b)->n, 1, &n_))) slow;                               \
        if (unlikely(--(b)->left < 0)) slow; /* the slow path counts on it */                      \
        void *block_ = (b)->slot[n_];                                                             \
        if (!block_) __builtin_unreachable();                                                     \
        (b)->n = n_;                                                                              \
        int8_t class_ = (int8_t)(b)->class; /* while the bin's address is there */                \
        if (tail) IN_RESULT_REGISTER(block_, class_);                                             \
        *state_of(block_, medium) = class_;                                                       \
        return block_;                                                                            \
    } while (0)

static ALWAYS_INLINE void *heap_malloc_fast(size_t size, enum heap_source source)
{
    if (unlikely(size > SMALL_MAX)) return heap_malloc_medium(size, source, CALLER());
    struct bin *b = heap_tls.by_size[(size + 15) >> 4];
    BIN_POP(b, false, source == HEAP_MALLOC, return heap_malloc_slow(size, source, CALLER()));
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
    int8_t *state = pool_tables.small_state;
    uintptr_t class = *small_pool_class(state, granule >> (SMALL_POOL_SHIFT - SMALL_GRANULE_SHIFT));
    if (unlikely(state[granule] != (int8_t)class)) {
        heap_free_slow(block);
        return;
    }
    __asm__("" : "+r"(granule)); /* or the sum of both is kept, by an instruction of its own */
    state[granule] = 0;
    struct bin *b = heap_tls.by_class[class];
    size_t n = b->n;
    if (unlikely(n >= b->cap)) {
        heap_free_full(block, b);
        return;
    }
    b->slot[n] = block;
    b->n = n + 1;
}

/* heap_usable_size for a block that the caller knows to be live, as malloc_usable_size may take for granted: of other addresses in a
   small pool it says what their pool's slots hold.  Programs that count their memory ask before each free (redis
   does), and add what they hear to a shared counter: that atomic addition would wait for the state byte.  It is on its way when
   free comes. */
static ALWAYS_INLINE size_t heap_usable_size_fast(const void *block)
{
    uintptr_t granule = rotate_right((uintptr_t)block - pool_tables.small_base, SMALL_GRANULE_SHIFT);
    if (unlikely(granule >= pool_tables.small_granules || heap_options.reclaim)) return heap_usable_size(block);
    int8_t *state = pool_tables.small_state;
    __builtin_prefetch(state + granule, 1);
    return class_size[*small_pool_class(state, granule >> (SMALL_POOL_SHIFT - SMALL_GRANULE_SHIFT))];
}

#endif
