/* hooks.h: what the heap tells the layers above it.  The heap knows nothing of them: it calls these
   function pointers, set once at start (heap_set_hooks), each of which may be NULL.

   Sampling.  Every allocated word is a Bernoulli trial (doc/estimator.md).  The trials of a thread
   are split by size class: a thread keeps for each class how many more blocks it may hand out before
   a sample point lies in one ("left"), which costs the fast path one decrement that also counts the
   allocations exactly.  Bernoulli trials are memoryless and independent, so a stream a class is as
   good as one stream.  Large blocks form one further class in which each block brings its own number
   of words.

   Order of calls for a block that a sample point lies in: `due` or `large`, then, once the block is
   allocated, `allocated`, which returns the number of a tracked entry; the heap keeps it beside
   the block and hands it to `freed` or `moved`.  Nothing is locked meanwhile.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_HOOKS_H
#define GLEANER_HOOKS_H

#include "heap/base.h"

typedef void *heap_malloc_of(size_t size);

#define HEAP_CLASSES 64 /* small, then medium; the last one stands for all large blocks */
#define HEAP_CLASS_LARGE 63

enum heap_source {
    HEAP_MALLOC,
    HEAP_CALLOC,
    HEAP_REALLOC,
    HEAP_ALIGNED,
    HEAP_SOURCES
};

/* What a thread hands to every hook: the sampler keeps its own state of the thread behind `sampler`
   (NULL in a new thread; survives in a recycled thread heap, so look at it first). */
struct heap_thread_hook {
    void *sampler;
    void *memprof;    /* the same for the program's own profile (memprof.h) */
    uint32_t pending; /* set by the layers above: `callbacks` is wanted at the end of the call */
};

enum heap_misuse {
    HEAP_DOUBLE_FREE,  /* the block at this address was freed already */
    HEAP_INVALID_FREE  /* no block starts at this address */
};

struct heap_hooks {
    /* The block of `words` words that is about to be handed out for class `class` may hold sample
       points.  Stores how many it holds (0: none) and returns how many blocks of this class may
       follow without one; UINT32_MAX at most.  Called for the first block of a class in a thread
       too. */
    uint32_t (*due)(struct heap_thread_hook *, unsigned class, size_t words, unsigned *n_samples);

    /* The same for one large block: the number of sample points in `words` words. */
    unsigned (*large)(struct heap_thread_hook *, size_t words);

    /* A sampled block exists: its address, the size asked for and given (bytes), its source, its
       sample points.  Returns the number of its entry, or 0 to forget it.  May unwind; may call
       malloc through the public names, which `heap_suspend_sampling` then keeps from sampling. */
    uint32_t (*allocated)(struct heap_thread_hook *, void *block, size_t asked, size_t given,
                          enum heap_source, unsigned n_samples);

    /* `allocated` for a block of a pool all of whose words are sample points, where every block is such a one: `due` is asked for few of
       them then.  `what` is the size given, a multiple of 16, plus the source.  Stores the number of the entry in *tag, which is 0 (so it
       stays where there is none), and returns the block.  It is jumped to wherever it can be, so that what called it is the program,
       or a frame of the exported function. */
    void *(*every)(struct heap_thread_hook *, void *block, size_t asked, size_t what, _Atomic uint32_t *tag);

    /* The hooks were set anew since the thread's counts were (heap_set_hooks), so these begin again: first `unused` for each class of
       which `due` had allowed `words` words that were not used, then `renewed`, all before the thread's next `due` or `large`. */
    void (*unused)(struct heap_thread_hook *, unsigned class, uint64_t words);
    void (*renewed)(struct heap_thread_hook *);

    /* A tracked block was freed. `hook` is NULL in a thread that has no heap any more. `old`: it was live at a collection
       (STATE_OLD of pool.h); it may be gone and its slot another's by now, so nobody else can tell. */
    void (*freed)(struct heap_thread_hook *hook, void *block, uint32_t entry, bool old);

    /* A tracked block was resized: what it was given before, and the new sizes asked and given.  It is where it was, or its pages
       were moved to `block`.  `old`: it was live at a collection before that.  Returns what is to stand in its tag from now on
       (tag.h): an entry, a caller, or 0. */
    uint32_t (*resized)(struct heap_thread_hook *hook, void *block, uint32_t entry, size_t before,
                        size_t asked, size_t given, bool old);

    /* `pending` was set, and the call that did it (an allocation, a free) is at its end: the heap is whole again, nothing is
       locked, and what is called may allocate and free. */
    void (*callbacks)(struct heap_thread_hook *);

    /* The thread ends; its heap is about to be set aside. */
    void (*thread_ended)(struct heap_thread_hook *);

    /* A block that was called lost was freed, resized or written by the program (enum lost_proof of lost.h): its tag (tag.h).
       Before `freed`. `hook` may be NULL. */
    void (*false_lost)(struct heap_thread_hook *hook, uint32_t tag, size_t given, int proof);

    /* Reclaim (reclaim.h).  The number of the place where the block of a tag was allocated, from 1 to RECLAIM_PLACES - 1, and 0 where that is not
       known, or there is no room.  *caller: that of its caller alone, itself where nothing else is known; *library: the
       loader or libc has allocated it. */
    uint32_t (*place)(uint32_t tag, const void *block, uint32_t *caller, bool *library);

    /* A lost block that is tracked is being taken back: its entry, before `freed` gets what this returns (0: nothing does). */
    uint32_t (*reclaimed)(void *block, uint32_t entry);

    /* A block on trial, quarantined or reclaimed, of this place (0: unknown) was proven not to be lost (enum lost_proof). */
    void (*vetoed)(struct heap_thread_hook *hook, uint32_t place, int proof);

    /* The system refuses memory. True if there may be some now.  No lock is held, and no heap in the middle of a change. */
    bool (*starving)(struct heap_thread_hook *);

    /* Reclaim is off from now on.  Once. */
    void (*reclaim_off)(const char *why);

    /* A pointer that is not ours (outside the window, or in it but in no piece of ours). */
    void (*foreign_free)(void *);
    void *(*foreign_realloc)(void *, size_t);
    size_t (*foreign_size)(const void *);

    /* malloc in a thread that has no heap: the malloc of another allocator that serves this process, to be called as the last thing, so that it
       finds the program's frame where it looks for its caller's; NULL: there is none. */
    heap_malloc_of *(*elsewhere)(void);

    /* A proven double or invalid free.  `entry` is the tracked entry where a live sampled block
       contains the address, else 0; `block` and `size` describe the slot that contains it, NULL and
       0 if there is none.  If it returns, the call is ignored. */
    void (*misuse)(enum heap_misuse, void *address, void *block, size_t size, uint32_t entry);

    /* The calling thread has just got a thread heap (also a recycled one): arrange for heap_thread_exit
       at its end. */
    void (*thread_started)(struct heap_thread_hook *);

    /* Called now and then from the slow path of a thread that holds nothing: a place for work that
       must happen without a thread of our own (the `interval` key).  `now` is os_now_coarse(). */
    void (*tick)(struct heap_thread_hook *, uint64_t now);
};

#endif
