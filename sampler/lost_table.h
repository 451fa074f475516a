/* lost_table.h: what lost_sites.c and lost_share.c share.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_LOST_TABLE_H
#define GLEANER_LOST_TABLE_H

#include "sampler/lost_sites.h"

#define LOST_KINDS 3u /* and as many records at the start that take what finds no room */

struct record {
    struct lost_site is;
    uint64_t tracked; /* blocks whose place is known by their own entry */
    uint64_t points;  /* sample points in them */
    uint64_t weight;  /* scratch of share */
};

struct vector {
    void *at;
    size_t bytes; /* mapped */
};

struct lost_sites {
    struct vector records_memory, index_memory;
    struct record *records;
    uint32_t count, room;
    uint32_t *index; /* number of a record + 1; 0: free */
    uint32_t mask;
    uint64_t large_bytes;
};

/* The record with the place, kind, head and size of `key`, made if need be.  Records may move. */
uint32_t lost_table_find(struct lost_sites *, const struct lost_site *key);

/* Widens a record's times. */
void lost_table_times(struct lost_site *, uint64_t last_reached, uint64_t first_missed,
                      uint64_t last_missed, uint32_t misses);

/* Shares the untracked blocks out among the tracked ones, see lost_share.c. */
void lost_share(struct lost_sites *);

#endif
