/* tracked.h: the table of tracked blocks: one entry for each sampled block that is live.  The heap
   keeps the entry's number beside the block, so nothing is ever looked up by address.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_TRACKED_H
#define GLEANER_TRACKED_H

#include "heap/base.h"

#define TRACKED_MAX ((uint32_t)3 << 27) /* entries: 12 GiB of them; numbers above are the program's own profile's (memprof_entry.h) */

/* Entries that a thread has at hand, so that threads do not meet at one word for every block.  All
   zero at first; belongs to one thread at a time. */
#define TRACKED_CACHE 64
struct tracked_cache {
    uint32_t generation; /* of the fork: the cache of another is stale */
    uint32_t count;
    uint32_t entry[TRACKED_CACHE];
};

enum tracked_flag { /* of an entry; 16 bits in all, for whoever tracks lifetimes */
                    TRACKED_RESIZED = 1 /* was resized in place */
};

#define TRACKED_CLOCK_BITS 40
#define TRACKED_ASKED_MOST (((size_t)1 << 40) - 1) /* more than the window has room for */

struct tracked_view {
    void *block;
    size_t asked; /* bytes, not over TRACKED_ASKED_MOST; what was given says the site */
    uint32_t site;
    uint32_t n_samples; /* sample points in the block, UINT32_MAX at most */
    uint32_t time;      /* of allocation: ticks of the caller's choice */
    uint64_t clock;     /* of allocation, too: another of the caller's clocks, TRACKED_CLOCK_BITS */
    uint16_t thread;    /* number of the thread that allocated it, saturated */
    uint16_t flags;
};

/* What lies below a tag (tag.h) whose number is not one of ours: the tag that the block would have without.  NULL: there are none. */
extern uint32_t (*tracked_below)(uint32_t tag);
static inline uint32_t tracked_tag(uint32_t tag)
{
    return tracked_below ? tracked_below(tag) : tag;
}

/* Before the first entry.  `limit`: bytes that the table may take; 0: the default, a quarter of the
   machine's memory.  (An entry is 32 bytes, so a heap of blocks of 64 bytes on average can be
   tracked whole until it and its entries fill three quarters of the memory; with the default
   sampling interval the table stays under a ten-thousandth of the heap.) */
void tracked_start(size_t limit);

/* Makes an entry; its number, or 0 when the table is full (counted).  Lock-free, any thread;
   `cache` may be NULL for a thread that has none. */
uint32_t tracked_add(struct tracked_cache *cache, const struct tracked_view *);

/* Drops the cache if it is of another fork.  Whoever has called this since the fork may take from it and put back into it himself. */
void tracked_cache_renew(struct tracked_cache *cache);

/* For him: makes entries to take where there are none; false if there are none at all.  Makes room to put one back where there is none. */
bool tracked_cache_fill(struct tracked_cache *cache);
void tracked_cache_spill(struct tracked_cache *cache);

/* Removes the entry if it is that of `block` and tells what it was; false if it is not (nothing was
   done).  `cache` as above. */
bool tracked_remove(struct tracked_cache *cache, uint32_t entry, const void *block,
                    struct tracked_view *was);

/* Reads an entry; false if it is none.  Of a number above TRACKED_MAX the entry that lies below it.  Any thread; exact while its block cannot be freed meanwhile. */
bool tracked_get(uint32_t entry, struct tracked_view *);

/* Changes what is known of a live block (the same block): the caller must own the block. */
void tracked_change(uint32_t entry, const struct tracked_view *);

/* Calls `each` for every entry.  Entries made or removed meanwhile may be seen or not. Any thread,
   and a snapshot child: no lock, no memory. */
void tracked_each(void (*each)(uint32_t entry, const struct tracked_view *, void *user),
                  void *user);

struct tracked_stats {
    uint64_t dropped;      /* blocks not tracked because the table was full */
    uint64_t limit;        /* entries that there can be */
    uint64_t used;         /* entries that were ever used: the table's high-water mark */
    uint64_t memory_bytes; /* mapped for the table */
};
void tracked_stats(struct tracked_stats *to);

/* In a forked child, while it has one thread. */
void tracked_fork_child(void);

#endif
