/* reclaim_place.h: what reclaim knows of each place where blocks are allocated: how many it condemned and reclaimed there, and whether one was
   ever proven not to be lost.

   1. Data.  A place is what the hook `place` numbers: a call stack, or malloc's caller of blocks whose stack was not taken.  Each
      stack also belongs to the place of its caller: a proof against either is one against both, since the same blocks may be
      sampled or not.  Places are never forgotten, in forked children neither.
   2. Synchronisation.  Atomic counters; the holder of the gate alone counts what was condemned.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_RECLAIM_PLACE_H
#define GLEANER_RECLAIM_PLACE_H

#include "heap/base.h"

#define RECLAIM_PLACES (1u << 20) /* numbers are below this */

/* Makes a place known; `caller` is its caller's place, itself where it is one, 0: unknown.  False without memory. */
bool reclaim_place_know(uint32_t place, uint32_t caller);

bool reclaim_place_is_vetoed(uint32_t place);
void reclaim_place_veto(uint32_t place);

/* A block was condemned by collection `number`, at a tick (lost_tick); how many were by earlier ones, and when the first was. */
void reclaim_place_condemn(uint32_t place, uint32_t number, uint32_t tick);
uint32_t reclaim_place_condemned_before(uint32_t place, uint32_t number, uint32_t *first);

void reclaim_place_reclaimed(uint32_t place, size_t bytes);

struct reclaim_place_view {
    uint32_t place;
    uint64_t reclaimed, reclaimed_bytes; /* in this process */
    uint64_t vetoes;                     /* ever */
};

/* Calls `each` for every place with anything reclaimed or vetoed.  Any thread, and a snapshot child. */
void reclaim_place_each(void (*each)(const struct reclaim_place_view *, void *user), void *user);

/* After fork, in the child: nothing was reclaimed by this process. */
void reclaim_place_fork_child(void);

#endif
