/* under-alternate.c: in the normal stack of a thread that waits in a handler on its alternate one (T7, H14).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "place.h"

#include <signal.h>

static void on_usr1(int sig)
{
    holder_wait();
}

static void *body(void)
{
    static char alternate[65536];
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    struct sigaction action = {.sa_handler = on_usr1, .sa_flags = SA_ONSTACK};
    CHECK(sigaltstack(&stack, NULL) == 0);
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    void *volatile mine = reveal(held);
    CHECK(raise(SIGUSR1) == 0);
    void *block = mine;
    mine = NULL;
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
