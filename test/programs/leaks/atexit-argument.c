/* atexit-argument.c: as the argument of a function that __cxa_atexit has noted, which libc keeps (H52).  The function
   is called for a module of ours, not at the end.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#define STAYS /* libc does not wipe the entry */
#include "place.h"

extern int __cxa_atexit(void (*function)(void *), void *argument, void *module);
extern void __cxa_finalize(void *module);

static char module;

static void called(void *argument)
{
    held_back = conceal(argument);
}

static void put(void *block)
{
    CHECK(__cxa_atexit(called, block, &module) == 0);
}

static void *take(void)
{
    __cxa_finalize(&module);
    return reveal(held_back);
}
