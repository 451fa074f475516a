/* large_big.h: blocks of some 4 to 256 MiB, cut by pages from spans that keep theirs.

   jemalloc's classes would leave up to a fifth of such a block untouched, so that its neighbours reach further, and its
   search takes an old extent before a fitting one: with blocks of 5 to 25 MiB that come and go it touched 220 MB where
   155 do.  Here a block is as long as it was asked for, comes from the span that fits best, grows into the free one behind
   it, and what is given back of the unused memory is what has lain longest.

   All calls but big_counts and big_verify must be made inside the gate (large_gate.h).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_LARGE_BIG_H
#define GLEANER_LARGE_BIG_H

#include "heap/large_spans.h"

#define BIG_ARENAS 4u
#define BIG_MIN (3 * MIB + 512 * KIB + SPAN_BYTES) /* more than 3.5 MiB, the last class of jemalloc's below 4 MiB */
#define BIG_ALIGN_MAX (16 * MIB)

/* A block of `bytes` (a multiple of SPAN_BYTES) at a multiple of `alignment` (a power of two up to BIG_ALIGN_MAX); `zero`: it
   reads as zero.  *arena says whose it is.  The caller enters it into the table.  NULL: the system refused, or
   every arena is busy. */
void *big_alloc(size_t bytes, size_t alignment, bool zero, unsigned *arena);

/* The same without pages, for a block whose pages will be moved there.  NULL also where memory that has its pages lies
   unused: copying costs less than to lose those and touch new ones later. */
void *big_alloc_bare(size_t bytes, unsigned *arena);

/* Takes back a block whose record is nobody else's.  `bare`: its pages were moved away. */
void big_free(uint32_t page, size_t bytes, unsigned arena, bool bare);

/* Resizes in place a block whose record is BUSY: the new size, or the old one where it cannot. */
size_t big_resize(uint32_t page, size_t old, size_t bytes, unsigned arena);

/* Gives all unused memory back; true if there was any. */
bool big_trim(void);

/* From now on what is given back is unmapped, not only discarded. */
void big_save_addresses(void);

/* Gives back what lay unused for `decay_ns`, and much sooner what exceeds large_worth_keeping. */
void big_decay(uint64_t now, uint64_t decay_ns);

/* Bytes in blocks of the arenas, and with pages in no block. */
void big_counts(uint64_t *used, uint64_t *unused);

/* In a forked child: blocks that vanished threads were about to free are nobody's, and `live` is what there is. */
void big_recount(const uint64_t live[BIG_ARENAS]);

/* Walks the free spans and holds the sums against `live`, the bytes of each arena's blocks; each violation is told to `wrong`. */
void big_verify(const uint64_t live[BIG_ARENAS], void (*wrong)(const char *what, uint32_t page, void *user), void *user);

#endif
