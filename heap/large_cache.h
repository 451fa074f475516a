/* large_cache.h: recently freed blocks up to 256 KiB, by size, in front of jemalloc, whose mallocx
   and dallocx cost some 1500 instructions without its thread cache.  Sharded by thread; stacks of
   large_table.h, so it is lock-free and works while the gate is closed and in any forked child.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_LARGE_CACHE_H
#define GLEANER_LARGE_CACHE_H

#include "heap/base.h"

#define LARGE_CACHE_MAX (256 * KIB) /* the largest block that is cached */

/* A block of exactly `bytes` (a class of large_class_bytes) whose record is CACHED, or
 * LARGE_NO_PAGE. */
uint32_t large_cache_get(unsigned shard, size_t bytes);

/* Takes a block whose record the caller has made CACHED; false: there is no room. */
bool large_cache_put(unsigned shard, uint32_t page, size_t bytes);

/* Empties stacks: all of them, or those of which nothing was taken since the last call. `give` gets
   each block. True if there was any. */
bool large_cache_flush(bool all, void (*give)(uint32_t page));

/* Empties every stack without looking at it (in a forked child; the blocks are lost to it). */
void large_cache_forget(void);

/* Bytes in the cache, about right while threads run. */
size_t large_cache_bytes(void);

#endif
