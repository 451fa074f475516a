/* jmp-buf.c: only a jmp_buf holds it, `rbp`: in the register that glibc stores mangled (T3, H24), `rbx`: in one that it stores
   as it is.  The jump takes it out.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "place.h"

#if defined __x86_64__

#include <setjmp.h>

static jmp_buf saved;

__attribute__((used)) static void until_the_end(void)
{
    holder_wait();
    longjmp(saved, 1);
}

/* The register holds the pointer when _setjmp is called, and nothing does when `until_the_end` runs. */
#define HOLD(name, REGISTER)                                                                       \
    void *name(jmp_buf, concealed, uint64_t key);                                                  \
    __asm__(".text\n.type " #name ", @function\n" #name ":\n\t"                                     \
            "push %rbp\n\tpush %rbx\n\tsub $8, %rsp\n\t"                                          \
            "mov %rsi, %" #REGISTER "\n\txor %rdx, %" #REGISTER "\n\t"                             \
            "call _setjmp@PLT\n\t"                                                                 \
            "test %eax, %eax\n\tjnz 1f\n\t"                                                        \
            "xor %ebp, %ebp\n\txor %ebx, %ebx\n\t"                                                 \
            "call until_the_end\n\t"                                                               \
            "1: mov %" #REGISTER ", %rax\n\t"                                                      \
            "add $8, %rsp\n\tpop %rbx\n\tpop %rbp\n\tret\n.size " #name ", .-" #name)

HOLD(hold_rbp, rbp);
HOLD(hold_rbx, rbx);

static void *body(void)
{
    void *block = (strcmp(variant, "rbx") == 0 ? hold_rbx : hold_rbp)(saved, held, leaks_key);
    memset(saved, 0, sizeof saved);
    return block;
}

static void put(void *block)
{
    holder_start(block, body);
}

static void *take(void)
{
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
