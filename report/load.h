/* load.h: from FILE or PID on the command line to a profile that can be printed.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REPORT_LOAD_H
#define GLEANER_REPORT_LOAD_H

#include "report/ask.h"
#include "report/model.h"

/* Reads, symbolises and unfolds.  A name that is no file but a number is a live process, of which a
   profile is asked; `what` it is asked for: ask.h.  NULL after one line on stderr. */
struct profile *load_profile(const char *file_or_pid, enum ask_for what);

/* The second half of it: symbolises (symbols.h says what `root` is), also what holds blocks, and unfolds. */
void name_profile(struct profile *, const char *root);

#endif
