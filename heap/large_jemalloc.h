/* large_jemalloc.h: our copy of jemalloc: its start, arenas, extent hooks, and the decay of unused
   memory.  All calls but je_counts must be made inside the gate (large_gate.h).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_LARGE_JEMALLOC_H
#define GLEANER_LARGE_JEMALLOC_H

#include "heap/base.h"

#define JE_ARENAS 4u

/* A block of `bytes`, a class of large_class_bytes, from the arena that `shard` prefers (or another
   where that one cannot); *arena says which.  NULL: out of memory, or jemalloc is being started by
   another thread.  The caller enters the block into the table. */
void *je_alloc(size_t bytes, size_t alignment, bool zero, unsigned shard, unsigned *arena);

void je_free(void *block, size_t bytes, unsigned arena);

/* Resizes in place; the new size (the old one: it cannot). */
size_t je_resize(void *block, size_t old, size_t bytes, unsigned arena);

/* Gives all unused memory back; true if there was any. */
bool je_trim(void);

/* From now on what is given back is unmapped, not only discarded. */
void je_save_addresses(void);

/* Gives back what was not needed for `decay_ns`; what exceeds a quarter of the live bytes (64 MiB
   at least) much sooner. */
void je_decay(uint64_t now, uint64_t decay_ns);

/* Bytes in blocks that are not freed to jemalloc, and in its free extents with their pages. Any
   thread, no gate. */
void je_counts(uint64_t *used, uint64_t *unused);

#endif
