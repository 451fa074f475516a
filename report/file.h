/* file.h: a whole input file in memory, unpacked when it is gzip, never more than a bound.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REPORT_FILE_H
#define GLEANER_REPORT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PROBLEM_BYTES = 200 }; /* room for the reason in a one-line message */

struct bytes {
    uint8_t *at; /* from malloc */
    size_t length;
};

/* Reads the whole file. False with the reason in `problem`: missing, a folder, unreadable, over 1
 * GiB. */
bool file_read(const char *path, struct bytes *to, char problem[PROBLEM_BYTES]);

/* The same from where a descriptor stands, which stays open. */
bool file_read_open(int fd, struct bytes *to, char problem[PROBLEM_BYTES]);

/* Unpacks gzip (several members one after another too) of at most `limit` bytes of content;
   anything that does not start as gzip is left as it is.  `bytes` is replaced.  False: damaged, cut
   short, or over the limit. */
bool file_unpack(struct bytes *bytes, size_t limit, char problem[PROBLEM_BYTES]);

#endif
