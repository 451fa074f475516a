/* large.h: blocks over 32 KiB, from an arena of our own jemalloc inside the window's large area.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_LARGE_H
#define GLEANER_LARGE_H

#include "heap/base.h"

/* At least `size` bytes (over 0, at most PTRDIFF_MAX) aligned to `alignment` (a power of two,
   OS_PAGE is always given).  The given size, a multiple of OS_PAGE, goes to *given. `zero`: all of
   it reads as zero.  NULL when out of memory; errno is left alone. Any thread. */
void *large_alloc(size_t size, size_t alignment, bool zero, size_t *given);

/* Frees a block; returns its size, or 0 if no live large block starts at this address (nothing was
   done then). `*entry` gets its tag (0 if none), `*old` whether it was there at a collection.  Two
   threads that free the same block: exactly one gets the size. */
size_t large_free(void *block, uint32_t *entry, bool *old);

/* The same for a lost block, whose pages go to the system at once. */
size_t large_reclaim(void *block, uint32_t *entry);

/* Grows or shrinks in place: the new given size, or 0 if it cannot (the block is as before). */
size_t large_resize(void *block, size_t size);

/* Moves a block to new addresses and a new size by moving its pages, which costs no copying: for
   realloc, where large_resize failed.  The contents follow, as far as the smaller size reaches; the
   old address is freed, its tracked entry goes to the new block.  NULL (nothing was done): the
   block or the size is below LARGE_MOVE_MIN, or the system cannot; then copy. */
#define LARGE_MOVE_MIN (4 * MIB)
void *large_move(void *block, size_t size, size_t *given);

/* Size of the live large block that starts here, or 0. */
size_t large_size(const void *block);

/* Start and size of the live large block around an address in the large area; false if none. */
bool large_find(const void *address, void **block, size_t *size);

/* The tag beside a live block (tag.h). */
void large_set_entry(void *block, uint32_t entry);
uint32_t large_entry(const void *block);

/* Was the live block there at a collection? */
bool large_is_old(const void *block);

/* Calls `each` for every live large block (exact only while nobody else allocates). */
void large_each(void (*each)(void *block, size_t size, uint32_t entry, void *user), void *user);

struct large_stats {
    uint64_t live, live_bytes;           /* blocks now; given bytes */
    uint64_t allocated, allocated_bytes; /* ever */
    uint64_t mapped_bytes;               /* mapped in the large area */
    uint64_t cached_bytes;               /* of it: free, pages still with us */
};
void large_stats(struct large_stats *to);

/* Gives free pages back at once; true if there were any. */
bool large_trim(void);

/* A mapping was refused: what is given back from now on gives its addresses back, too. */
void large_save_addresses(void);

/* Called now and then from slow paths: gives back what has been unused for `decay_ns`.  `now` is
   os_now_coarse(). */
void large_decay(uint64_t now, uint64_t decay_ns);

/* fork: prepare closes a gate around jemalloc and waits at most 10 ms for the threads inside; while
   it is closed, and in a child whose gate could not be emptied, blocks are mapped directly.
   `threads_were_there`: the parent had further threads, so what they changed while the kernel copied page
   after page may be torn: the child forgets the stacks of unused blocks. */
void large_fork_prepare(void);
void large_fork_parent(void);
void large_fork_child(bool threads_were_there);

/* In such a child, where ours is the only thread: the counts become what the table says is live. */
void large_recount(void);

/* Every invariant of the tables against each other. */
bool large_verify(void (*complain)(const char *line));

#endif
