/* large_table.h: what lies in the large area: one record a page, so that every address that a
   program hands to free is checked exactly; and the addresses themselves, given out in chunks.

   1. Data.  The area is divided into chunks of 64 MiB.  The tables of a chunk are mapped when the
      chunk is claimed, before any of its addresses is used:

        records  one of 16 bytes for each 4 KiB page; only a block's first page's record is ever
                 touched, so a GiB block costs one of them
        near     one page number for each 64 KiB: the block that covers the first page of these 64
   KiB far      the same for each 16 MiB

      near[] and far[] find the block around an interior address: from page p, look at the records
   back to the 64 KiB boundary (16 at most), else at the block that near[] names, else far[].  A
   block writes near[] only up to the next 16 MiB boundary and far[] beyond.  Stale names need no
      clearing, since the record of the named page says whether a live block lies there and how far
      it reaches.
   2. Synchronisation.  A record's state changes by compare-and-swap; who moves it away from LIVE
      owns the block.  A chunk's tables are never unmapped, so a reader may look at any record of a
      claimed chunk at any time.  Nothing is locked.
   3. Stacks of unused blocks link through their records (never through the blocks' memory):
   Treiber's stack with a tag against ABA (R. K. Treiber, IBM RJ 5118, 1986).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_LARGE_TABLE_H
#define GLEANER_LARGE_TABLE_H

#include "heap/base.h"
#include "heap/window.h"

#include <stddef.h>

#define LARGE_CHUNK (64 * MIB)
#define LARGE_CHUNKS (WINDOW_LARGE_BYTES / LARGE_CHUNK)
#define LARGE_CHUNK_PAGES (LARGE_CHUNK / OS_PAGE)
#define LARGE_NO_PAGE UINT32_MAX

enum large_state {
    LARGE_NONE,   /* never the start of a block, or its addresses went back to jemalloc */
    LARGE_LIVE,   /* the program's */
    LARGE_BUSY,   /* the program's, being resized */
    LARGE_CACHED, /* freed; on a stack */
    LARGE_FREED,  /* freed; handed back */
    LARGE_AWAY,   /* of any page in an extent that jemalloc keeps unused: not mapped */
    LARGE_SPAN,   /* the first page of a free span, and its last: large_spans.h */
    LARGE_SPAN_END
};
#define LARGE_STATE_MASK 0xffu
#define LARGE_DIRECT 0x100u  /* mapped by large_map, not by jemalloc */
#define LARGE_OLD 0x200u     /* as STATE_OLD of pool.h */
#define LARGE_BIG 0x400u     /* of large_big's arenas, not of jemalloc's */
#define LARGE_CLEAN 0x800u   /* of a free span: the system has its pages */
#define LARGE_ARENA_SHIFT 16 /* above: the arena of a block of jemalloc's or large_big's */

struct large_record {
    _Atomic uint32_t state; /* enum large_state | flags | arena << LARGE_ARENA_SHIFT */
    _Atomic uint32_t entry; /* LIVE: the tag (tag.h); on a stack: page + 1 of the next */
    _Atomic uint64_t bytes; /* of the block */
} __attribute__((aligned(16)));
_Static_assert(sizeof(struct large_record) == 16, "256 KiB of records a chunk");

struct large_chunk_tables {
    struct large_record record[LARGE_CHUNK_PAGES];
    _Atomic uint32_t near[LARGE_CHUNK_PAGES / 16];
    _Atomic uint32_t far[LARGE_CHUNK_PAGES / 4096];
};
#define LARGE_TABLES_STRIDE (512 * KIB)
_Static_assert(sizeof(struct large_chunk_tables) <= LARGE_TABLES_STRIDE, "stride");
_Static_assert(LARGE_CHUNKS *LARGE_TABLES_STRIDE <= 8 * GIB, "the window's part for large tables");

HIDDEN extern _Atomic uint8_t large_chunk_known[LARGE_CHUNKS]; /* 1: its tables are mapped */

static inline uint32_t large_page_of(const void *address) /* of an address in the area */
{
    return (uint32_t)(((uintptr_t)address - window_base - WINDOW_LARGE_OFFSET) / OS_PAGE);
}

static inline void *large_address(uint32_t page)
{
    return (void *)(window_base + WINDOW_LARGE_OFFSET + (uintptr_t)page * OS_PAGE);
}

static inline struct large_chunk_tables *large_tables_of(uint32_t page)
{
    return (struct large_chunk_tables *)(window_base + WINDOW_LARGE_TABLES_OFFSET +
                                         page / LARGE_CHUNK_PAGES * LARGE_TABLES_STRIDE);
}

/* Of a page in a claimed chunk. */
static inline struct large_record *large_record_of(uint32_t page)
{
    return &large_tables_of(page)->record[page % LARGE_CHUNK_PAGES];
}

/* The record of the page that starts at `address`; NULL if the address is not the start of a page
   in a claimed chunk of the area. */
static inline struct large_record *large_record_at(const void *address)
{
    uintptr_t offset = (uintptr_t)address - window_base - WINDOW_LARGE_OFFSET;
    if (unlikely(offset >= WINDOW_LARGE_BYTES || offset % OS_PAGE != 0)) return NULL;
    if (unlikely(
            !atomic_load_explicit(&large_chunk_known[offset / LARGE_CHUNK], memory_order_acquire)))
        return NULL;
    return large_record_of((uint32_t)(offset / OS_PAGE));
}

