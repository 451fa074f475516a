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

/* Adds one to a counter to which no other thread adds; a signal handler may. */
static ALWAYS_INLINE void count_own(_Atomic uint64_t *counter)
{
#if defined(__x86_64__)
    __asm__("incq %0" : "+m"(*(uint64_t *)counter) : : "cc");
#else
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
#endif
}

#endif
