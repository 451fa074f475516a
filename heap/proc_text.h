/* proc_text.h: reading the text files of /proc line by line, with raw system calls and the caller's buffer.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_PROC_TEXT_H
#define GLEANER_PROC_TEXT_H

#include "heap/base.h"

struct proc_text {
    long fd;
    char *buffer;
    size_t room, at, end;
    bool over;    /* the file has been read to its end, or to an error: */
    bool failed;  /* set with `over` */
    bool in_long; /* what comes is the rest of a line that did not fit */
};

/* Opens `path`, relative to the folder `folder` (a descriptor, or AT_FDCWD); lines come through `buffer`, which the
   caller keeps.  0 or a negative errno. */
long proc_open(struct proc_text *, long folder, const char *path, char *buffer, size_t room);
void proc_close(struct proc_text *);

/* The next line without its end, terminated by a zero and valid until the next call; NULL at the end of the file.  Of
   a line that is longer than the buffer only the beginning is returned. */
char *proc_line(struct proc_text *);

/* The number at `text`, with all its digits; returns what follows.  `text` itself if there is no digit. */
const char *proc_hex(const char *text, uint64_t *to);
const char *proc_decimal(const char *text, uint64_t *to);

/* What follows `prefix` in `text`; NULL if that does not begin so. */
const char *proc_after(const char *text, const char *prefix);

/* What follows the first `word` in `text`; NULL if it is not there. */
const char *proc_find(const char *text, const char *word);

const char *proc_skip_spaces(const char *text);

/* The number behind `key` ("VmSwap:") in the calling thread's status; false if there is none or it cannot be read.  A descriptor meanwhile. */
bool proc_status(const char *key, uint64_t *to);

#endif
