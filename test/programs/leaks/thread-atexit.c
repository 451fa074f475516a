/* thread-atexit.c: as a thread_local object with a destructor, which libc keeps until the thread's end (H51).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "place.h"

extern int __cxa_thread_atexit_impl(void (*destructor)(void *), void *object, void *module);
extern void *__dso_handle;

static volatile concealed destroyed;

static void destructor(void *object)
{
    destroyed = conceal((char *)object - 16);
}

NOINLINE static void note(void)
{
    CHECK(__cxa_thread_atexit_impl(destructor, (char *)reveal(held) + 16, &__dso_handle) == 0);
}

static void *body(void)
{
    note();
    scrub_stack(16384);
    scrub_registers();
    holder_wait();
    return NULL;
}

static void put(void *block)
{
    holder_start(block, body);
}

static void *take(void)
{
    holder_end();
    return reveal(destroyed);
}
