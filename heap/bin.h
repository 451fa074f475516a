/* bin.h: a thread's slots of one class.

   1. Data.  A bin is a last-in-first-out cache of slots in front of the pools of its class that the thread's heap owns
      (lists `avail` and `full`).  malloc pops a slot, free pushes one, whoever owns its pool; the bitmaps are only
      touched when a bin runs empty (refill) or over (flush), for many slots at a time.  The bin also counts: `left` is
      how many more blocks it may hand out before a sample point, and what it has gone down by is how many it
      did hand out.

   2. Other threads' frees.  A flushed slot of a pool that another heap owns is marked returned in its
      state byte and counted in its pool; the first one since the owner last looked puts the pool on
      the owner's notices.  No memory is needed for it, so a consumer can fall behind without bound.

   3. False sharing.  A slot that is freed far from its neighbours' thread and popped again there splits a
      cache line between two threads for as long as it is reused (E. D. Berger et al., "Hoard", ASPLOS 2000: passively induced false
      sharing).  The fast paths know no owners, so the slow path sorts such slots out: before a bin hands out its first
      block, and every few thousand blocks.

   4. Beats.  A program whose bins never run empty or over would come by no slow path.  So `left` is never set to more than
      BIN_BEAT; what a sample point is further away waits in `follow`.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_BIN_H
#define GLEANER_BIN_H

#include "heap/pool.h"

struct bin {
    /* The fast paths: two lines of code each, so their fields come first. */
    size_t n;     /* slots in the cache */
    size_t cap;   /* free flushes when it is reached */
    int64_t left; /* blocks that may be handed out before the next sample point */
    uint8_t class;
    bool busy;     /* a refill has happened since the last idle look (bin_idle) */
    uint16_t max_cap;
    uint32_t avail, full; /* heads of the lists of our pools, ID_NONE */
    uint32_t avail_last;
    uint32_t full_look; /* next full pool to look at for returned slots */
    int64_t left_start; /* what `left` was set to; allocated = counted + left_start - left */
    int64_t follow;     /* blocks that may be handed out without a sample point after `left` is used up */
    uint64_t counted;
    int64_t taken;      /* slots taken from pools minus slots given back; live = taken - n over all heaps */
    void *slot[];
};

#define BIN_BEAT 1024

/* Bytes of a bin of the class. */
size_t bin_bytes(unsigned class);

/* Makes a bin usable at its first block.  Until then its class is 0 and it is all zero, in pages that
   need not be there: a new thread's heap costs the bins that it uses. */
void bin_open(struct bin *, unsigned class);

/* Puts slots of `class` into the bin: at least one, or false when there is no memory. */
bool bin_refill(struct thread_heap *, struct bin *);

/* Makes room in a full bin: lets it grow, or gives its older half back. */
void bin_overflow(struct thread_heap *, struct bin *);

/* Gives the lowest `n` slots of the bin back to their pools. */
void bin_flush(struct thread_heap *, struct bin *, size_t n);

/* Gives back the slots whose neighbours may be another running thread's, where a cache line can hold both. */
void bin_unshare(struct thread_heap *, struct bin *);

/* Slots of an owned pool became free: puts it where it belongs, in a list of the bin or back to its area. */
void bin_pool_freed(struct bin *, struct pool *);

/* Gives back one slot of no bin (from a thread without a heap). */
void slot_return(void *block, unsigned class);

/* Collects what other threads have returned to pools of the heap. */
void bin_read_notices(struct thread_heap *);

/* Gives half of the slots back, and half of the room, if there was no refill since the last call. */
void bin_idle(struct thread_heap *, struct bin *);

/* Gives back the one pool that is kept although it is empty. */
void bin_give_spare(struct bin *);

/* Gives all pools away, to their areas or as orphans; the slots were flushed. */
void bin_close(struct bin *);

/* Slots given back by threads without a heap, by class (part of `taken`, negative). */
HIDDEN extern _Atomic int64_t late_taken[HEAP_CLASSES];

#endif
