/* caller.h: return addresses of malloc's callers, interned: what is known of a block that was not sampled, where
   collection is on from the process's start.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_CALLER_H
#define GLEANER_CALLER_H

#include "heap/base.h"

#define CALLER_MAX ((uint32_t)1 << 20)

/* The number of a return address, made if it is new; 0 when the table is full.  Any thread, lock-free. */
uint32_t caller_intern(uintptr_t return_address);

/* 0 for a number that is none. */
uintptr_t caller_address(uint32_t number);

/* Numbers are below this. */
uint32_t caller_limit(void);

#endif
