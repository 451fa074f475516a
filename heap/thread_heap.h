/* thread_heap.h: what a thread allocates from.

   1. Data.  A thread heap holds for every class a bin (bin.h), a cache in front of the pools that the heap owns.

   2. Synchronisation.  Everything in a heap belongs to the thread that uses it, but `notices`: a
      stack of pools of ours into which other threads have flushed slots (many push, we take all).
      A heap is never freed.  At a thread's end it is set aside whole (idle) and the next thread takes
      it as it is: thread birth and death touch no pool.  A thread that needs a pool takes an idle heap
      apart before it takes fresh memory: pools of it become orphans of their class, for whoever needs
      one.  No lock anywhere; see rescue.h for what a forked child does.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_THREAD_HEAP_H
#define GLEANER_THREAD_HEAP_H

#include "heap/bin.h"

enum heap_state {
    THREAD_HEAP_ACTIVE,
    THREAD_HEAP_IDLE,   /* on the stack of idle heaps, with pools and caches */
    THREAD_HEAP_SPARE,  /* on the stack of spare heaps, empty */
    THREAD_HEAP_BROKEN  /* in a forked child: its thread is not there */
};

struct heap_tls;

struct thread_heap {
    struct heap_thread_hook hook;
    uint32_t number; /* from 0, in order of creation */
    uint32_t ticks;
    uint64_t trimmed; /* os_now_coarse of the last trim_bins */
    uint32_t takes_since_fork; /* pools wanted since a fork left heaps broken */
    uint32_t hooks; /* heap_hooks_number when its counts began */
    _Atomic uint32_t state; /* enum heap_state */
    _Atomic(const struct heap_tls *) tls; /* its thread's own words.  Stale where a thread has ended without our knowledge: *tls is to be
                                             looked at with care, and is what it was where its `heap` is this one. */
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
    bool slot_in_hand;        /* a slot is neither live nor free, or both, while code runs that is not ours: verify must not look */
};
#define ATTENTION_WATCH 1u /* heap_options.watch */
extern THREAD_LOCAL struct heap_tls heap_tls;

/* The calling thread's heap, made or taken over if need be; NULL when there is no memory. */
struct thread_heap *thread_heap_get(void);

/* Sets the calling thread's heap aside; it has none then. */
void thread_heap_release(void);

/* For rescue.c: puts an empty heap of no thread on the stack of spare ones, empties both stacks. */
void thread_heap_spare(struct thread_heap *);
void thread_heap_forget_stacks(void);

/* Takes an idle heap apart, if there is one, so that its pools can be adopted. */
bool thread_heap_take_idle_apart(void);

/* Flushes the calling thread's bins and takes every idle heap apart. */
void thread_heap_trim(struct thread_heap *);

/* Work for now and then: decay, the tick hook. `heap` is the calling thread's. */
void thread_heap_tick(struct thread_heap *);

/* All heaps ever made, by number; NULL past the last. */
struct thread_heap *thread_heap_by_number(uint32_t number);
uint32_t thread_heap_count(void);

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
HIDDEN extern const struct heap_hooks *heap_hooks_every; /* the same where the ways of every.c are open, else NULL */
HIDDEN extern _Atomic uint32_t heap_hooks_number;  /* how often they were set */

/* The heap's counts begin anew, since the hooks were set (heap_set_hooks). */
void thread_heap_renew(struct thread_heap *);

static ALWAYS_INLINE void thread_heap_notice_hooks(struct thread_heap *h)
{
    if (unlikely(h->hooks != atomic_load_explicit(&heap_hooks_number, memory_order_acquire))) thread_heap_renew(h);
}

#endif
