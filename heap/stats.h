/* stats.h: counting over all thread heaps (heap_stats of heap.h) and the peak.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_STATS_H
#define GLEANER_STATS_H

#include "heap/heap.h"

/* Live bytes, pools and large, exact when no other thread allocates meanwhile. */
uint64_t stats_live_bytes(void);

/* After fork, in the child: allocated and freed start from zero, and the peak from what is live. */
void stats_fork_child(void);

#endif
