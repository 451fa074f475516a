/* suppressions.h: which leaks are known and not to be reported: LeakSanitizer's syntax (`leak:PATTERN` lines, `#` comments; a pattern is found anywhere
   in a function's, file's or module's name, `*` stands for anything, `^` at its start and `$` at its end anchor it).
   A pattern without a letter to look for (`leak:`, `leak:^`) is skipped with a complaint, where LeakSanitizer hides every leak.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_SUPPRESSIONS_H
#define GLEANER_SUPPRESSIONS_H

#include "heap/base.h"

struct suppressions; /* grows; never freed */

/* Adds the patterns of a text.  `*to` is NULL at first.  Lines of other kinds than `leak:` and bad ones are named to `complain` (one line each, at most 9
   a text; may be NULL) and skipped.  `where` names the text.  Memory by os_map. */
void suppressions_parse(struct suppressions **to, const char *text, size_t bytes, const char *where,
                        void (*complain)(const char *line));

/* The same from a file of at most 1 MiB; false if it cannot be read (one complaint). */
bool suppressions_read(struct suppressions **to, const char *path, void (*complain)(const char *line));

/* Does a pattern match one of the names (each may be NULL)?  Its number, or -1. Linear in the patterns; callers keep what they found by site. */
int suppressions_match(const struct suppressions *, const char *function, const char *file, const char *module);

/* Counts a use of pattern `number` for the table of matched suppressions, sets all counts to 0, and reads them. */
void suppressions_count(struct suppressions *, int number, uint64_t blocks, uint64_t bytes);
void suppressions_forget(struct suppressions *);
unsigned suppressions_total(const struct suppressions *);
const char *suppressions_pattern(const struct suppressions *, unsigned number, uint64_t *blocks, uint64_t *bytes);

#endif
