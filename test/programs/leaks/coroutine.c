/* coroutine.c: only a suspended coroutine's frame holds it, `mmap`: on a stack that was mapped, `malloc`: on a stack that is
   a block itself (H25).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "place.h"

#include <ucontext.h>

#define STACK ((size_t)65536)
static ucontext_t outside, inside;
static void *stack; /* where `malloc` has it: a block, held by this */

static void coroutine(void)
{
    void *volatile mine = reveal(held);
    scrub_stack(4096);
    scrub_registers();
    CHECK(swapcontext(&inside, &outside) == 0);
    held_back = conceal(mine);
    mine = NULL;
    scrub_stack(4096);
    scrub_registers();
    CHECK(swapcontext(&inside, &outside) == 0);
}

static void put(void *block)
{
    held = conceal(block);
    if (strcmp(variant, "malloc") == 0) {
        stack = calloc(1, STACK);
        CHECK(stack);
    } else {
        stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(stack != MAP_FAILED);
    }
    CHECK(getcontext(&inside) == 0);
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = STACK;
    makecontext(&inside, coroutine, 0);
    CHECK(swapcontext(&outside, &inside) == 0);
}

static void *take(void)
{
    CHECK(swapcontext(&outside, &inside) == 0);
    return reveal(held_back);
}
