/* lifetime_live.h: the ages of what lives, by site, from the table of tracked blocks.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_LIFETIME_LIVE_H
#define GLEANER_LIFETIME_LIVE_H

#include "sampler/lifetime.h"

/* What a cell counts: a step of ages in time or in bytes, of blocks that were born since the start or the fork; or all old blocks. */
#define LIFETIME_CELL_SPAN LIFETIME_TIMES
#define LIFETIME_CELL_OLD (LIFETIME_TIMES + LIFETIME_SPANS)

struct lifetime_cell {
    uint64_t key; /* site << 8 | what */
    uint64_t weight;
};

struct lifetime_live {
    struct lifetime_cell *cells; /* while counting an open-addressed table; then sorted by key */
    size_t count, room, bytes;
    size_t lost; /* blocks that found no memory */
};

/* Counts them all, as of `now`.  In memory of its own, 16 bytes for each site and step that occurs.  Any thread, and a snapshot child; false without
   memory. `old`: ask of each block whether it is old. */
bool lifetime_live_make(struct lifetime_live *, const struct lifetime_stats *now, bool old);
void lifetime_live_free(struct lifetime_live *);

/* The cells of a site, ascending; how many. */
size_t lifetime_live_of(const struct lifetime_live *, uint32_t site, const struct lifetime_cell **first);

#endif
