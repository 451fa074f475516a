/* valgrind.h: does the process run in valgrind's simulation?  It ends the whole run at a clone that is neither a thread nor a
   fork of libc's ("Unsupported clone() flags"), so nothing may be stopped there.

   Asked by its client request 0x1001, RUNNING_ON_VALGRIND (valgrind manual, "The Client Request mechanism"): rotations that add up to
   nothing before an instruction that does nothing, which its translator knows.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_VALGRIND_H
#define GLEANER_VALGRIND_H

#include "heap/base.h"

static inline bool runs_in_valgrind(void)
{
    volatile uint64_t request[6] = {0x1001, 0, 0, 0, 0, 0};
    uint64_t answer = 0;
#if defined __x86_64__
    __asm__ volatile("rolq $3, %%rdi\n\trolq $13, %%rdi\n\trolq $61, %%rdi\n\trolq $51, %%rdi\n\t"
                     "xchgq %%rbx, %%rbx"
                     : "+d"(answer)
                     : "a"(request)
                     : "cc", "memory", "rdi");
#elif defined __aarch64__
    register uint64_t x3 __asm__("x3") = 0;
    register volatile uint64_t *x4 __asm__("x4") = request;
    __asm__ volatile("ror x12, x12, #3\n\tror x12, x12, #13\n\tror x12, x12, #51\n\tror x12, x12, #61\n\t"
                     "orr x10, x10, x10"
                     : "+r"(x3)
                     : "r"(x4)
                     : "cc", "memory", "x12");
    answer = x3;
#endif
    return answer != 0;
}

#endif
