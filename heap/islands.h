/* islands.h: which lost blocks are connected, by pointers in either direction: an island is reclaimed as a whole or not at all.

   Wider than a strongly connected component with what hangs on it: where two heads share what hangs on them, a hidden pointer to the one leads to
   blocks that count to the other.  Disjoint sets with path halving (R. E. Tarjan and J. van Leeuwen, JACM 31, 1984).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_ISLANDS_H
#define GLEANER_ISLANDS_H

#include "heap/groups.h"

struct islands {
    uint32_t *of;     /* of each block of the groups: the lowest index in its island */
    uint32_t *blocks; /* at that index: how many there are */
    size_t bytes_mapped; /* of each */
};

/* Raw mappings only.  False without memory, then nothing is held. */
bool islands_find(struct islands *, const struct groups *, const struct white *, uintptr_t guard);
void islands_free(struct islands *);

#endif
