/* lost_sites.h: who allocated the blocks that are lost: the records of lost.h, summed by call stack.

   The totals are exact; which stack a block belongs to is known of tracked blocks only.  Of another one its caller is known where
   collection was on from the start, and what callers lost is shared out among the stacks that were seen, see lost_sites.c.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_LOST_SITES_H
#define GLEANER_LOST_SITES_H

#include "sampler/lost_place.h"

/* 95 % limits of an estimate; both equal to the figure where it is exact. */
struct lost_limits {
    uint64_t low, high;
};

/* The lost blocks of one place, size and kind.  The sums over all of `objects` and `bytes` are exact. */
struct lost_site {
    struct lost_place place;
    enum lost_kind kind;
    struct lost_place
        head; /* of indirectly lost blocks: where the block that they hang on was allocated; nowhere: unknown */
    uint8_t why;  /* of possibly lost ones: enum vet_why of vet.h */
    uint32_t rules; /* bits 1 << enum eligible_rule: why blocks were not reclaimed; 1: some are in quarantine */
    size_t given; /* bytes given to each block; 0: they differ in size */
    bool estimated;
    uint64_t objects, bytes;
    struct lost_limits objects_limits, bytes_limits;
    uint64_t asked;              /* bytes asked for; 0: unknown */
    uint64_t hangs, hangs_bytes; /* of directly lost ones: what hangs on them */
    uint64_t last_reached;       /* nanoseconds since 1970: the earliest of the blocks', */
    uint64_t first_missed,
        last_missed; /* and the earliest and latest of their first misses; 0: unknown */
    uint32_t misses; /* complete major collections in a row, of the block with the most */
};

struct lost_sites; /* memory by os_map */

/* Sums up the records of now.  NULL without memory for the least; where memory ends later, what finds no room is
   summed as LOST_NOWHERE.  Any thread, and a snapshot child: no lock, no libc, floating point. */
struct lost_sites *lost_sites_make(void);
void lost_sites_free(struct lost_sites *);

/* In the order of their making. */
void lost_sites_each(const struct lost_sites *, void (*each)(const struct lost_site *, void *user),
                     void *user);

/* Bytes given to all lost blocks (direct and indirect) of the class of large ones. */
uint64_t lost_sites_large_bytes(const struct lost_sites *);

#endif
