/* thread_file.h: what the kernel says of a thread of the program's own.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_TEST_THREAD_FILE_H
#define GLEANER_TEST_THREAD_FILE_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

/* Reads /proc/self/task/TID/NAME, up to bytes - 1 of it, and ends it with a zero; false if there is nothing to read. */
static inline bool thread_file(int tid, const char *name, char *text, size_t bytes)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/%s", tid, name);
    int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, text, bytes - 1);
    if (fd >= 0) close(fd);
    text[n > 0 ? n : 0] = 0;
    return n > 0;
}

#endif
