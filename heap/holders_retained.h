/* holders_retained.h: how many bytes each place outside retains: those of the blocks that no word outside of that place reaches.

   1. Of every reached block the lowest and the highest word outside that reach it are found, in the order of their places.  A
      block is reached only from within a range of places if and only if these two lie in it.  So what any variable,
      stack or mapping retains is known exactly from the two, without asking again for each of them: sum the blocks whose
      two words both lie there.  (That is what would become unreachable if the range were cleared.)
   2. To find the lowest, blocks are marked from the words outside, lowest first, each block once: whoever reaches it first is it.
      The highest likewise from the other end.  Two passes over the numbers, none over memory.
   3. Places are joined to units, which whoever asks has no use to tell apart (a stack, say).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_HOLDERS_RETAINED_H
#define GLEANER_HOLDERS_RETAINED_H

#include "heap/holders_graph.h"

struct holders_unit {
    uint64_t from, to; /* places: [from, to) */
    uint32_t area;     /* the caller's */
    bool joins;        /* with its neighbours of the same area, where there are too many units */
};

/* Blocks whose lowest and highest words outside lie in these units, and their bytes given. */
struct holders_share {
    uint32_t low, high;
    uint64_t blocks, bytes;
};

struct holders_retained {
    struct holders_unit *unit; /* by ascending place; only those with words that point to blocks */
    size_t units;
    uint32_t *low, *high; /* by number of block: units; NULL: there was no memory for it */
    struct holders_share *share; /* in any order; NULL likewise */
    size_t shares;
    size_t unit_bytes, number_bytes, share_bytes; /* mapped */
};

/* The unit around a place. Called by ascending places, not twice for one unit. */
typedef struct holders_unit holders_unit_of(uint64_t place, void *user);

/* Finds the units of all words outside that point to blocks, and what they retain; joins neighbouring units of an area until there
   are at most `most_shares` (or nothing is left to join).  The graph must be whole.  Mappings of its own; false without memory, then
   nothing is held; without memory for all there are the units alone. */
bool holders_retained_make(struct holders_retained *, const struct holders_graph *, holders_unit_of *, void *user,
                           size_t most_shares);
void holders_retained_free(struct holders_retained *);

/* The unit around a place. */
uint32_t holders_unit_at(const struct holders_retained *, uint64_t place);

#endif
