/* load_all.h: lets the calling thread load what protection keys or memory tags would keep from it.

   A signal handler, and so what is cloned in it, starts with the right to no key but 0 (pkeys(7)); a collector's
   addresses have no tag.  Neither changes the program's memory or other threads.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_LOAD_ALL_H
#define GLEANER_LOAD_ALL_H

#include "heap/base.h"

struct load_all {
    uint64_t before;
    bool changed;
};

/* Every load is allowed until load_all_end, which restores what was.  No system call but for, the first time on
   aarch64, reading /proc/self/auxv. */
void load_all_begin(struct load_all *);
void load_all_end(const struct load_all *);

#endif
