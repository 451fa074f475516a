/* profile_read.h: from an untrusted pprof file to the model.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REPORT_PROFILE_READ_H
#define GLEANER_REPORT_PROFILE_READ_H

#include "report/file.h"
#include "report/model.h"

/* Reads a profile of ours, or of another producer that has heap sample types.  NULL after one line
   on stderr that names the file and says what is wrong with it.  To be freed by profile_free. */
struct profile *profile_read(const char *path);

/* The same from memory (gzip or plain), without printing: NULL with the reason in `problem`.
   `bytes` is consumed. `path` must outlive the result. */
struct profile *profile_parse(const char *path, struct bytes bytes, char problem[PROBLEM_BYTES]);

#endif
