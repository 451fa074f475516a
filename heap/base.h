/* base.h: the few macros and limits that every part of the library uses.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_BASE_H
#define GLEANER_BASE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)
#define CACHE_LINE ((size_t)64)
#define OS_PAGE ((size_t)4096) /* the unit of our tables; the system's page may be larger */

#define NOINLINE __attribute__((noinline))
/* On a declaration of data of another file: without it the access goes by the global offset table. */
#define HIDDEN __attribute__((visibility("hidden")))
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define COLD __attribute__((cold, noinline))
#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))
/* Initial-exec: the library is preloaded, never dlopen'd, and the general model would call
   __tls_get_addr, which allocates (glibc manual, "Replacing malloc"). */
#define THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))

static inline size_t round_up(size_t n, size_t to_power_of_two)
{
    return (n + to_power_of_two - 1) & ~(to_power_of_two - 1);
}

#endif
