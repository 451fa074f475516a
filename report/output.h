/* output.h: the forms in which a profile is written.  All take a profile that is symbolised,
   unfolded and sorted, one of the measures that are shown, write to a stream, and leave errors of the stream to the caller's ferror.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REPORT_OUTPUT_H
#define GLEANER_REPORT_OUTPUT_H

#include "report/model.h"

#include <stdio.h>

/* For people. At most `top` sites; 0: all. */
void text_write(FILE *, const struct profile *, enum measure, size_t top);

/* Lost blocks, in the line shapes of LeakSanitizer, at most `top` stacks a section; what is possibly lost, proofs, and suppressions. Where
   there is nothing of that it says so if it was `asked`. */
void leaks_write(FILE *, const struct profile *, size_t top, bool asked);

/* The growth between two profiles: `difference` is newer - older by profile_subtract, sorted anew meanwhile. */
void growth_write(FILE *, struct profile *difference, const struct profile *newer,
                  const struct profile *older, size_t top);

/* How long blocks live, by call stack, at most `top` of them; 0: all.  The sites in the order of survival_sort. */
void survival_write(FILE *, const struct profile *, size_t top);
/* By falling live bytes, then by falling bytes allocated, then by stack. */
void survival_sort(struct profile *);

/* The schema of the manual, "JSON"; `shown`: what the user asked to see. */
void json_write(FILE *, const struct profile *, const char *shown, size_t top);

/* The frames of a site. */
json_t *json_stack_of(const struct site *);

/* Who holds the blocks of some call stacks (holders.h), at most `top` of them, and what is retained by whom; after holders_name and
   holders_merge. */
struct held;
void holders_write(FILE *, const struct profile *, const struct held *const *, size_t count, size_t top);
void holders_write_json(FILE *, const struct profile *, const struct held *const *, size_t count, size_t top);

/* "root;caller;function 123" a line, for flame graphs; bytes of the measure.  What is not above
   zero cannot be drawn and is left out; returns how many sites that were. */
size_t collapsed_write(FILE *, const struct profile *, enum measure);

/* profile.proto, gzipped, with functions and lines filled in. */
void pprof_write(FILE *, const struct profile *, enum measure);

#endif
