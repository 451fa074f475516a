/* syscall.h: raw system calls.  They neither touch errno nor pass through a libc function that
   another preloaded library, or the program, has wrapped (jemalloc#443, mimalloc#713).  Results are the kernel's: a negative
   errno on failure.  This header and arch.h are the only places that depend on the machine.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_SYSCALL_H
#define GLEANER_SYSCALL_H

#include <sys/syscall.h>

#if defined(__x86_64__)
static inline long raw_syscall6(long nr, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long ret;
    __asm__ volatile("syscall"
                     : "=a"(ret)
                     : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return ret;
}
#elif defined(__aarch64__)
static inline long raw_syscall6(long nr, long a, long b, long c, long d, long e, long f)
{
    register long x8 __asm__("x8") = nr;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory", "cc");
    return x0;
}
#else
#error "Gleaner runs on x86-64 and aarch64"
#endif

/* In a loop that waits. */
static inline void raw_pause(void)
{
#if defined(__x86_64__)
    __asm__ volatile("pause");
#else
    __asm__ volatile("yield");
#endif
}

#define raw_syscall(nr, ...) raw_syscall6(nr, RAW_ARGS(__VA_ARGS__))

/* One to six arguments as the six registers that the kernel, and a seccomp filter, sees.  An int has nothing in the upper half, as libc's calls have
   it on both machines: who writes a filter compares 64 bits with what libc passes (AT_FDCWD is 0xffffff9c). */
#define RAW_ARGS(...) RAW_SIX_(__VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define RAW_SIX_(a, b, c, d, e, f, ...) RAW_ONE_(a), RAW_ONE_(b), RAW_ONE_(c), RAW_ONE_(d), RAW_ONE_(e), RAW_ONE_(f)
#define RAW_ONE_(x) ((long)(x) & _Generic((x), int: 0xffffffffL, default: -1L))

#endif
