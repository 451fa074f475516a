/* arenas.h: pools of the program's own: memory (a block of ours, or a mapping) of which the program says where the blocks are
   that it cuts from it.

   1. Data.  For each page of an arena (4 KiB of it; the arena need not begin at one) there are four bits for every 8 bytes:
      where announced blocks start, where they end, which of those that start were there at the latest collection, and which
      it did not reach.  That is 6 % of the arena.  The tables lie in the metadata area, which gives nothing back, so an ended
      arena keeps them, and serves the next of its size.
   2. Synchronisation.  Bits change atomically: threads may be at work on different blocks.  Ended arenas lie on Treiber stacks
      (idstack.h), one for each power of two of pages.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_ARENAS_H
#define GLEANER_ARENAS_H

#include "heap/base.h"

#define ARENA_UNIT 8u
#define ARENA_PAGE_UNITS 512u
#define ARENA_PAGE ((size_t)ARENA_UNIT * ARENA_PAGE_UNITS)
#define ARENA_WORDS (ARENA_PAGE_UNITS / 64)
#define ARENA_MOST ((size_t)1 << 40)

struct arena_page {
    _Atomic uint64_t start[ARENA_WORDS], last[ARENA_WORDS];
    _Atomic uint64_t old[ARENA_WORDS], lost[ARENA_WORDS]; /* of the units where a block starts */
    void *_Atomic of_user; /* for the layer above; stays when the arena ends */
};

struct arena {
    uintptr_t base;
    _Atomic size_t bytes; /* 0: it has ended */
    int flags;            /* for the layer above */
    uint32_t number;
    unsigned order; /* 2^order pages */
    _Atomic uint32_t link;
    struct arena_page *pages;
};

/* NULL: no memory, or bytes is not in 1 … ARENA_MOST, or memory not aligned to 8.  Any thread. */
struct arena *arena_begin(void *memory, size_t bytes, int flags);

/* Its blocks are forgotten; while nobody else uses it. */
void arena_end(struct arena *);

static inline size_t arena_pages(const struct arena *a) { return (atomic_load(&a->bytes) + ARENA_PAGE - 1) / ARENA_PAGE; }
static inline struct arena_page *arena_page(const struct arena *a, size_t unit) { return &a->pages[unit / ARENA_PAGE_UNITS]; }

/* The unit at an address; false if it is not in the arena or not at a unit's beginning. */
bool arena_unit(const struct arena *, const void *block, size_t *unit);

/* A block of `bytes` at a unit is there; false if one is already, or if it does not fit. */
bool arena_announce(struct arena *, size_t unit, size_t bytes);

/* It is gone; false if none was there. */
bool arena_forget(struct arena *, size_t unit);

/* The last unit of the block that starts at a unit. */
size_t arena_last(const struct arena *, size_t unit);

/* Does a block start at a unit, and with which bits? */
static inline bool arena_bit(_Atomic uint64_t *bits, size_t unit)
{
    return atomic_load_explicit(&bits[unit % ARENA_PAGE_UNITS / 64], memory_order_relaxed) >> unit % 64 & 1;
}

/* All arenas there are, and those that have ended (bytes 0), by number; NULL past the last. */
struct arena *arena_by_number(uint32_t number);

/* In the pause: every block is old. */
void arenas_make_old(void);

#endif
