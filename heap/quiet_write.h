/* quiet_write.h: writing without the signals of a write: one over the file size limit (SIGXFSZ), or to a pipe that nobody reads
   (SIGPIPE), would end the program for a line of ours.

   Both go to the thread that writes: they are blocked meanwhile, and taken back after.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_QUIET_WRITE_H
#define GLEANER_QUIET_WRITE_H

#include <stddef.h>
#include <stdint.h>

struct quiet {
    uint64_t mask, pending; /* as they were */
};

struct quiet quiet_begin(void);
void quiet_end(struct quiet); /* keeps errno, as raw system calls do */

/* write's result, or a negative errno. */
long quiet_write(int fd, const void *bytes, size_t n);

#endif
