/* red-zone.c: only the 128 bytes below the stack pointer of a leaf function hold it (T4, H22).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "place.h"

#if defined __x86_64__

static volatile int held_now, leave;

/* Assembler, so that no compiler moves the stack pointer: the word lies at -64(%rsp) and in no register. */
void *hold(concealed, uint64_t key, volatile int *held_now, volatile int *leave);
__asm__(".text\n.type hold, @function\nhold:\n\t"
        "xor %rsi, %rdi\n\tmov %rdi, -64(%rsp)\n\txor %edi, %edi\n\txor %esi, %esi\n\t"
        "movl $1, (%rdx)\n"
        "1: pause\n\tcmpl $0, (%rcx)\n\tje 1b\n\t"
        "mov -64(%rsp), %rax\n\tmovq $0, -64(%rsp)\n\tret\n.size hold, .-hold");

static void *body(void)
{
    sem_post(&held_ready);
    return hold(held, leaks_key, &held_now, &leave);
}

static void put(void *block)
{
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
    SKIP("only x86-64 has a red zone here");
}
static void *take(void)
{
    return NULL;
}
#endif
