/* pool.h: pools, the tables that describe them, and where they come from.

   1. Data.  A pool is a run of equal slots: 32 KiB for the small classes, 256 KiB for the medium ones, at a
      multiple of its size.  Two areas of the window hold them, so an address gives its pool by a
      shift.  Nothing about a block is kept in it or beside it.  Per area there are

        state bytes   one for every granule (16 bytes in small, 128 in medium pools), at the granule
                      where a slot starts: what the slot is to the program.  See "States" below.
        free bits     one for every slot: set while the slot lies in its pool, free.
        descriptors   64 bytes a pool, in one table for both areas
        classes       one byte for every small pool, what its descriptor says, for free (fast.h).

      A byte and not a bit for the state (as in whippet's nofl space): malloc and free of neighbouring
      slots would otherwise chain through one word by load, modify and store, and a plain byte store
      needs no owner.  It costs a sixteenth of the small pools and saves some six instructions a malloc and free.

   2. States of a slot.
                                   free bit   state byte
        free, in its pool             1        0
        in a thread's cache           0        0
        returned by another thread    0        STATE_RETURNED (until the owner collects it)
        live                          0        class
        live and tracked, or lost     0        class | STATE_TRACKED
        live since before the latest
        collection                             | STATE_OLD
      For every pool: slots = free + cached + returned + live.  (heap_verify)

   3. Synchronisation.  Free bits, `free`, `list` and links belong to the owner, a thread heap.
      State bytes belong to whoever holds the slot. `returned`, `notified`, `owner`, `entries` are
      atomic.  A pool without an owner is on exactly one idstack (or in the hands of one thread).
      Growing an area is the one thing done under a lock (area_grow); the lock is never
      held across a fork by the forking thread, and a child steals it from a thread that is gone.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_POOL_H
#define GLEANER_POOL_H

#include "heap/idstack.h"
#include "heap/one_thread.h"
#include "heap/sizeclass.h"
#include "heap/window.h"

#define SMALL_POOL_SHIFT 15
#define MEDIUM_POOL_SHIFT 18
#define SMALL_GRANULE_SHIFT 4
#define MEDIUM_GRANULE_SHIFT 7
#define SMALL_POOLS ((uint32_t)(WINDOW_SMALL_BYTES >> SMALL_POOL_SHIFT))
#define MEDIUM_POOLS ((uint32_t)(WINDOW_MEDIUM_BYTES >> MEDIUM_POOL_SHIFT))
#define SMALL_BIT_WORDS 32u /* 2048 slots of 16 bytes */
#define MEDIUM_BIT_WORDS 4u /* 227 slots of 1152 bytes */

#define STATE_TRACKED 0x80u /* a free of it must look at its tag */
#define STATE_OLD 0x40u     /* was there at the latest collection; what is allocated since has it not */
#define STATE_RETURNED 0x80u /* tracked of class 0: negative as a signed byte, so never taken for live */
#define STATE_CLASS 0x3fu

enum pool_list {
    POOL_UNUSED,  /* no class: on an area's stack of free pools, or not yet used at all */
    POOL_AVAIL,   /* its owner's list of pools with free slots */
    POOL_FULL,    /* its owner's list of pools without */
    POOL_ORPHAN,  /* on the stack of its class, waiting for a heap that adopts it */
    POOL_HELD,    /* between two of these, in one thread's hands */
    POOL_NOWHERE, /* its addresses are somebody else's */
    POOL_ASIDE,   /* free, off the stacks, while pool_unmap_free looks */
    POOL_AWAY     /* free, not mapped */
};

struct thread_heap;

