/* groups.h: how the blocks that are left white point to each other: which are directly lost, and what hangs on them.

   A block is directly lost when no lost block outside its own strongly connected component points to it; of a component that
   is a cycle one block stands for all (the head).  Every other lost block is indirectly lost, and belongs to one head that reaches it.
   Components by R. Tarjan's algorithm (SIAM J. Comput. 1, 1972), without recursion.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_GROUPS_H
#define GLEANER_GROUPS_H

#include "heap/mark.h"

struct group_block {
    struct white_block block;
    uint32_t component;   /* number of its strongly connected component */
    uint32_t head;        /* index (in the array) of the head that it counts to; its own for a head */
    uint64_t hangs_bytes; /* of a head: given bytes of the blocks that count to it, without itself */
    uint32_t hangs;       /* and how many they are */
    bool in_cycle;        /* its component has more than one block, or points to itself */
};

struct groups {
    struct group_block *block; /* by area and ascending address, as white_each */
    size_t count;
    size_t bytes_mapped;
};

/* Analyses the white blocks of `white` (which is not changed).  Only plain and demangled aligned words count, as in mark.h.
   Raw mappings only.  False without memory: then every block is its own head (count is right) or count is 0. */
bool groups_find(struct groups *to, const struct white *white, uintptr_t guard);
void groups_free(struct groups *);

#endif
