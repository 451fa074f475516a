/* alternate-stack.c: the block is the thread's alternate signal stack, which only the kernel knows (H43).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#define BYTES 65536
#include "place.h"

#include <signal.h>

static void put(void *block)
{
    /* The header stays below what a handler would use. */
    stack_t stack = {.ss_sp = block, .ss_size = BYTES};
    CHECK(sigaltstack(&stack, NULL) == 0);
}

static void *take(void)
{
    stack_t stack, none = {.ss_flags = SS_DISABLE};
    CHECK(sigaltstack(&none, &stack) == 0);
    return stack.ss_sp;
}
