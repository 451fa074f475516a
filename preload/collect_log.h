/* collect_log.h: the `log` key: a line for each collection.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_COLLECT_LOG_H
#define GLEANER_COLLECT_LOG_H

#include "heap/collect.h"
#include "preload/config.h"

/* Where the key asks for it: opens the log file, in the folder that the process started in, and makes itself
   collection_done's.  One line on stderr if the file cannot be had, and the log goes to stderr.  Start-up. */
void collect_log_start(const struct config *);

/* The line of a collection, with a newline; its length, as snprintf. */
size_t collect_log_line(char *to, size_t bytes, int pid, const struct collection *);

#endif
