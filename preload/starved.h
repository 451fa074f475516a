/* starved.h: reclaim where the system refuses memory: a collection at once, and what one needs to run at all then.

   A limit on addresses (RLIMIT_AS, RLIMIT_DATA) also binds the collector: its lists, the child's tables, new records.  So where there is one, addresses
   are kept in reserve, untouched, and given up before a collection or its verdict takes memory.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_STARVED_H
#define GLEANER_STARVED_H

#include "heap/hooks.h"

/* From start-up, where lost blocks are reclaimed: what runs a major collection and waits for it (collection_run's result). */
void starved_start(int (*collect)(void));

/* In the pause of a major collection: looks how much memory there is.  Opens descriptors. */
void starved_look(void);

/* What limits, the control group and the machine left then; UINT64_MAX: nobody has looked. */
uint64_t starved_room(void);

/* Is that less than half of what the heap has? */
bool starved_is_tight(void);

/* In a snapshot child: its own limits are as wide as they can be. */
void starved_in_child(void);

/* The holder of the gate.  True where there is a reserve now, or no need of one. */
bool starved_take_reserve(void);
void starved_give_reserve_up(void);

/* The process ends: its profile may need the reserve. */
void starved_end(void);

/* The `starving` hook: what may be reclaimed is.  True if anything was. */
bool starved(struct heap_thread_hook *);

/* After fork, in the child. */
void starved_forked(void);

#endif
