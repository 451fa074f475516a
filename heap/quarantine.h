/* quarantine.h: from the quarantine to the pools.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_QUARANTINE_H
#define GLEANER_QUARANTINE_H

#include "heap/lost_records.h"

/* Is what the block holds still what it held when it was first missed? (`hash`, 0: not known.)  For the time since the collection's cut; a
   block of LOST_HASH_LOOK or more, to look at which would take a descriptor of the program's, passes. */
bool quarantine_is_unchanged(uintptr_t block, size_t bytes, uint64_t hash);

/* Gives the block of a record back: a slot to its pool, a large block's pages to the system.  False: the program has freed it first, which is
   a proof, or there is no memory to note it. *given gets its bytes.  The holder of the gate. */
bool quarantine_reuse(uint32_t record, size_t *given);

#endif
