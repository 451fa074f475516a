/* residency.h: which part of the process's resident memory is ours, for the ledger in a profile: pools, large blocks,
   metadata, and everything else add up to the resident set.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_RESIDENCY_H
#define GLEANER_RESIDENCY_H

#include "heap/base.h"

struct residency {
    uint64_t pools, large, metadata; /* bytes that are present, by the window's areas */
};

/* Reads /proc/self/smaps, in a snapshot child its copy of the parent's.  False without /proc; the figures are 0 then. Raw
   calls, no allocation; takes as long as the kernel takes to walk the page tables. */
bool residency_read(struct residency *);

#endif
