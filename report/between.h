/* between.h: how surely two profiles of one process tell what changed between them.

   Two samples of one process share the sample points of the blocks that live in both, so these cancel exactly in a difference:
   its noise is that of the blocks that came in between and live, and of those that lived and went.  How many points those have is
   bounded by what the profiles count, from above: doc/estimator.md ("Differences") has the derivation.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REPORT_BETWEEN_H
#define GLEANER_REPORT_BETWEEN_H

#include "report/tally.h"

/* Of one call stack.  What came and lives less what lived and went is what changed. */
struct between {
    struct tally allocated, came, went;
    bool unknown; /* some part does not say enough: then the profiles are to be taken as independent */
};

/* For each of `count` call stacks; to be freed.  `stack_of` says of each site of the older [0] and the newer profile [1], by its
   number in the file, which call stack it is.  NULL where the profiles are not sampled ones of one process, the older one first. */
struct between *between_profiles(const struct profile *newer, const struct profile *older, size_t *const stack_of[2], size_t count);

/* Gives a change of `live` or `allocated` its interval; the value stays. */
void between_live(struct figure *change, const struct between *, int64_t period);
void between_allocated(struct figure *change, const struct between *, int64_t period);

#endif
