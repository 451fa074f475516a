/* present.h: which pages of a range the process has, in memory or swapped out, without touching them.

   By PAGEMAP_SCAN (Linux 6.7), else /proc/…/pagemap (2.6.25), else mincore, which knows nothing of swapped pages.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_PRESENT_H
#define GLEANER_PRESENT_H

#include "heap/base.h"

enum present_way { PRESENT_SCAN, PRESENT_PAGEMAP, PRESENT_MINCORE, PRESENT_NONE };

struct present {
    enum present_way way; /* the best that works here */
    int fd;               /* of pagemap, -1 */
    uint32_t page;        /* bytes of a page of the system */
    bool knows_guards;    /* PAGEMAP_SCAN tells guard regions apart from swapped pages (Linux 6.15) */
    bool may_be_guards;   /* nothing tells them apart (6.13, 6.14) */
    bool no_swap;         /* nothing private of this process is swapped out: mincore tells all */
    /* For present_each's `each`: the run */
    bool absent;          /* is not in memory, */
    bool swapped;         /* and it may be a guard region: not to be loaded from, but by /proc/self/mem */
};

/* Opens the pagemap of the calling process (a snapshot child opens its own) and finds out what works.
   `at_best` keeps it from a better way (tests: PRESENT_SCAN allows all).  Raw system calls; one descriptor until
   present_end. */
void present_start(struct present *, enum present_way at_best);
void present_end(struct present *);

enum present_what {
    PRESENT_ALL,
    PRESENT_COPIED,   /* of private mappings of files: only pages that are the process's own copies; mincore cannot tell
                         and names all that are in memory.  Dear: 10 times the time of the others. */
    PRESENT_ANONYMOUS /* the range is known to be private memory without files: quicker where it is large and empty */
};

/* Calls `each` for every run of present (or swapped) pages in the range, by ascending address; pages that are known to
   have been read only and never written, which hold zeroes, may be left out.  PRESENT_MINCORE wants a range without
   holes; PRESENT_PAGEMAP takes its time for them, too.  False if the range could not be looked at in full. */
bool present_each(struct present *, uintptr_t from, uintptr_t to, enum present_what,
                  void (*each)(uintptr_t from, uintptr_t to, void *user), void *user);

#endif
