/* thread_heap.h: what a thread allocates from.

   1. Data.  A thread heap holds for every class a bin: a last-in-first-out cache of slots in front of the
      pools that the heap owns (lists `avail` and `full`).  malloc pops a slot, free pushes one, whoever owns its
      pool; the bitmaps are only touched when a bin runs empty (refill) or over (flush).  The bin also
      counts: `left` is how many more blocks it may hand out before a sample point, and what it has
      gone down by is how many it did hand out.

   2. Synchronisation.  Everything in a heap belongs to the thread that uses it, but `notices`: a
      stack of pools of ours into which other threads have flushed slots (many push, we take all).
      A heap is never freed.  At a thread's end it is set aside whole (idle) and the next thread takes
      it as it is: thread birth and death touch no pool.  A thread that needs a pool takes an idle heap
      apart before it takes fresh memory: pools of it become orphans of their class, for whoever needs
      one.  No lock anywhere; see rescue.h for what a forked child does.

   3. Other threads' frees.  A flushed slot of a pool that another heap owns is marked returned in its
      state byte and counted in its pool; the first one since the owner last looked puts the pool on
      the owner's notices.  No memory is needed for it, so a consumer can fall behind without bound.

   4. False sharing.  A slot that is freed far from its neighbours' thread and popped again there splits a
      cache line between two threads for as long as it is reused (E. D. Berger et al., "Hoard", ASPLOS 2000: passively induced false
      sharing).  The fast paths know no owners, so the slow path sorts such slots out: before a bin hands out its first
      block, and every few thousand blocks.

   5. Beats.  A program whose bins never run empty or over would come by no slow path.  So `left` is never set to more than
      BIN_BEAT; what a sample point is further away waits in `follow`.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_THREAD_HEAP_H
#define GLEANER_THREAD_HEAP_H

#include "heap/pool.h"

struct bin {
    /* The fast paths: two lines of code each, so their fields come first. */
    size_t n;     /* slots in the cache */
    size_t cap;   /* free flushes when it is reached */
    int64_t left; /* blocks that may be handed out before the next sample point */
    uint8_t class;
    bool busy;     /* a refill has happened since the last idle look (trim_bins) */
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

enum heap_state {
    THREAD_HEAP_ACTIVE,
    THREAD_HEAP_IDLE,   /* on the stack of idle heaps, with pools and caches */
    THREAD_HEAP_SPARE,  /* on the stack of spare heaps, empty */
    THREAD_HEAP_BROKEN  /* in a forked child: its thread is not there */
};

struct thread_heap {
    struct heap_thread_hook hook;
    uint32_t number; /* from 0, in order of creation */
    uint32_t ticks;
    uint64_t trimmed; /* os_now_coarse of the last trim_bins */
    uint32_t takes_since_fork; /* pools wanted since a fork left heaps broken */
    _Atomic uint32_t state; /* enum heap_state */
    _Atomic uint32_t link;  /* next idle or spare heap */
    _Atomic uint32_t notices; /* newest pool with returned slots, id + 1; 0: none */
    struct bin *bin[HEAP_CLASSES]; /* NULL for class 0 and classes without pools */
};

/* The thread's own words.  Before the thread has a heap every bin is `heap_no_bin`, which sends both
   fast paths to the slow one. */
struct heap_tls {
    struct bin *by_size[SMALL_MAX / 16 + 1];
    struct bin *by_class[2 * HEAP_CLASSES]; /* by class, with STATE_OLD or without */
    struct thread_heap *heap; /* NULL: none yet, or none any more */
    uint32_t suspended;       /* sampling: heap_suspend_sampling */
    uint32_t attention;       /* not 0: every block takes the slow path; ATTENTION_WATCH and twice the number of heap_ignore_begin */
    bool ending;              /* heap_thread_exit was called: get a heap only for a moment */
};
#define ATTENTION_WATCH 1u /* heap_options.watch */
extern THREAD_LOCAL struct heap_tls heap_tls;

/* The calling thread's heap, made or taken over if need be; NULL when there is no memory. */
struct thread_heap *thread_heap_get(void);

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

/* Sets the calling thread's heap aside; it has none then. */
void thread_heap_release(void);

/* For rescue.c: puts an empty heap of no thread on the stack of spare ones, empties both stacks. */
void thread_heap_spare(struct thread_heap *);
void thread_heap_forget_stacks(void);

/* Flushes the calling thread's bins and takes every idle heap apart. */
void thread_heap_trim(struct thread_heap *);

/* Work for now and then: decay, the tick hook. `heap` is the calling thread's. */
void thread_heap_tick(struct thread_heap *);

/* All heaps ever made, by number; NULL past the last. */
struct thread_heap *thread_heap_by_number(uint32_t number);
uint32_t thread_heap_count(void);

/* Slots given back by threads without a heap, by class (part of `taken`, negative). */
HIDDEN extern _Atomic int64_t late_taken[HEAP_CLASSES];

/* Bytes of slots outside their pools, over all heaps (live and cached). */
HIDDEN extern _Atomic int64_t heap_taken_bytes;

/* Counts slots out of (positive) or into pools, and notices a new peak of the live bytes. */
void heap_account(int64_t bytes);

/* See heap_watch_forks; without it a word that is never 0. */
HIDDEN extern const atomic_uint *heap_fork_word;
HIDDEN extern void (*heap_forked)(void);

static inline void heap_notice_fork(void)
{
    if (unlikely(atomic_load_explicit(heap_fork_word, memory_order_relaxed) == 0)) heap_forked();
}

HIDDEN extern struct heap_options heap_options;
HIDDEN extern const struct heap_hooks *heap_hooks; /* never NULL */

#endif
