/* kept_file.h: a descriptor of ours that the program may close behind our back.

   Programs close their stderr before our exit handler runs (gnulib's close_stdout does, in every coreutils program), so a
   copy is kept, at a number that they do not expect to be free; daemons close all descriptors there are, and what they open
   next may get its number: so it is used only while it is the file that it was.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_KEPT_FILE_H
#define GLEANER_KEPT_FILE_H

#include "heap/base.h"

/* All zero: nothing is kept. */
struct kept_file {
    int fd;
    uint64_t device, file;
};

/* Keeps a copy of `fd`, closed by exec.  False where there can be none (nothing is kept then).  Raw system calls only. */
bool kept_file_keep(struct kept_file *, int fd);

/* The copy, or -1 where nothing is kept or it is another file by now.  Any thread, also in a signal handler. */
int kept_file_now(const struct kept_file *);

#endif
