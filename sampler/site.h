/* site.h: what the samples add up to.  A site is a call stack, a size given and a source: "calls of
   calloc from here that got a slot of 96 bytes".
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_SITE_H
#define GLEANER_SITE_H

#include "heap/hooks.h"

/* Where everything is counted for which no site could be made (table full, no memory): stack 0. */
#define SITE_DROPPED 0u

/* Sample points, and the sampled blocks in which they lie.  What n sample points say of the
   program: n * sampler_interval() bytes given, and that divided by the site's `given` in blocks;
   estimate.h does it, with intervals.  Where every word is sampled (interval 8) both are exact, and
   `blocks` is the true number of blocks. */
struct site_count {
    uint64_t n;
    uint64_t blocks;
};

struct site_view {
    uint32_t site;  /* its number; SITE_DROPPED is given first, if anything is in it */
    uint32_t stack; /* as of stack.h; 0: unknown or dropped */
    enum heap_source source;
    size_t given; /* bytes given to each block; of the dropped site, a mean with which the
                     number of blocks comes out right */
    struct site_count allocated; /* since the process began, or was forked */
    struct site_count live;      /* now; blocks from before the fork too */
    struct site_count peak; /* live at the moment of the largest sampled total, see site_peak */
};

/* Before the first sample. `exact`: every word is sampled, so that a site's n follows from its
   blocks and is not counted.  False when there is no memory for the first tables: nothing may be
   called then but site_each and site_stats, which find nothing. */
bool site_start(bool exact);

/* Threads that count at one site meet at its cache lines for every block where every word is sampled (some 15 % of the time with
   two threads, and worse with each more).  There a thread takes the sites of its shard, a number below SITE_SHARDS: a stack, a
   size and a source then have up to so many sites, which add up.  From SITE_OWN on a shard belongs to one thread: what that thread
   counts there nobody else does (count_own of count.h). */
#define SITE_OWN 16u
#define SITE_SHARDS 32u

/* The shard of a thread by its number, from 1. */
static inline unsigned site_shard(uint32_t thread)
{
    return thread <= SITE_SHARDS - SITE_OWN ? SITE_OWN + thread - 1 : thread % SITE_OWN;
}

/* The number of the site, made if it is new; SITE_DROPPED when that fails.  Where sites are many they have no shards any more. Any
   thread, lock-free. */
uint32_t site_find(uint32_t stack, size_t given, enum heap_source source, unsigned shard);

/* A sampled block with n sample points and `given` bytes was allocated at the site, or freed.  Freed: any thread.  Allocated: any, or,
   of a shard from SITE_OWN on, the one to which it belongs.  One atomic addition (three unless exact). */
void site_allocated(uint32_t site, size_t given, uint64_t n);
void site_freed(uint32_t site, size_t given, uint64_t n);

/* The size given to the blocks of a site; 0 of the dropped one. */
size_t site_given(uint32_t site);
uint32_t site_stack(uint32_t site);
enum heap_source site_source(uint32_t site);

/* The sampled total that is live has changed by `n` sample points (negative: frees).  Callers add
   up what their thread did and call this when that passes site_quantum(); here the peak is noticed.
   Any thread, lock-free; one call in many copies every site's live counts. */
void site_live_changed(int64_t n);

/* Sample points that a thread may keep back before it calls site_live_changed. */
int64_t site_quantum(void);

/* Calls `each` for every site with anything allocated, live, or live at the peak. Reads what the
   writers write meanwhile: each figure is as of some moment during the call.  Any thread, and a
   snapshot child; no lock, no memory. */
void site_each(void (*each)(const struct site_view *, void *user), void *user);

/* The largest total of live sample points that was recorded, or the present one if that is larger,
   and when (nanoseconds since 1970).  A new peak is recorded when frees begin after a rise of 1 %,
   or up to 10 % where there are so many sites that copying them more often would be felt. The
   sites' `peak` add up to it but for what threads kept back. */
uint64_t site_peak(uint64_t *time);

struct site_stats {
    uint64_t sites;        /* in the table */
    uint64_t dropped;      /* sampled blocks counted at SITE_DROPPED: no stack, or no room */
    uint64_t memory_bytes; /* held by tables, touched or not */
    uint64_t allocated_blocks, live_blocks; /* sampled, all sites; as of site_each */
    uint64_t freed_blocks;                  /* before a fork too */
};
void site_stats(struct site_stats *to);

/* In a forked child, while it has one thread: counts of allocations restart at zero. */
void site_fork_child(void);

#endif