/* Sets flags in the tag of a live block whose state has all of `which` (LARGE_OLD, or 0): false, and nothing is set, if there is none (the word
   may link a stack then).  Both words are changed as one. */
static inline bool large_tag_or(struct large_record *r, uint32_t flags, uint32_t which)
{
    _Static_assert(offsetof(struct large_record, entry) == 4 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the tag is the upper half");
    uint64_t *both = (uint64_t *)(void *)r, was = __atomic_load_n(both, __ATOMIC_ACQUIRE);
    do
        if (((uint32_t)was & LARGE_STATE_MASK) != LARGE_LIVE || ((uint32_t)was & which) != which) return false;
    while (!__atomic_compare_exchange_n(both, &was, was | (uint64_t)flags << 32, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    return true;
}

/* Claims `bytes` (rounded up to whole chunks) of addresses that nobody else has, none of them within a chunk of a multiple of 4 GiB unless
   there are nearly as many; nothing is mapped yet.  The first page, or LARGE_NO_PAGE when the area is used up. */
uint32_t large_table_claim(size_t bytes);

/* Returns the latest claim if nothing was claimed since; else its addresses stay unused. */
void large_table_unclaim(uint32_t page, size_t bytes);

/* Claims the chunks that follow `end` (a chunk's first page); false if they are somebody's, or near a multiple of 4 GiB. */
bool large_table_claim_after(uint32_t end, size_t bytes);

/* Maps the tables of a claim; false if the system refuses, or if something else lies there
   (*occupied). */
bool large_table_map(uint32_t page, size_t bytes, bool *occupied);

/* Makes a block known: writes near[], far[], then the record with `state` (LIVE, with its flags).
 */
void large_table_enter(uint32_t page, size_t bytes, uint32_t state);

/* The same for a block that is known, after a resize: entry and state stay. */
void large_table_enter_again(uint32_t page, size_t bytes);

/* Start and size of the live block around an address; false if none. Any address in the area. */
bool large_table_find(const void *address, uint32_t *page, size_t *bytes);

/* Calls `each` for every live block's first page until it returns false. */
void large_table_each(bool (*each)(uint32_t page, size_t bytes, void *user), void *user);

/* Pages of the area that were ever claimed, from its start. */
uint32_t large_table_pages(void);

/* Bytes mapped for the tables. */
size_t large_table_bytes(void);

/* A stack of pages, each the first of an unused block: page + 1 (28 bits), depth (8 bits, stays at
   255), tag (28 bits). All zero is empty. */
typedef _Atomic uint64_t large_stack;

#define LARGE_TOP_MASK ((1u << 28) - 1)
_Static_assert(WINDOW_LARGE_BYTES / OS_PAGE < LARGE_TOP_MASK, "a page number + 1 fits in 28 bits");
#define LARGE_TOP(head) ((uint32_t)(head)&LARGE_TOP_MASK)
#define LARGE_DEPTH(head) ((unsigned)((head) >> 28) & 255)

static inline uint64_t large_head_(uint32_t top, unsigned depth, uint64_t old)
{
    return top | (uint64_t)depth << 28 | ((old >> 36) + 1) << 36;
}

/* Puts a block, which the caller owns, on the stack unless that is `limit` deep already (256: no
   limit).  The depth before, or `limit` when it was refused. */
static inline unsigned large_stack_push(large_stack *s, uint32_t page, unsigned limit)
{
    struct large_record *r = large_record_of(page);
    uint64_t old = atomic_load_explicit(s, memory_order_relaxed), new;
    unsigned depth;
    do {
        depth = LARGE_DEPTH(old);
        if (depth >= limit) return limit;
        atomic_store_explicit(&r->entry, LARGE_TOP(old), memory_order_relaxed);
        new = large_head_(page + 1, depth < 255 ? depth + 1 : 255, old);
    } while (!atomic_compare_exchange_weak_explicit(s, &old, new, memory_order_release,
                                                    memory_order_relaxed));
    return depth;
}

/* LARGE_NO_PAGE when empty; *depth: how deep it is now. */
static inline uint32_t large_stack_pop(large_stack *s, unsigned *depth)
{
    uint64_t old = atomic_load_explicit(s, memory_order_acquire), new;
    do {
        if (LARGE_TOP(old) == 0) return LARGE_NO_PAGE;
        uint32_t next =
            atomic_load_explicit(&large_record_of(LARGE_TOP(old) - 1)->entry, memory_order_relaxed);
        *depth = LARGE_DEPTH(old);
        if (*depth < 255) --*depth; /* 255 stands for more, too */
        /* `next` may be nonsense if the block left the stack meanwhile; then the tag differs. */
        new = large_head_(next & LARGE_TOP_MASK, next == 0 ? 0 : *depth, old);
    } while (!atomic_compare_exchange_weak_explicit(s, &old, new, memory_order_acquire,
                                                    memory_order_acquire));
    return LARGE_TOP(old) - 1;
}

/* Empties the stack, which was `depth` deep; the first page, the others follow by
   large_stack_next. */
uint32_t large_stack_take(large_stack *, unsigned *depth);
uint32_t large_stack_next(uint32_t page);

static inline bool large_stack_empty(large_stack *s)
{
    return atomic_load_explicit(s, memory_order_relaxed) << 36 == 0;
}

static inline unsigned large_stack_depth(large_stack *s)
{
    return (unsigned)(atomic_load_explicit(s, memory_order_relaxed) >> 28) & 255;
}

#endif
