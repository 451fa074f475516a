/* options.h: reading the sizes, durations and numbers of a command line.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REPORT_OPTIONS_H
#define GLEANER_REPORT_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* "4096", "512K", "1.5G": K, M, G, T are powers of 1024, upper or lower case, an "iB" or "B" may
   follow. False when the text is anything else, negative, or does not fit. */
bool parse_size(const char *text, uint64_t *bytes);

/* "30s", "5m", "2h", "1d", "250ms"; a bare number is seconds.  In nanoseconds. */
bool parse_duration(const char *text, uint64_t *nanoseconds);

/* A decimal number from `least` to `most`, nothing else around it. */
bool parse_number(const char *text, int64_t least, int64_t most, int64_t *number);

#endif
