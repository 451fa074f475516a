/* vector.c: only a vector register of a running thread holds it (T5, H23), `xmm`: the upper half of xmm11; `ymm`: lane 3 of
   ymm15.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "place.h"

#if defined __x86_64__

static volatile int held_now, leave;

/* Loops until `leave`; the pointer is in no other register. */
static void *in_xmm(void)
{
    uint64_t back, key = leaks_key;
    __asm__ volatile("movq %1, %%xmm11\n\tmovq %2, %%xmm12\n\tpxor %%xmm12, %%xmm11\n\t"
                     "pslldq $8, %%xmm11\n\tmovl $1, %3\n"
                     "1: pause\n\tcmpl $0, %4\n\tje 1b\n\t"
                     "psrldq $8, %%xmm11\n\tmovq %%xmm11, %0\n\tpxor %%xmm11, %%xmm11"
                     : "=r"(back)
                     : "r"(held), "r"(key), "m"(held_now), "m"(leave)
                     : "xmm11", "xmm12", "memory", "cc");
    return (void *)back;
}

__attribute__((target("avx2"))) static void *in_ymm(void)
{
    uint64_t back, key = leaks_key;
    __asm__ volatile("vmovq %1, %%xmm15\n\tvmovq %2, %%xmm14\n\tvpxor %%xmm14, %%xmm15, %%xmm15\n\t"
                     "vpermq $0x15, %%ymm15, %%ymm15\n\t" /* lane 3 = lane 0; the others = lane 1 = 0 */
                     "movl $1, %3\n"
                     "1: pause\n\tcmpl $0, %4\n\tje 1b\n\t"
                     "vextracti128 $1, %%ymm15, %%xmm14\n\tvpsrldq $8, %%xmm14, %%xmm14\n\t"
                     "vmovq %%xmm14, %0\n\tvzeroall"
                     : "=r"(back)
                     : "r"(held), "r"(key), "m"(held_now), "m"(leave)
                     : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
                       "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "memory", "cc");
    return (void *)back;
}

static void *body(void)
{
    sem_post(&held_ready);
    return strcmp(variant, "ymm") == 0 ? in_ymm() : in_xmm();
}

static void put(void *block)
{
    if (strcmp(variant, "ymm") == 0 && !__builtin_cpu_supports("avx2")) SKIP("no AVX2");
    holder_start(block, body);
    while (!held_now) short_sleep();
}

static void *take(void)
{
    leave = 1;
    return holder_end();
}

#else
static void put(void *block)
{
    SKIP("x86-64 assembler");
}
static void *take(void)
{
    return NULL;
}
#endif
