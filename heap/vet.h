/* vet.h: the vetting sweep: is there, anywhere in the process, a byte pattern that could be a pointer to a lost block in
   a form that the marker does not follow?  DESIGN section 7, HAZARDS C4.

   Over all present pages, our blocks (live, reached) included, byte by byte: a value, its low 48 bits, its demangled form, at any
   alignment, that point into the block; where the value lies in no allocated block and is not the start of a free slot, one past
   the end, and base-minus (up to 256 bytes before the start); 32-bit forms (low half, and shifted right by 3) aligned to 4 and exactly the block's start, as far as they
   are no chance hits (vet_narrow.h).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_VET_H
#define GLEANER_VET_H

#include "heap/groups.h"
#include "heap/roots.h"

enum vet_why { /* the strongest form that was found */
    VET_NONE,
    VET_NARROW,     /* a 32-bit form */
    VET_BEFORE,     /* base-minus */
    VET_PAST_END,
    VET_MISALIGNED,
    VET_WHYS
};

/* Is freed memory looked at, and dead stacks?  For a report they are no reason to keep a block, for reclaim they are. */
enum vet_freed {
    VET_NOT_FREED,
    VET_FREED_TOO,
    VET_FREED_APART /* what only they explain stands in `freed` */
};

struct vet_result {
    uint8_t *why;       /* enum vet_why of each block of the groups */
    uint8_t *freed;     /* the same of freed memory; NULL unless asked for.  The 32-bit forms are not looked for there */
    size_t count;
    uint64_t looked_at; /* bytes */
    double chance;      /* expected number of chance hits of the 32-bit forms that count, below 0.01; else none counts */
    size_t bytes_mapped;
};

/* All that an explained block reaches is explained with it, by the strongest reason.  Raw system calls and mappings of its own, and two descriptors meanwhile.  False
   without memory, or where something could not be looked at: then nothing is known, and nothing held. */
bool vet(struct vet_result *to, const struct white *, const struct groups *, struct roots *, const struct cut *,
         enum vet_freed);
void vet_free(struct vet_result *);

/* For tests: the vector instructions that the sweep may use (enum vet_filter_way of vet_filter.h). */
void vet_limit_filter(unsigned way);

#endif
