/* present.h: which pages of a range the process has, in memory or swapped out, without touching them.

   By PAGEMAP_SCAN (Linux 6.7), else /proc/self/pagemap (2.6.25), else mincore, which knows nothing of swapped pages.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_PRESENT_H
#define GLEANER_PRESENT_H

#include "heap/base.h"

enum present_way { PRESENT_SCAN, PRESENT_PAGEMAP, PRESENT_MINCORE, PRESENT_NONE };

struct present {
    enum present_way way; /* the best that works here */
    int fd;               /* of pagemap, -1 */
};

/* Opens /proc/self/pagemap (of the calling process: a snapshot child opens its own) and finds out what works.
   `at_best` keeps it from a better way (tests: PRESENT_SCAN allows all). */
void present_start(struct present *, enum present_way at_best);
void present_end(struct present *);

/* Calls `each` for every run of present (or swapped) pages in the range, by ascending address; where `copied_only`,
   of a private file mapping, only for pages that are the process's own copies.  False if the range could not be
   looked at in full. */
bool present_each(struct present *, uintptr_t from, uintptr_t to, bool copied_only,
                  void (*each)(uintptr_t from, uintptr_t to, void *user), void *user);

#endif
