/* deaths.h: the deaths of sampled blocks that a thread has still to count, where every block is sampled.

   1. What a death is counted by lies in the block's entry, and that mostly in no near cache: the entries of a heap are as many as its
      blocks.  So a death is put down, its entry asked for (prefetched), and the death before DEATHS others counted instead, whose entry has come
      meanwhile (software pipelining).  A free then waits for no entry: a sixth less time where blocks are many.
   2. Data.  A ring of DEATHS in each thread that has a shard of sites of its own (site.h), so there are few: whoever reads the sites, the lives or the
      entries takes what is pending into account (deaths_pending, once for all that it reads), and nothing need be counted first.  A thread that does
      nothing, too, is then read exactly; of one that runs what is read is of no one moment anyway.
   3. Synchronisation.  The ring is its thread's alone; others only read it.  A death is good if its entry is still its block's, so one that is
      read in the middle of a change is found out.
   4. Forks.  A child counts what was pending in the rings of the threads that it has not (sampler.c) and empties them.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_DEATHS_H
#define GLEANER_DEATHS_H

#include "sampler/site.h"
#include "sampler/tracked_entry.h"

#define DEATHS 4u
#define DEATHS_THREADS (SITE_SHARDS - SITE_OWN)
#define DEATHS_MOST (DEATHS * DEATHS_THREADS)

#define DEATH_OLD 0x80000000u /* beside the entry's number: the block was old */

struct death {
    _Atomic uint64_t what;  /* ticks << 32 | entry; 0: none.  One word, so that one load takes it again */
    _Atomic uint64_t bytes; /* when, as `ticks`: in bytes allocated and in time (lifetime.h) */
    _Atomic uintptr_t block;
    _Atomic(struct tracked_entry *) at; /* the entry; NULL: none */
};

/* All zero at first. */
struct deaths {
    uint32_t turn;
    struct death ring[DEATHS];
};

struct death_view {
    struct tracked_view was;
    uint32_t entry, ticks;
    uint64_t bytes;
    uint16_t thread; /* in which it died, as in tracked_view */
    bool old;
};

/* From now on the ring is that of the thread to which the shard, from SITE_OWN on, belongs. */
void deaths_of(struct deaths *, unsigned shard);

/* By rising entry, each once. */
struct deaths_pending {
    unsigned count;
    struct death_view death[DEATHS_MOST];
};

/* What is pending in all threads.  Any thread, and a snapshot child; no lock, no memory. */
void deaths_pending(struct deaths_pending *to);

/* In a forked child, while it has one thread and before an entry is used anew: nothing is pending from now on. */
void deaths_forget(void);

#endif
