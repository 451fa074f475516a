/* arenas_mark.h: the announced blocks of arenas in a major collection: which of them nothing reaches.

   1. Data.  One mapping for a collection, shared with a snapshot child: a view of every arena, sorted by address, with a bit
      for each unit where a block starts that has not been reached.  What the marker leaves set the parent enters as lost,
      unless the block was freed or announced since the cut (it is not old then).
   2. An arena's memory is a mapping, or lies in a block of the heap.  In both cases its blocks are scanned when they are
      reached and not before, and the rest of it as it would be without: with the roots, or with the block.  A mapping that is
      not plain private memory, or that a fork does not copy, stays a root as a whole, and its blocks count as reached.
   3. Minor collections know nothing of arenas: all of their memory is scanned.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_ARENAS_MARK_H
#define GLEANER_ARENAS_MARK_H

#include "heap/arenas.h"
#include "heap/maps.h"
#include "heap/present.h"
#include "heap/ranges.h"

struct pieces;

/* Room for the arenas that there are; NULL: there is none, or no memory (their memory is then scanned as any).  Before the
   world stops. `*bytes` gets the mapping's size. */
struct pieces *pieces_map(size_t *bytes);

/* In the pause, after arenas_make_old: fills the views. */
void pieces_fill(struct pieces *);

/* Before the roots are found, with the mappings as they were in the pause: adds what the roots must leave out to `leave_out`,
   to be settled by the caller. */
void pieces_leave_out(struct pieces *, const struct maps *, const struct ranges *unfrozen, struct ranges *leave_out);

/* Before marking: which pages of mapped arenas there are.  False if that cannot be told. */
bool pieces_look(struct pieces *, struct present *);

/* Every address of a word that is looked at: if it points to a block that was not reached yet, that is taken, and its start
   and bytes are stored. */
bool pieces_take(struct pieces *, uintptr_t address, uintptr_t *start);
size_t pieces_bytes(const struct pieces *, uintptr_t start);

/* May an address be in an arena?  One comparison. */
struct pieces_span {
    uintptr_t low, bytes;
};
static inline bool pieces_may_hold(const struct pieces *p, uintptr_t address)
{
    const struct pieces_span *s = (const struct pieces_span *)(const void *)p;
    return address - s->low < s->bytes;
}

/* Calls `each` for the parts of [from, to) that lie in no announced block.  True if any arena meets the range (else nothing
   was called). */
bool pieces_each_gap(const struct pieces *, uintptr_t from, uintptr_t to,
                     void (*each)(uintptr_t from, uintptr_t to, void *user), void *user);

/* After marking: for the parts that lie in no block which was not reached. */
bool pieces_each_kept(const struct pieces *, uintptr_t from, uintptr_t to,
                      void (*each)(uintptr_t from, uintptr_t to, void *user), void *user);

/* The same for all mapped arenas that were left out of the roots; `lost`: as pieces_each_kept. */
void pieces_each_root(const struct pieces *, bool lost, void (*each)(uintptr_t from, uintptr_t to, void *user), void *user);

/* Calls `each` for the parts of [from, to), of a block or a gap, that may be loaded: present pages, where it lies in a
   mapping of its own. */
void pieces_each_present(const struct pieces *, uintptr_t from, uintptr_t to,
                         void (*each)(uintptr_t from, uintptr_t to, void *user), void *user);

/* In the parent, when the collection was complete: enters what is lost. */
void pieces_apply(const struct pieces *);

#endif
