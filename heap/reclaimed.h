/* reclaimed.h: memory that was reclaimed and not given out again yet: so that a free of the program, which then had a pointer after all, is told
   from a double free.

   1. Data.  Beside a slot its tag says so (TAG_RECLAIMED | place), until the slot is given out again or its pool made one of
      another class; the pool is flagged.  Of large blocks a table by page.
   2. Synchronisation.  Tags are swapped: of two threads that free the block one finds it.  The table has one writer, the holder of
      the gate; any thread takes entries out by compare-and-swap.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_RECLAIMED_H
#define GLEANER_RECLAIMED_H

#include "heap/pool.h"
#include "heap/tag.h"

#define TAG_RECLAIMED (TAG_IGNORED | TAG_LOST) /* of a slot that is not live; the number is the place */

static inline bool tag_is_reclaimed(uint32_t tag) { return (tag & TAG_RECLAIMED) == TAG_RECLAIMED && !(tag & TAG_CALLER); }

/* Was anything reclaimed in this process, or the one that it was forked from? */
HIDDEN extern atomic_bool reclaimed_any;

/* Notes a large block before it is freed: the holder of the gate.  False without memory. */
bool reclaimed_note_large(const void *block, uint32_t place);

/* A large block has come to lie there. */
void reclaimed_forget_large(const void *block);

/* Is the address the start of such memory?  Then it is noted no more, and *place is where it was allocated. */
bool reclaimed_take(const void *address, uint32_t *place);

/* Bytes that the slot there had, contents and all; 0 where it is no such memory, or was a large block. */
size_t reclaimed_size(const void *address);

/* A slot is given out: where it is such memory its contents, which nobody wrote over, must not be taken for the new owner's pointers. */
void reclaimed_reuse(void *block, unsigned class);

/* A pool is made one of another class, or goes back. */
void reclaimed_forget_pool(struct pool *);

#endif
