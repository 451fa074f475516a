/* count.h: shared counters that cost no locked instruction while the process has one thread.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_COUNT_H
#define GLEANER_COUNT_H

#include "heap/base.h"
#include "heap/one_thread.h"

/* Adds `n`; any thread, and a signal handler: on x86 an addition to memory is one instruction, which
   a signal of the same thread cannot divide; elsewhere it is atomic always. */
static ALWAYS_INLINE void count_add(_Atomic uint64_t *counter, uint64_t n)
{
#if defined(__x86_64__)
    if (likely(ONE_THREAD())) {
        __asm__("addq %1, %0" : "+m"(*(uint64_t *)counter) : "r"(n) : "cc");
        return;
    }
#endif
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* Adds one to each of three. */
static ALWAYS_INLINE void count_one_of_each(_Atomic uint64_t *a, _Atomic uint64_t *b, _Atomic uint64_t *c)
{
#if defined(__x86_64__)
    if (likely(ONE_THREAD())) {
        __asm__("incq %0; incq %1; incq %2"
                : "+m"(*(uint64_t *)a), "+m"(*(uint64_t *)b), "+m"(*(uint64_t *)c)
                :
                : "cc");
        return;
    }
#endif
    atomic_fetch_add_explicit(a, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(b, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(c, 1, memory_order_relaxed);
}

#endif
