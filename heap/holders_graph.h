/* holders_graph.h: which blocks are reached from words outside, by which way, and who points to whom.

   1. Data.  A reached block has a number, in the order in which it was reached (from 0).  By number: where it lies, the block
      through which it was reached first and the word of that block; for blocks to which a word outside points, that word.  Beside
      that every pointer between blocks, as the number of its target, those of a block together in the order of the numbers:
      the graph is read from memory once, and everything else is asked of the numbers.
   2. Algorithm.  Breadth first (E. F. Moore, "The shortest path through a maze", 1959): all words outside come first, then
      the blocks in the order in which they were reached.  So the way from outside to a block is a shortest one.  Words come in
      rounds: what is reached in one was not reached at all in those before.  What was is no more asked for: words and blocks of a
      later round do not count as pointing to it.  The numbers of the way to a block fall.
   3. Cost.  24 bytes a block, 4 a pointer; one pass over the blocks' memory.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_HOLDERS_GRAPH_H
#define GLEANER_HOLDERS_GRAPH_H

#include "heap/contents.h"
#include "heap/rank.h"

#define HOLDERS_NO_BLOCK UINT32_MAX

/* A block to which words outside point. */
struct holders_direct {
    uint64_t at;        /* one of them, the first that was seen, */
    uint64_t low, high; /* the lowest and the highest of them */
    uint32_t block;     /* its number */
    uint32_t kind;      /* of `at`, the caller's */
};

struct holders_graph {
    const struct white *white; /* every live block */
    uintptr_t guard;
    struct rank rank;
    struct contents contents;
    uint32_t *number_of; /* by rank: number + 1; 0: not reached */
    uint32_t count;      /* blocks that were reached */
    uint64_t bytes;      /* given, of them */
    uint64_t *where;     /* by number: offset in the window << 8 | class */
    uint32_t *from;      /* through which block it was reached; HOLDERS_NO_BLOCK: from outside */
    uint32_t *word;      /* which word of that block it was (saturated) */
    uint32_t *direct_of; /* number of its struct holders_direct + 1, 0: none */
    struct holders_direct *direct;
    size_t directs, direct_room;
    uint32_t *first;     /* where its pointers start in `to`; count + 1 of them once the graph is whole */
    uint32_t *to;
    size_t pointers, pointer_room;
    uint32_t round_first; /* the first block of this round */
    uint32_t next_first; /* the first block whose `first` is not known */
    uint32_t scanned;    /* blocks whose words were looked at */
    bool no_pointers;    /* no memory for `to`: it and `first` are not whole */
    bool failed;         /* no memory for something else: nothing holds */
};

/* For the live blocks of `white`, which must stay as it is.  Mappings of its own; false without memory. */
bool holders_graph_make(struct holders_graph *, const struct white *white, uintptr_t guard);
void holders_graph_free(struct holders_graph *);

/* Words outside, [from, to), of which the first one's place is `at`: an address or any other number that tells where it is. */
void holders_graph_words(struct holders_graph *, const uintptr_t *from, const uintptr_t *to, uint64_t at, uint32_t kind);

/* The end of a round: follows all pointers.  False without memory. */
bool holders_graph_spread(struct holders_graph *);

/* After the last round: the number of the live block at `start`; HOLDERS_NO_BLOCK if it was not reached, or is none. */
uint32_t holders_graph_number(const struct holders_graph *, uintptr_t start);

struct white_block holders_graph_block(const struct holders_graph *, uint32_t number);

/* Gives back what only holders_retained needs. */
void holders_graph_forget_pointers(struct holders_graph *);

#endif
