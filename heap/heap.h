/* heap.h: the face of heap/ to the layers above it.  The fast paths of malloc and free are inline in
   fast.h; what is here is everything else.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_HEAP_H
#define GLEANER_HEAP_H

#include "heap/hooks.h"

struct heap_options {
    bool verify;             /* heap_check checks, now and then and at the end */
    bool watch;              /* collection is on: the caller of every block is kept, and a byte of room behind it */
    bool reclaim;            /* lost blocks are reclaimed: with `watch` */
    uint64_t decay_ns;       /* how long unused memory is kept before the system gets it back */
};

/* Prepares the window.  Idempotent; the first allocation calls it with defaults if nobody has. */
void heap_start(const struct heap_options *options);

/* Was the option `watch` given? */
bool heap_watches(void);

/* Sets the hooks for the whole process (the struct must stay).  Blocks allocated before are not
   sampled.  Call it from start-up, while there is one thread; later only with a struct in which no hook that was there is
   missing, but `every`: other threads may be between two calls of a pair.  Each thread begins its counts anew (`renewed`): the calling one at once,
   others when they come by a slow path next, at the latest after 1024 blocks of one class. */
void heap_set_hooks(const struct heap_hooks *hooks);
const struct heap_hooks *heap_get_hooks(void);

/* As malloc, calloc, realloc, memalign and free of the glibc manual, errno included: ENOMEM on failure
   and for sizes over PTRDIFF_MAX; free leaves errno alone; realloc(p, 0) frees and returns NULL.
   `alignment` must be a power of two. Any thread, also before heap_start and after a thread's exit
   handlers. */
void *heap_malloc(size_t size);
void *heap_calloc(size_t count, size_t size);
void *heap_realloc(void *block, size_t size);
void *heap_aligned(size_t alignment, size_t size);
void heap_free(void *block);

/* Bytes that the block may use: its slot.  0 for NULL and for addresses that are no block. */
size_t heap_usable_size(const void *block);

/* Does a live block of ours start here? */
bool heap_owns(const void *block);

/* What lies at an address: start and size of the live block around it (interior pointers too) and
   its tracked entry.  False if none. */
bool heap_find(const void *address, void **block, size_t *size, uint32_t *entry);

/* While suspended the calling thread's allocations are not sampled (nests).  For our own code that
   allocates through the public names: libunwind, the loader. */
void heap_suspend_sampling(void);
void heap_resume_sampling(void);

/* The block is never called lost, nor what it reaches (a root).  False if no live block starts there. */
bool heap_ignore(const void *block);

/* Is it ignored?  Exact while the block cannot be freed. */
bool heap_is_ignored(const void *block);

/* So are the blocks that the calling thread allocates from now on, until the opposite; they nest. */
void heap_ignore_begin(void);
void heap_ignore_end(void);

/* Is it suspended now? */
bool heap_sampling_is_suspended(void);

/* Was heap_thread_exit called? */
bool heap_thread_is_ending(void);

/* What the calling thread hands to hooks; NULL without memory, and at its end, when its heap is not its own any more. */
struct heap_thread_hook *heap_own_hook(void);

/* The tag (tag.h) of the live block that starts at an address; false if none does.  Exact while the block cannot be freed. */
bool heap_tag(const void *block, uint32_t *tag);

/* Changes it if it is `from` still; the flags of tag.h that are no part of the number (TAG_IGNORED, TAG_LOST) stay as they
   are.  A free of the block then hands the new entry to `freed`.  False if it is not, or if no live block starts there.  Any
   thread; the block must not be freed meanwhile: only who frees or resizes a block may take an entry out of its tag for good. */
bool heap_retag(const void *block, uint32_t from, uint32_t to);

/* The thread ends: its heap is set aside for another thread.  It may allocate again afterwards (exit
   handlers do); that works and is slow. */
void heap_thread_exit(void);

/* After fork, in the child: the other threads are gone; their heaps are adopted when memory is
   needed.  Nothing is locked across a fork, so there is no prepare. */
void heap_fork_prepare(void);
void heap_fork_parent(void);
void heap_fork_child(void);

/* `word` is not 0, and lies in a page that a fork wipes (MADV_WIPEONFORK): where a slow path finds it 0, this is a
   child whose fork handlers did not run (_Fork, clone), and `forked` is called, which does their work and sets the word. */
void heap_watch_forks(const atomic_uint *word, void (*forked)(void));

/* Call before the process gets a further thread (from the wrapped pthread_create). */
void heap_before_thread(void);

/* Gives unused memory back to the system at once; true if any was. */
bool heap_trim(void);

/* The system refused memory, or the program a thread: as heap_trim, and gives addresses back, too, which count under
   RLIMIT_AS and strict overcommit. */
bool heap_save_memory(void);

struct heap_class_stats {
    size_t size;            /* of a slot, bytes; 0 for the large class */
    uint64_t allocated;     /* blocks ever */
    uint64_t freed;
    uint64_t live;
    uint64_t pools;         /* pools of the class; for large: extents in use */
    uint64_t allocated_bytes, freed_bytes, live_bytes; /* given */
};

struct heap_stats {
    struct heap_class_stats of[HEAP_CLASSES];
    unsigned classes;                /* entries 0 … classes-1 are pools; HEAP_CLASS_LARGE is large */
    uint64_t allocated, freed, live; /* blocks, all classes */
    uint64_t allocated_bytes, freed_bytes, live_bytes;
    uint64_t peak_bytes;             /* largest live_bytes that a slow path saw */
    uint64_t peak_time;              /* when: nanoseconds since 1970 */
    uint64_t pool_bytes;             /* mapped for pools */
    uint64_t large_bytes;            /* mapped for large blocks */
    uint64_t free_slot_bytes;        /* free or cached slots in pools that are in use */
    uint64_t metadata_bytes;
};

/* Exact when no other thread allocates meanwhile; else each figure is as of some moment during the
   call.  After a fork the child counts allocated and freed from zero. Any thread; no lock. */
void heap_stats(struct heap_stats *to);

/* Walks every structure and checks every invariant. `complain` gets one line a violation (NULL: not
   wanted).  True if all hold.  Exact only while no other thread runs in the heap. */
bool heap_verify(void (*complain)(const char *line));

/* With the option `verify`, in a process with one thread: heap_verify, and where it fails the violations on stderr and the
   process's end by SIGABRT.  Nothing otherwise.  The heap calls it at refills; call it at the process's end. */
void heap_check(void);

#endif
