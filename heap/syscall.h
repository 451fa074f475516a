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

#define raw_syscall(nr, ...) RAW_PICK_(__VA_ARGS__, 6, 5, 4, 3, 2, 1)(nr, __VA_ARGS__)
#define RAW_PICK_(a, b, c, d, e, f, n, ...) RAW_N_(n)
#define RAW_N_(n) RAW_CAT_(raw_call, n)
#define RAW_CAT_(a, b) a##b
#define raw_call1(nr, a) raw_syscall6(nr, (long)(a), 0, 0, 0, 0, 0)
#define raw_call2(nr, a, b) raw_syscall6(nr, (long)(a), (long)(b), 0, 0, 0, 0)
#define raw_call3(nr, a, b, c) raw_syscall6(nr, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define raw_call4(nr, a, b, c, d) raw_syscall6(nr, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)
#define raw_call5(nr, a, b, c, d, e)                                                              \
    raw_syscall6(nr, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), 0)
#define raw_call6(nr, a, b, c, d, e, f)                                                           \
    raw_syscall6(nr, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

#endif
