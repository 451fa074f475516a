/* thread-local.c: in a thread-local variable of another thread (H26).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "place.h"

static _Thread_local void *volatile mine;

static void *body(void)
{
    mine = reveal(held);
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
