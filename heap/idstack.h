/* idstack.h: a lock-free stack of numbered things (R. K. Treiber, "Systems Programming: Coping with
   Parallelism", IBM RJ 5118, 1986) with a tag against the ABA problem.  Whole at every instant, so a child
   forked at any moment can go on using it; what a vanished thread held between pop and push is lost to the child, no more.
   The links live in an array of the user's: `next(id)` below.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_IDSTACK_H
#define GLEANER_IDSTACK_H

#include "heap/base.h"

#define ID_NONE UINT32_MAX

/* Low half: id + 1 of the top, 0 when empty; high half: the tag, which every change increments. */
typedef _Atomic uint64_t idstack;

/* Declares NAME_push and NAME_pop for things whose link is the `_Atomic uint32_t` lvalue LINK(id). */
#define IDSTACK_FUNCTIONS(NAME, LINK)                                                             \
    static inline void NAME##_push_chain(idstack *s, uint32_t first, uint32_t last)               \
    {                                                                                             \
        uint64_t old = atomic_load_explicit(s, memory_order_relaxed), new;                        \
        do {                                                                                      \
            atomic_store_explicit(&LINK(last), (uint32_t)old, memory_order_relaxed);              \
            new = ((old >> 32) + 1) << 32 | (first + 1u);                                         \
        } while (!atomic_compare_exchange_weak_explicit(s, &old, new, memory_order_release,       \
                                                        memory_order_relaxed));                   \
    }                                                                                             \
    static inline void NAME##_push(idstack *s, uint32_t id) { NAME##_push_chain(s, id, id); }     \
    static inline uint32_t NAME##_pop(idstack *s)                                                 \
    {                                                                                             \
        uint64_t old = atomic_load_explicit(s, memory_order_acquire), new;                        \
        do {                                                                                      \
            if ((uint32_t)old == 0) return ID_NONE;                                               \
            uint32_t next = atomic_load_explicit(&LINK((uint32_t)old - 1), memory_order_relaxed); \
            new = ((old >> 32) + 1) << 32 | next;                                                 \
        } while (!atomic_compare_exchange_weak_explicit(s, &old, new, memory_order_acquire,       \
                                                        memory_order_acquire));                   \
        return (uint32_t)old - 1;                                                                 \
    }

#endif