struct pool {
    /* any thread */
    _Atomic(struct thread_heap *) owner;
    _Atomic(_Atomic uint32_t *) entries; /* tag of each slot (tag.h); NULL until a slot has one */
    _Atomic uint32_t returned;       /* slots that other threads gave back since the last collection */
    _Atomic uint32_t link;           /* next on an idstack, or on the owner's list of notices */
    atomic_bool notified;            /* is on some heap's list of notices */
    /* the owner, or who holds the pool */
    uint8_t list; /* enum pool_list */
    uint8_t class;
    uint8_t entries_order; /* log2 of the entries that `entries` has room for */
    uint16_t slots, free;
    uint16_t cursor; /* word of the bitmap where the search for a free slot goes on */
    uint32_t next, prev; /* neighbours in the owner's list, ID_NONE at its ends */
    _Atomic uint32_t notice; /* next on the owner's list of notices */
    atomic_bool ignored; /* a block in it is, or was, to be ignored (heap_ignore) */
    atomic_bool reclaimed; /* a tag says that its slot was reclaimed (reclaimed.h) */
    uint8_t former; /* of a pool without a class, if so: the class that it had */
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct pool) == 64, "a descriptor is one cache line");

/* What the fast paths read; written as the areas grow, never lowered.  A state byte is found by
   adding the address, shifted by the granule, to the table's address less the area's, shifted too. */
HIDDEN extern uintptr_t small_state_bias, medium_state_bias;
struct pool_tables {
    uintptr_t small_base, medium_base;
    uintptr_t small_granules, medium_granules; /* granules whose state byte exists */
    int8_t *small_state, *medium_state;
    struct pool *pools; /* small pools, then medium ones */
    uint64_t *small_bits, *medium_bits;
};
HIDDEN extern struct pool_tables pool_tables;

/* The byte of the class table for a small pool, 0 while it has none.  The table lies at a fixed distance before the state bytes,
   so that free needs one address for both; the distance is no multiple of 4 KiB for the reason of STATE_SKEW (pool.c). */
#define SMALL_CLASS_BEFORE (16 * MIB - 2744)
static ALWAYS_INLINE uint8_t *small_pool_class(int8_t *small_state, uintptr_t index)
{
    return (uint8_t *)small_state - SMALL_CLASS_BEFORE + index;
}

/* Sets the tables' addresses; idempotent. */
void pool_start(void);

static inline uint32_t pool_id(const struct pool *p) { return (uint32_t)(p - pool_tables.pools); }
static inline struct pool *pool_of_id(uint32_t id) { return pool_tables.pools + id; }
static inline bool pool_is_medium(const struct pool *p) { return pool_id(p) >= SMALL_POOLS; }

static inline size_t pool_bytes(const struct pool *p)
{
    return (size_t)1 << (pool_is_medium(p) ? MEDIUM_POOL_SHIFT : SMALL_POOL_SHIFT);
}

/* The pool around an address that lies in a mapped piece of the given area. */
static inline struct pool *pool_of(const void *block, bool medium)
{
    return medium ? pool_tables.pools + SMALL_POOLS +
                        (((uintptr_t)block - pool_tables.medium_base) >> MEDIUM_POOL_SHIFT)
                  : pool_tables.pools + (((uintptr_t)block - pool_tables.small_base) >> SMALL_POOL_SHIFT);
}

static inline uintptr_t pool_base(const struct pool *p)
{
    uintptr_t id = pool_id(p);
    return id >= SMALL_POOLS ? pool_tables.medium_base + ((id - SMALL_POOLS) << MEDIUM_POOL_SHIFT)
                             : pool_tables.small_base + (id << SMALL_POOL_SHIFT);
}

static inline uint64_t *pool_bits_of(uintptr_t id, bool medium)
{
    return medium ? pool_tables.medium_bits + (id - SMALL_POOLS) * MEDIUM_BIT_WORDS
                  : pool_tables.small_bits + id * SMALL_BIT_WORDS;
}

static inline uint64_t *pool_bits(const struct pool *p) { return pool_bits_of(pool_id(p), pool_is_medium(p)); }

/* The state byte of the granule at an address of a mapped piece. */
static inline int8_t *state_of(const void *block, bool medium)
{
    return (int8_t *)(medium ? medium_state_bias + ((uintptr_t)block >> MEDIUM_GRANULE_SHIFT)
                             : small_state_bias + ((uintptr_t)block >> SMALL_GRANULE_SHIFT));
}

