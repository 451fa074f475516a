/* suppress.h: leaves known leaks out of a profile, with the names of functions, files and modules at hand.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REPORT_SUPPRESS_H
#define GLEANER_REPORT_SUPPRESS_H

#include "report/model.h"

/* Applies the patterns that the process had (its `suppressions` key, and what the program itself gave), and those of `count` files, in
   LeakSanitizer's syntax.  A stack one of whose frames matches is left out of all figures of lost blocks, and so is what hangs on
   its blocks, as LeakSanitizer does it; the former is counted at its pattern.  After model_unfold, once a profile.  Says on
   stderr what is wrong with a file; what is right in it counts. */
void suppress_known(struct profile *, const char *const *files, size_t count);

/* What was lost and is not suppressed, in blocks.  Exact where nothing is suppressed. */
double unsuppressed_blocks(const struct profile *);

#endif
