/* memprof.h: the program's own heap profiles, weak handles and arenas, as gleaner.h describes them: the face to preload/.

   1. Parts.  memprof_hooks.c stands between the heap's hooks and the library's sampler, and draws the sample points;
      memprof_profile.c starts and ends profiles; memprof_entry.c is the table of what is tracked; memprof_event.c notes what
      happens to it and runs callbacks; memprof_collected.c is told of collections, memprof_fork.c of forks; memprof_weak.c
      and memprof_arena.c are what they say.
   2. Cost.  Nothing is installed before the program asks for something: until then the heap's hooks are the sampler's own.
   3. Synchronisation.  No lock.  A thread's gaps and queue are its own; entries change by compare-and-swap (memprof_entry.h);
      what happens without a thread (collections, ends of threads, postponed profiles) waits in two shared lists.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_MEMPROF_H
#define GLEANER_MEMPROF_H

#include "gleaner.h"
#include "sampler/sampler.h"

/* Once, from start-up: what profiles take from the configuration (depth, unwinder, seed).  Whether the sampler was started
   does not matter. */
void memprof_configure(const struct sampler_options *);

/* gleaner_memprof_*; errno is not kept.  0 or an errno value. */
int memprof_start(const struct gleaner_memprof_options *, unsigned long *profile);
int memprof_stop(void);
int memprof_discard(unsigned long profile);
size_t memprof_poll(void);
int memprof_counts(unsigned long profile, struct gleaner_memprof_counts *);
int memprof_custom(void *block, size_t bytes);

/* gleaner_weak_*. */
unsigned long memprof_weak_make(void *block, void (*cleared)(void *, enum gleaner_end, void *), void *user);
void *memprof_weak_get(unsigned long handle);
int memprof_weak_drop(unsigned long handle);

/* gleaner_arena_*. */
struct gleaner_arena *memprof_arena_begin(void *memory, size_t bytes, int flags);
int memprof_arena_alloc(struct gleaner_arena *, void *block, size_t bytes);
int memprof_arena_free(struct gleaner_arena *, void *block);
int memprof_arena_bulk(struct gleaner_arena *, const struct gleaner_piece *, size_t count);
void memprof_arena_reset(struct gleaner_arena *);
void memprof_arena_end(struct gleaner_arena *);
int memprof_arena_state(struct gleaner_arena *, const void *block);
void memprof_arena_lost(struct gleaner_arena *, struct gleaner_count *);

/* A collection is over and its verdict, if it has one, applied: notes promotions and lost blocks.  The holder of the
   collection gate, the world runs; no callback is run here, they are left to memprof_run. */
void memprof_collected(void);

/* A lost block is being taken back (collect:reclaim; the hook `reclaimed` of hooks.h calls this): its entry, as `freed` would
   get it.  Marks its tracked blocks reclaimed and clears its weak handles; the callbacks are left to memprof_run.  Returns
   what lies below, an entry of the library's own profile or 0. Any thread that holds no lock of the program's; not inside a
   pause. */
uint32_t memprof_reclaimed(void *block, uint32_t entry);

/* Runs what is left to be run in the calling thread, if it is not in a callback.  Where nothing of ours is held. */
void memprof_run(void);

/* In a forked child, after heap_fork_child and sampler_fork_child; `threads`: the parent had several. */
void memprof_fork_child(bool threads);

#endif
