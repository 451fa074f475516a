/* holders.h: who holds the blocks of a cut: for each a way from a word outside, through other blocks, to it.

   Three kinds of words outside.  Those of the first last: globals, thread-local memory, mappings, what the kernel holds, blocks
   that the program has named.  Those of the second come and go: frames of stacks, and registers.  Those of the third, what calls
   have left on a stack, hold a block by chance.  The way to a block starts from a word of the first kind for which there is a way,
   and is a shortest from a word of that kind.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_HOLDERS_H
#define GLEANER_HOLDERS_H

#include "heap/collect.h"
#include "heap/holders_graph.h"
#include "heap/holders_threads.h"
#include "heap/roots.h"

enum { HOLDERS_IGNORED = ROOT_NAMED + 1 }; /* beside enum root_kind: a word of a block that the program ignores */

/* Places (holders_graph.h) are addresses; from here on, what only the kernel holds: this + a CUT_… value of cut.h. */
#define HOLDERS_KERNEL ((uint64_t)1 << 63)

struct holders {
    struct white white;
    struct roots roots;
    struct holders_graph graph;
    struct holders_threads threads;
    const struct cut *cut;
    bool complete; /* false: some memory could not be looked at: a block may be held from there */
    /* By number of block, after holders_find_ways: */
    uint32_t *depth;  /* blocks on the way before it */
    uint32_t *second; /* the second of these, or itself where there is one; HOLDERS_NO_BLOCK where there is none */
};

/* In a snapshot child, or a stopped world: looks at all memory of the cut.  NULL, or why it cannot be had; then nothing
   is held.  The cut and the options' arrays must live as long. */
const char *holders_make(struct holders *, const struct cut *, const struct collect_options *);
void holders_free(struct holders *);

/* Makes depth and second.  False without memory. */
bool holders_find_ways(struct holders *);

/* A block on a way. */
struct holders_step {
    uintptr_t start;
    size_t bytes;
    uint32_t tag;  /* tag.h; 0 where none is meant */
    size_t offset; /* bytes from its start to its pointer to the next step; SIZE_MAX: farther than can be told */
};

/* The way to block `number`, from outside inwards without the block itself: the first step and at most `room` - 1 of the last
   ones; *left_out says how many are between these.  Returns the count of steps; `root` gets the word outside. `room` is at least 2. */
size_t holders_way(const struct holders *, uint32_t number, struct holders_step *steps, size_t room, size_t *left_out,
                   const struct holders_direct **root);

#endif
