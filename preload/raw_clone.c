/* raw_clone.c: the system call clone and the first instructions of the child, which has a stack of
   its own and therefore must not return into C.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/raw_clone.h"

#include <sys/syscall.h>

long raw_clone(unsigned long flags, void *stack_top, void (*run)(void *), void *argument, _Atomic uint32_t *end)
{
    uintptr_t stack = (uintptr_t)stack_top & ~(uintptr_t)15;
    long ret;
#if defined(__x86_64__)
    register _Atomic uint32_t *r10 __asm__("r10") = end;
    register long r8 __asm__("r8") = 0;
    register void (*r12)(void *) __asm__("r12") = run;
    register void *r13 __asm__("r13") = argument;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xor %%ebp, %%ebp\n\t" /* the end of the frames, for debuggers */
                     "mov %%r13, %%rdi\n\t"
                     "call *%%r12\n\t"
                     "hlt\n"
                     "1:"
                     : "=a"(ret)
                     : "a"((long)SYS_clone), "D"(flags), "S"(stack), "d"(0L), "r"(r10), "r"(r8),
                       "r"(r12), "r"(r13)
                     : "rcx", "r11", "memory", "cc");
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = SYS_clone;
    register long x0 __asm__("x0") = (long)flags;
    register long x1 __asm__("x1") = (long)stack;
    register long x2 __asm__("x2") = 0;
    register long x3 __asm__("x3") = 0;
    register _Atomic uint32_t *x4 __asm__("x4") = end; /* after the thread pointer here */
    register void (*x9)(void *) __asm__("x9") = run;
    register void *x10 __asm__("x10") = argument;
    __asm__ volatile("svc 0\n\t"
                     "cbnz x0, 1f\n\t"
                     "mov x29, xzr\n\t"
                     "mov x0, x10\n\t"
                     "blr x9\n\t"
                     "udf #0\n"
                     "1:"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x9), "r"(x10)
                     : "x30", "memory", "cc");
    ret = x0;
#endif
    return ret;
}
