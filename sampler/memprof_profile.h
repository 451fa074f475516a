/* memprof_profile.h: one profile, for the files memprof_*.c.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_MEMPROF_PROFILE_H
#define GLEANER_MEMPROF_PROFILE_H

#include "heap/hooks.h"
#include "sampler/geometric.h"
#include "sampler/memprof.h"
#include "sampler/memprof_entry.h"
#include "sampler/stack.h"

enum memprof_phase {
    MEMPROF_RUNNING,
    MEMPROF_STOPPED,
    MEMPROF_DISCARDING, /* its entries are being looked for */
    MEMPROF_DISCARDED   /* once it has no entries it may be used for another profile */
};

enum memprof_count {
    MEMPROF_N_ALLOCATED,
    MEMPROF_N_FREED_YOUNG,
    MEMPROF_N_FREED_OLD,
    MEMPROF_N_RECLAIMED,
    MEMPROF_N_PROMOTED,
    MEMPROF_N_DECLINED,
    MEMPROF_N_DROPPED,
    MEMPROF_NS
};

struct memprof_profile {
    struct memprof_profile *next; /* all there are; never taken out */
    _Atomic unsigned long id;
    _Atomic uint32_t phase;
    _Atomic uint64_t entries;
    struct gleaner_memprof_options options;
    struct geometric distribution;
    bool every_word;
    uint64_t huge_words; /* blocks from here on are not walked point by point */
    uint64_t seed;
    struct {
        _Atomic uint64_t blocks, samples;
    } count[MEMPROF_NS];
    uint64_t found_blocks, found_samples; /* for memprof_fork_child */
};

/* The one that samples; NULL: none. */
extern _Atomic(struct memprof_profile *) memprof_active;
extern _Atomic(struct memprof_profile *) memprof_profiles;

void memprof_add(struct memprof_profile *, enum memprof_count, uint64_t samples);

/* What a thread has of ours, behind heap_thread_hook.memprof.  As the sampler's own it stays with the thread heap when the
   thread ends. */
struct memprof_thread {
    unsigned long profile; /* for which `gap` was drawn; 0: none */
    uint32_t torn; /* memprof_torn when `queue_first` was right */
    uint64_t gap[HEAP_CLASSES];
    uint64_t gaps[RANDOM_STREAMS];
    struct random_streams random;
    uint32_t used; /* of gaps */
    uint32_t generation; /* of the fork */
    uint32_t number;
    /* Between `due` or `large` and `allocated`: the sample points of the library's profile, and ours. */
    bool drawn;
    unsigned theirs, ours;
    uint32_t queue_first, queue_last; /* entries whose callbacks wait for the end of the call; 0: none */
    struct memprof_cache cache;
    struct stack_cache *stack;
};

/* Makes it if need be; NULL without memory or for a hook of NULL. */
struct memprof_thread *memprof_thread_of(struct heap_thread_hook *);

/* The sample points of the running profile in so many words that belong to no class; `of` gets the profile.  0 where the
   thread takes no part. */
unsigned memprof_points(struct memprof_thread *, uint64_t words, struct memprof_profile **of);

/* Takes the calling thread's stack, with sampling suspended. */
uint32_t memprof_stack(struct memprof_thread *);

/* Puts our hooks between the heap and those that are in force; once.  `anew`: and lets every thread begin its counts anew. */
void memprof_install(bool anew);
extern _Atomic uint32_t memprof_generation; /* of forks */
extern _Atomic uint32_t memprof_torn;       /* of forks of a process with threads: lists are not what they were */
void memprof_install_again(void);           /* in a forked child */

/* A new entry of a profile: what is given of `like` (asked, given, n_samples, stack; `source`), its place in the heap is the
   caller's matter.  Its alloc event waits until memprof_publish.  0 without memory (counted). */
struct memprof_new {
    void *block;
    size_t asked, given;
    unsigned n_samples;
    uint32_t stack, below;
    enum gleaner_source source;
    enum memprof_kind kind;
    bool old;
};
uint32_t memprof_make(struct memprof_thread *, struct memprof_profile *, const struct memprof_new *);

/* ---- memprof_event.c ---- */

/* The entry stands where the block's end will find it: lets its alloc callback be called.  In the queue of `hook`'s thread,
   or, without one, a shared list. */
void memprof_publish(struct heap_thread_hook *hook, uint32_t number);

/* The end of a tracked block: counts it, and queues what is to be called; after it the entry may be gone. */
void memprof_died(struct heap_thread_hook *hook, uint32_t number, uint32_t how);

/* An event of a block that lives, for an entry in the state that was read; false if that has changed meanwhile (nothing was
   done). */
bool memprof_happened(uint32_t number, uint64_t state, uint32_t flag);

/* Nobody is told of the entry any more, which ends with its block.  `state`: as it was read; false if it has changed since
   (nothing was done). */
bool memprof_silence(uint32_t number, uint64_t state);

/* The callbacks hook; thread_ended. */
void memprof_callbacks(struct heap_thread_hook *);
void memprof_thread_ended(struct heap_thread_hook *);

/* An entry that somebody must deliver, with MEMPROF_QUEUED set. */
void memprof_queue(struct heap_thread_hook *, uint32_t number);

/* Lets go of an entry that has MEMPROF_QUEUED set and is in no queue: runs the callbacks that are due, and then ends it or takes
   the flag away.  Without callbacks due it needs no hook, and may be called anywhere. */
void memprof_settle(struct memprof_cache *, uint32_t number);

/* Every entry of an arena's block, with what the latest collection says of it. */
void memprof_each_piece(void (*each)(uint32_t number, bool old, bool lost));

/* In a forked child of a process with threads: the queues are empty. */
void memprof_queues_fork_child(void);
uint32_t memprof_running(void); /* the entry whose callback the calling thread is in, or 0 */

/* Puts an entry before what stands in a live block's tag.  False if no block starts there, or without memory. */
bool memprof_attach(uint32_t number, void *block);

#endif
