/* reclaim_sites.h: the places where lost blocks were allocated, numbered for heap/reclaim_place.h: a call stack, or malloc's caller of a block
   that was not sampled.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_RECLAIM_SITES_H
#define GLEANER_RECLAIM_SITES_H

#include "heap/hooks.h"
#include "sampler/lost_place.h"

#define RECLAIM_SITES 32768u /* places; blocks of what more there are have none, and are not reclaimed */

/* The heap's hooks, see hooks.h. */
uint32_t reclaim_sites_place(uint32_t tag, const void *block, uint32_t *caller, bool *library);
void reclaim_sites_vetoed(struct heap_thread_hook *hook, uint32_t place, int proof);

struct reclaim_site {
    enum lost_where where;
    uint32_t number; /* of the stack (stack.h), or the caller (caller.h) */
    uint32_t proof;  /* stack of the call that proved first that a block of it was not lost; 0: none, or unknown */
};

/* What a number means; false for one that is none. Any thread, and a snapshot child. */
bool reclaim_sites_get(uint32_t place, struct reclaim_site *to);

#endif
