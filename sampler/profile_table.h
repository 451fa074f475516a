/* profile_table.h: numbers the locations and mappings of one profile while its samples are written.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_PROFILE_TABLE_H
#define GLEANER_PROFILE_TABLE_H

#include "heap/base.h"

struct profile_location {
    uint64_t address; /* of the call, not of its return address */
    uint32_t module;  /* as of module.h; 0: none */
};

struct profile_table {
    struct profile_location *of; /* by location id - 1 */
    uint32_t count, room;
    uint32_t *hash; /* location ids, 0: free */
    uint32_t hash_size;
    uint32_t *by_frame; /* location id by frame of the stack tree */
    uint32_t frames;
    uint64_t *used; /* a bit a module */
};

/* Takes memory by os_map for all stacks that exist now, and for `more` addresses; false when there is none. */
bool profile_table_start(struct profile_table *, uint32_t more);
void profile_table_end(struct profile_table *);

/* The location id (from 1) of a frame of a stack (stack.h); `*parent` gets the next frame outwards,
   0 at the end.  0 for what is no frame, or came after profile_table_start. */
uint32_t profile_table_location(struct profile_table *, uint32_t frame, uint32_t *parent);

/* The location id of a return address that is in no stack; 0 where there are more than was said. */
uint32_t profile_table_caller(struct profile_table *, uintptr_t address, uint32_t module);

/* Notes that a module is needed though no location lies in it. */
void profile_table_use(struct profile_table *, uint32_t module);

bool profile_table_uses(const struct profile_table *, uint32_t module);

#endif
