/* all-blocked.c: in the frame of a thread that has all signals blocked (H2).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "place.h"

#include <signal.h>

static void *body(void)
{
    sigset_t all;
    sigfillset(&all);
    CHECK(pthread_sigmask(SIG_SETMASK, &all, NULL) == 0);
    void *volatile mine = reveal(held);
    holder_wait();
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