static inline bool state_is_live(int8_t s) { return (s & STATE_CLASS) != 0; }

static inline unsigned slot_of(const struct pool *p, const void *block)
{
    return slot_of_offset(p->class, (uintptr_t)block - pool_base(p));
}

/* The same from what the caller knows: pools lie at multiples of their size. */
static inline unsigned slot_in_pool(const void *block, unsigned class, bool medium)
{
    uintptr_t mask = ((uintptr_t)1 << (medium ? MEDIUM_POOL_SHIFT : SMALL_POOL_SHIFT)) - 1;
    return slot_of_offset(class, (uintptr_t)block & mask);
}

static inline void *slot_address(const struct pool *p, unsigned slot)
{
    return (void *)(pool_base(p) + (size_t)slot * class_size[p->class]);
}

/* An empty pool of the area, in the caller's hands (POOL_HELD): a used one whose pages may still be
   there, or a fresh one.  NULL when the system refuses. `growing`: the caller is filling pools one after the
   other, so the pages are made present in one call rather than by eight faults. */
struct pool *pool_take(bool medium, bool growing);

/* Gives a wholly free pool back to its area. */
void pool_give(struct pool *);

/* Says in both places of what class the pool is; 0: none.  pool_format and pool_give do. */
void pool_set_class(struct pool *, unsigned class);

/* Makes a held pool one of `class`: all slots free. */
void pool_format(struct pool *, unsigned class);

/* Turns slots that other threads have returned into free ones; the owner only. How many. */
unsigned pool_collect_returned(struct pool *);

/* The tag beside a slot: sets it (false if no memory), takes it (0 if none). */
bool pool_make_entries(struct pool *);
static inline bool pool_set_tag(struct pool *p, unsigned slot, uint32_t tag)
{
    if (unlikely(!atomic_load_explicit(&p->entries, memory_order_acquire)) && !pool_make_entries(p))
        return false;
    atomic_store_explicit(&atomic_load_explicit(&p->entries, memory_order_acquire)[slot], tag,
                          memory_order_release);
    return true;
}
uint32_t pool_tag(struct pool *, unsigned slot);
static inline uint32_t pool_take_tag(struct pool *p, unsigned slot)
{
    _Atomic uint32_t *entries = atomic_load_explicit(&p->entries, memory_order_acquire);
    if (unlikely(!entries)) return 0;
    if (!ONE_THREAD()) return atomic_exchange(&entries[slot], 0);
    uint32_t entry = atomic_load_explicit(&entries[slot], memory_order_relaxed);
    atomic_store_explicit(&entries[slot], 0, memory_order_release);
    return entry;
}

/* Gives all free pools back: their pages, and where a whole piece is free, its addresses (which count under
   RLIMIT_AS) and its part of the tables; it is mapped again when pools are needed.  Whole pieces, so that mappings
   stay few.  True if there were any. */
bool pool_unmap_free(void);

/* Gives the pages back of free pools that were not needed for `decay_ns`. */
void pool_decay(uint64_t now, uint64_t decay_ns);

/* Bytes mapped for pools, and for the tables. */
size_t pool_mapped_bytes(void);
size_t pool_table_bytes(void);

/* Pools that were ever taken, of the area: ids first … first + count - 1. */
void pool_range(bool medium, uint32_t *first, uint32_t *count);

/* Does any of [from, to) lie in what the tables of pools reach by now? */
bool pool_tables_reach(uintptr_t from, uintptr_t to);

/* After fork, in the child of a process with threads.  The kernel copies page after page while they run on, so a
   stack's top may be older than the links below it: the child forgets the stacks, takes only pools that
   nobody had (their descriptors say so), and finds the others again by pool_reclaim. */
void pool_fork_child(void);

/* In such a child, for a pool without a class that rescue.c has found. */
void pool_reclaim(struct pool *);

/* An orphan of a class, or NULL; and the opposite. */
struct pool *pool_adopt(unsigned class);
void pool_orphan(struct pool *);

#endif
