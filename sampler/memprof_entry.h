/* memprof_entry.h: the table of what the program's own profiles and weak handles track.

   1. Data.  An entry of 64 bytes for every tracked block; its number, from MEMPROF_FIRST on, stands in the block's tag
      (heap/tag.h) in place of what would stand there otherwise, which the entry keeps (`below`): another entry of this table,
      an entry of the library's own profile (tracked.h), or a caller.  So a block may be tracked by several, and its end walks
      the chain. Entries lie in chunks of the metadata area, which is no root.  The program's data lie beside them in chunks
      of ordinary memory, which a collection scans like any mapping of the program's: they are roots, and the blocks'
      addresses are not.
   2. State.  One word: the generation, which grows with every release of the entry, and flags.  Events are flags that are set
      by compare-and-swap or fetch-or, so that nothing happens to an entry that was released and used again.
   3. Free entries: as in tracked.c, a small cache a thread before a Treiber stack, and numbers that were never used.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_MEMPROF_ENTRY_H
#define GLEANER_MEMPROF_ENTRY_H

#include "heap/tag.h"
#include "sampler/tracked.h"

#define MEMPROF_FIRST TRACKED_MAX
#define MEMPROF_MAX (TAG_NUMBER - MEMPROF_FIRST + 1)

enum memprof_kind {
    MEMPROF_BLOCK, /* sampled by a profile */
    MEMPROF_WEAK,  /* a weak handle */
    MEMPROF_PIECE  /* a sampled block of an arena: in no tag */
};

enum memprof_flag {
    MEMPROF_USED = 1 << 0, /* not free */
    /* what has happened to the block */
    MEMPROF_WAS_OLD = 1 << 1, /* when it was allocated */
    MEMPROF_PROMOTED = 1 << 2,
    MEMPROF_LOST = 1 << 3,
    MEMPROF_FREED = 1 << 4,
    MEMPROF_RECLAIMED = 1 << 5,
    MEMPROF_FREED_OLD = 1 << 6, /* with MEMPROF_FREED: it was old */
    MEMPROF_ENDED = MEMPROF_FREED | MEMPROF_RECLAIMED,
    /* what its tracker knows of that */
    MEMPROF_TOLD_ALLOC = 1 << 8,
    MEMPROF_TOLD_PROMOTED = 1 << 9,
    MEMPROF_TOLD_LOST = 1 << 10,
    MEMPROF_RUNS = 1 << 11,    /* a callback is at work */
    MEMPROF_QUEUED = 1 << 12,  /* in a queue, or in the hands of who delivers: whoever sets it puts the entry there */
    MEMPROF_SILENT = 1 << 13,  /* nobody is told any more */
    MEMPROF_TOLD_END = 1 << 14
};

struct memprof_profile;

struct memprof_entry {
    _Atomic uint64_t state; /* generation << 32 | flags */
    _Atomic uint64_t what;  /* address << 16 | kind << 8 | source */
    void *_Atomic owner;    /* struct memprof_profile; of a weak handle its callback */
    _Atomic uint32_t below;
    _Atomic uint32_t next;  /* in a queue or a list of free entries: index + 1; 0: last */
    uint64_t asked, given;  /* bytes << 16 | a half of the thread's number */
    uint64_t time;
    uint32_t n_samples, stack;
};
_Static_assert(sizeof(struct memprof_entry) == 64, "one cache line");

#define MEMPROF_CHUNK_SHIFT 12
#define MEMPROF_CHUNK (1u << MEMPROF_CHUNK_SHIFT)
#define MEMPROF_CHUNKS (MEMPROF_MAX >> MEMPROF_CHUNK_SHIFT)

extern _Atomic(struct memprof_entry *) memprof_chunks[MEMPROF_CHUNKS];
extern _Atomic(void *_Atomic *) memprof_data_chunks[MEMPROF_CHUNKS];

/* By number; NULL for one that is no entry. */
static inline struct memprof_entry *memprof_at(uint32_t number)
{
    uint32_t i = number - MEMPROF_FIRST;
    if (i >= MEMPROF_MAX) return NULL;
    struct memprof_entry *c = atomic_load_explicit(&memprof_chunks[i >> MEMPROF_CHUNK_SHIFT], memory_order_acquire);
    return c ? &c[i & (MEMPROF_CHUNK - 1)] : NULL;
}

/* The same for an entry that there is. */
static inline struct memprof_entry *memprof_entry(uint32_t number)
{
    struct memprof_entry *e = memprof_at(number);
    if (!e) __builtin_unreachable();
    return e;
}

/* The place of the program's data of an entry that there is. */
static inline void *_Atomic *memprof_data(uint32_t number)
{
    uint32_t i = number - MEMPROF_FIRST;
    return atomic_load_explicit(&memprof_data_chunks[i >> MEMPROF_CHUNK_SHIFT], memory_order_acquire) + (i & (MEMPROF_CHUNK - 1));
}

static inline void *memprof_block(const struct memprof_entry *e)
{
    return (void *)(atomic_load_explicit(&e->what, memory_order_acquire) >> 16);
}
static inline enum memprof_kind memprof_kind(const struct memprof_entry *e)
{
    return (enum memprof_kind)(atomic_load_explicit(&e->what, memory_order_relaxed) >> 8 & 0xff);
}

/* Entries that a thread has at hand; all zero at first. */
#define MEMPROF_CACHE 32
struct memprof_cache {
    uint32_t generation, count;
    uint32_t entry[MEMPROF_CACHE];
};

/* An entry for the caller to fill, whose state is that of a free one; 0 without memory.  `cache` may be NULL. */
uint32_t memprof_take(struct memprof_cache *cache);

/* Makes an entry that the caller has filled a used one, with these flags; returns its state. */
uint64_t memprof_use(uint32_t number, uint32_t flags);

/* Ends an entry: its data are forgotten, its generation grows, and it may be taken again. */
void memprof_give(struct memprof_cache *cache, uint32_t number);

/* Entries that were ever used are MEMPROF_FIRST up to this, exclusive. */
uint32_t memprof_end(void);

/* What lies below the entries of this table in a tag; flags stay.  (tracked_below.) */
uint32_t memprof_below(uint32_t tag);

/* In a forked child of a process with threads, while it has one: forgets all lists of free entries; memprof_give is called for
   those that are found free by memprof_fork_child. */
void memprof_entries_fork_child(void);
void memprof_give_again(uint32_t number);

/* Tests: at most so many entries. */
void memprof_limit(uint32_t entries);

#endif
