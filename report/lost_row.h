/* lost_row.h: from the labels of a sample to what it says of lost blocks.  doc/format.md has the labels.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REPORT_LOST_ROW_H
#define GLEANER_REPORT_LOST_ROW_H

#include "report/model.h"

/* What the labels of a sample say; absent ones are -1 or NULL, those of lost blocks 0. */
struct labels {
    int64_t bytes, alloc_points, live_points;
    const char *source, *stack_note, *lost, *why;
    unsigned rules;
    int64_t lost_objects, lost_bytes, objects_low, objects_high, bytes_low, bytes_high;
    int64_t asked, hangs_objects, hangs_bytes, last_reached, first_missed, last_missed, misses,
        site, head;
};

/* Adds the rule with this name, if there is one. */
void lost_row_add_rule(struct labels *, const char *name);

/* The row of a sample with these labels and these values of lost_objects and lost_space; NULL if it says nothing of lost
   blocks.  Lives as long as the profile. */
struct lost_row *lost_row(struct profile *, const struct labels *, const int64_t values[2]);

#endif
