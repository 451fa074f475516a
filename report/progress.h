/* progress.h: one line on stderr that says how far long work is, where stderr is a terminal.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REPORT_PROGRESS_H
#define GLEANER_REPORT_PROGRESS_H

#include <stddef.h>

/* Begins work of `total` steps; `what` is kept until progress_end.  Nothing is shown for work that
   is done within a fraction of a second. */
void progress_begin(const char *what, size_t total);

/* `done` steps are done; `detail` (may be NULL) is what is being worked on. */
void progress_at(size_t done, const char *detail);

/* Wipes the line. */
void progress_end(void);

#endif
