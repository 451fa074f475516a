/* rescue.h: the heaps of threads that a forked child does not have.

   A fork copies one thread.  What the others were doing is cut off anywhere, and the kernel copies page after
   page while they run on, so their heaps may be torn: counts, lists and caches.  The state bytes are not: each is written
   once for a block, by who holds it.  So the child sets those heaps and the stacks of pools aside, goes on with its own
   heap and memory that nobody had, and only if it needs much, or is about to have a second thread, finds by the state
   bytes what is live and takes the rest.  Most children exec or exit before.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_RESCUE_H
#define GLEANER_RESCUE_H

#include "heap/base.h"

struct thread_heap;

/* After fork, in the child of a process with threads; after pool_fork_child. */
void rescue_fork_child(void);

/* Are there such heaps?  Any thread. */
bool rescue_is_due(void);

/* Rebuilds the pools of those heaps and makes them orphans; the heaps are spare then.  `heap` is the calling thread's.
   Sound only while that is the one heap in use, which it looks at itself.  True if there were any. */
bool rescue_heaps(struct thread_heap *);

#endif
