/* remember.h: which old memory may hold pointers to young blocks, without a write barrier.  DESIGN section 5.

   Two ways, calibrated at the first minor collection: a sweep of all old memory with a vectorised filter, or write tracking by
   userfaultfd (Linux 6.7).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REMEMBER_H
#define GLEANER_REMEMBER_H

#include "heap/mark.h"

enum remember_way { REMEMBER_UNKNOWN, REMEMBER_SWEEP, REMEMBER_TRACK };

/* From the process's start of collection: probes what the kernel can, with a self-test (a write after arming must be reported, one by
   read(2) too).  `forced`: REMEMBER_UNKNOWN to calibrate. */
void remember_start(enum remember_way forced);

/* The way of the next cycle. */
enum remember_way remember_way(void);

/* Inside the pause: hands all words of old live memory (pools and large blocks) that may have changed, or all, whose value may point
   to a white block, to the marker (mark_words).  True if it was complete; false: the sweep could not be done, nothing may be said of
   young blocks. */
bool remember_words(struct marker *, struct white *young);

/* Inside the pause, after promotion: arms tracking for the next cycle, where that is the way. */
void remember_arm(void);

/* After a fork, in the child: what is tracked is the parent's. */
void remember_fork_child(void);

struct remember_stats {
    enum remember_way way;
    uint64_t bytes;         /* old memory, and */
    uint64_t bytes_scanned; /* what was scanned of it in the last cycle */
    double sweep_ns_per_kib, track_ns_per_page, arm_ns_per_page; /* as calibrated; 0: not measured */
};
void remember_stats(struct remember_stats *);

#endif
