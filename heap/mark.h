/* mark.h: marking: from words to all blocks that they reach.

   Which words are pointers (DESIGN section 6): the low 48 bits of any aligned word that point into a block, its interior
   included; and the word as glibc's PTR_UNMANGLE would turn it.  The marker has a stack of its own, mapped as it grows; where memory for it
   is refused, blocks whose contents are still to be scanned are found again by a pass over the pools that were flagged
   (as OCaml's major_gc.c redarkens its heap).  Blocks are prefetched through a small first-in-first-out ring between
   discovery and scan (Cher, Hosking and Vitek 2004).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_MARK_H
#define GLEANER_MARK_H

#include "heap/present.h"
#include "heap/white.h"

struct mark_stats {
    uint64_t blocks, bytes; /* reached */
    uint64_t words;         /* looked at */
    uint64_t rescans;       /* passes after the stack was full */
};

struct marker;

/* Memory for a marker that takes blocks from `white` (which it changes); NULL without. `guard` is the cut's pointer guard, 0: none.
   `present` (copied; NULL: none): what keeps the marker from touching pages of large blocks that were never written. */
struct marker *mark_start(struct white *white, uintptr_t guard, struct present *present);
void mark_end(struct marker *);

/* Marks nothing itself, but all that the block's words reach: for blocks that are roots. */
void mark_block(struct marker *, uintptr_t start, size_t bytes);

/* Marks what is reached from the memory of mapped arenas that is in no announced block (arenas_mark.h), which the roots have left out. */
void mark_pieces(struct marker *);

/* Marks what the words in [from, to) reach directly and notes it for mark_drain. */
void mark_words(struct marker *, const uintptr_t *from, const uintptr_t *to);

/* Marks everything that is reached from what was marked. */
void mark_drain(struct marker *);

/* False: a part of a block could not be looked at; nothing may be said of what is white. */
bool mark_complete(const struct marker *);

void mark_stats(const struct marker *, struct mark_stats *to);

/* The two forms in which a word may point into the window; both may be outside of it. */
static inline uintptr_t mark_plain(uintptr_t word) { return word & 0x0000ffffffffffff; }
static inline uintptr_t mark_demangled(uintptr_t word, uintptr_t guard) /* as glibc's pointer_guard.h of each machine */
{
#if defined(__x86_64__)
    return (word >> 17 | word << 47) ^ guard;
#else
    return word ^ guard;
#endif
}

/* For tests: the stack's room in entries (0: as much as there is memory for). */
void mark_limit_stack(size_t entries);

#endif
