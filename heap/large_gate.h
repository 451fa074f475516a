/* large_gate.h: the gate around jemalloc, whose locks must not be held across a fork.

   1. Data.  How many threads are inside, sharded; how many forks have the gate closed.
   2. Synchronisation.  A thread announces itself, then looks whether the gate is closed; fork's
      prepare closes it, then looks whether anyone is inside (Dekker's scheme, all sequentially
   consistent). So when prepare has seen nobody inside, nobody will be until it reopens.
   3. Nobody waits for the gate: who finds it closed uses the direct path (large_map.h) instead, so
   no lock order exists between fork and the program's locks (glibc's tst-malloc-fork-deadlock).
      Prepare waits for at most 10 ms; a child whose gate was not empty then never enters again.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_LARGE_GATE_H
#define GLEANER_LARGE_GATE_H

#include "heap/base.h"

#define LARGE_SHARDS 8u

/* What a thread needs to know; zero at its birth, nothing to undo at its end. */
struct large_thread {
    uint8_t shard; /* its share of the counters and caches, + 1; 0: none yet */
    bool inside;   /* in jemalloc now: a signal handler then finds the gate closed */
    bool je_ready; /* jemalloc's own thread data is set up */
};
extern THREAD_LOCAL struct large_thread large_thread;

/* The thread's shard, 0 … LARGE_SHARDS - 1. */
unsigned large_shard_slow(void);
static inline unsigned large_shard(void)
{
    return likely(large_thread.shard) ? large_thread.shard - 1u : large_shard_slow();
}

/* May the calling thread enter jemalloc?  If so it must leave soon. */
bool large_gate_enter(void);
void large_gate_leave(void);

/* Will nobody ever enter again in this process? */
bool large_gate_broken(void);

void large_gate_prepare(void);
void large_gate_parent(void);
void large_gate_child(void);

#endif
