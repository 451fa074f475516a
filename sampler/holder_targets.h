/* holder_targets.h: the sampled blocks of which a profile says who holds them: of every call stack some, spread evenly over its
   live ones in the order of the table of tracked blocks.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_HOLDER_TARGETS_H
#define GLEANER_HOLDER_TARGETS_H

#include "heap/base.h"

#define TARGETS_A_STACK 64u   /* at most, */
#define TARGETS_LEAST 4u      /* and at least, where there are so many stacks that */
#define TARGETS_WANTED 16384u /* are not enough for all */
#define TARGETS_MOST 65536u   /* in all; stacks that come later have none */

struct holder_stack {
    uint32_t stack;        /* stack.h; 0: of blocks whose stack was dropped */
    uint32_t live;         /* sampled blocks that live */
    uint32_t first, count; /* which of `block` are its */
};

struct holder_targets {
    struct holder_stack *stack;
    uint32_t stacks;
    uintptr_t *block;
    size_t stack_bytes, block_bytes;
};

/* In a process where nothing else runs (a snapshot child).  Memory by os_map; false without. */
bool holder_targets_find(struct holder_targets *);
void holder_targets_free(struct holder_targets *);

#endif
