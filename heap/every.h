/* every.h: malloc and free where every block is sampled (`every` of hooks.h), which is a fast path of its own there.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_EVERY_H
#define GLEANER_EVERY_H

#include "heap/thread_heap.h"

/* heap_malloc_slow and heap_free_slow (fast.h) begin here, and go on to heap_malloc_other and heap_free_tracked where anything is not as
   usual.  They are to be jumped to at the end of the exported function (see the hook).  The same for the medium classes: from a bin that has slots. */
void *heap_malloc_every_medium(struct bin *, size_t asked, enum heap_source, const void *caller);
void heap_free_every_medium(void *block);

/* alloc.c: everything that the fast path and this do not do. */
void *heap_malloc_other(size_t size, enum heap_source, const void *caller);

/* alloc.c: from a bin that has slots; a sample point or a beat was due, and the count for this block is taken off already. */
void *heap_malloc_due(struct bin *, size_t asked, enum heap_source, const void *caller);

/* free.c: a block that is tracked, or none that is live. */
void heap_free_tracked(void *block, bool medium);

#endif
