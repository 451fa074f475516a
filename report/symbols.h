/* symbols.h: names for the places of a profile: function, file, line, inlined calls.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REPORT_SYMBOLS_H
#define GLEANER_REPORT_SYMBOLS_H

#include "report/model.h"

/* Fills place.frames of every place that has none, from DWARF, else from symbol tables; places for
   which nothing is known keep no frames and print as module+offset.  Names that the file already
   had are demangled.  `root` (may be NULL) is a folder under which the target's files are looked
   for first. Says on stderr, once a module, when a file is missing or of another build. Shows
   progress. */
void symbols_resolve(struct profile *, const char *root);

#endif
