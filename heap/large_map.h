/* large_map.h: addresses of the large area turned into memory: regions, from which the extents of
   jemalloc and of the big blocks are cut, and the direct path, which maps a block of its own and needs nobody.

   The direct path serves blocks of LARGE_DIRECT_MIN and more, whose pages are not worth keeping, and every block while
   the gate is closed. A freed block is unmapped, so that limits on address space see it; its addresses are
   used again for a block of the same size class.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_LARGE_MAP_H
#define GLEANER_LARGE_MAP_H

#include "heap/base.h"

#define LARGE_DIRECT_MIN (256 * MIB)

/* Fresh pages of a block: if there are many of them, and much is mapped, they had better be huge. */
void large_map_fresh(void *at, size_t bytes);

/* The addresses that one user cuts mappings from, one after the other, so that neighbours in time
   are neighbours in place and can be coalesced. next and end are page numbers, in one word (next in
   the low half). */
struct large_region {
    _Atomic uint64_t cursor;
};

/* Maps `bytes` (a multiple of OS_PAGE) of fresh memory, aligned; NULL if refused.  Any thread,
   lock-free. */
void *large_region_take(struct large_region *, size_t bytes, size_t alignment);

/* The page where the region's next mapping begins, if it is no longer than *room pages. */
uint32_t large_region_next(struct large_region *, uint32_t *room);

/* Where addresses are scarce: unmaps memory that jemalloc keeps unused, and maps what of it is away when it is
   used again (false if refused).  The caller has the range to itself. */
void large_region_unmap(void *at, size_t bytes);
bool large_region_restore(void *at, size_t bytes);

/* A block of `bytes` with its record LIVE, or NULL.  Reads as zero. */
void *large_map_alloc(size_t bytes, size_t alignment);

/* Frees a block whose record the caller has taken from LIVE (also one of jemalloc's, where that is
   never entered again). */
void large_map_free(uint32_t page);

/* Resizes a direct block, whose record is BUSY, where it is; its record's `bytes` are the caller's
   to change.  False: it cannot grow. */
bool large_map_resize(uint32_t page, size_t bytes);

/* Moves the pages of a block of any kind, whose record is BUSY, to other addresses, where `bytes` are mapped without
   pages and become a block with `state`.  A direct old block is freed; another one stays BUSY, reads as zero as far as its
   pages were moved, and is the caller's to free.  False: nothing was done. */
bool large_map_move_to(uint32_t page, void *to, size_t bytes, uint32_t state);

/* The same to a new direct block; NULL: nothing was done. */
void *large_map_move(uint32_t page, size_t bytes);

/* Bytes mapped in the large area. */
size_t large_map_bytes(void);

/* The sizes in which large blocks come: four for each doubling, as jemalloc's.  `bytes` over 0 and
   at most PTRDIFF_MAX. */
static inline size_t large_class_bytes(size_t bytes)
{
    if (bytes <= 4 * OS_PAGE) return round_up(bytes, OS_PAGE);
    unsigned lg = 63 - (unsigned)__builtin_clzl(bytes - 1);
    return round_up(bytes, (size_t)1 << (lg - 2));
}

/* Forgets the unused addresses (in a forked child). */
void large_map_forget(void);

#endif
