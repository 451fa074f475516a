/* pointer_guard.c: the guard is read where glibc's ABI has it (x86-64: fs:0x30, sysdeps/x86_64/nptl/tls.h), or found from a jmp_buf in which one of the mangled
   values is known; either way a second jmp_buf proves it.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/pointer_guard.h"
#include "heap/mark.h"

#include <setjmp.h>

#if defined(__x86_64__)
#define SP_AT 6 /* JB_RSP */
#elif defined(__aarch64__)
#define SP_AT 13 /* JB_SP */
#endif

/* The stack pointer that setjmp mangled lies within this frame and its caller's. */
static NOINLINE bool proves(uintptr_t guard)
{
    jmp_buf at;
    volatile uintptr_t mangled;
    if (setjmp(at) != 0) return false;
    mangled = ((const uintptr_t *)(const void *)at)[SP_AT];
    uintptr_t sp = mark_demangled(mangled, guard), here = (uintptr_t)&at;
    return sp + 1024 > here && sp < here + 1024;
}

uintptr_t pointer_guard(void)
{
    uintptr_t guard = 0;
#if defined(__x86_64__)
    __asm__("mov %%fs:0x30, %0" : "=r"(guard));
#elif defined(__aarch64__)
    jmp_buf at;
    if (setjmp(at) == 0) {
        uintptr_t sp;
        __asm__("mov %0, sp" : "=r"(sp));
        guard = ((const uintptr_t *)(const void *)at)[SP_AT] ^ sp;
    }
#endif
    return guard != 0 && proves(guard) ? guard : 0;
}
