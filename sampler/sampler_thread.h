/* sampler_thread.h: what a thread keeps between its samples; shared by sampler.c and sample_every.c.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_SAMPLER_THREAD_H
#define GLEANER_SAMPLER_THREAD_H

#include "sampler/coarse_clock.h"
#include "sampler/deaths.h"
#include "sampler/estimate.h"
#include "sampler/geometric.h"
#include "sampler/lifetime.h"
#include "sampler/stack_cache.h"
#include "sampler/tracked_entry.h"

/* Sites that the thread used last: they never change, so a number stays right. */
#define SITES_AT_HAND 256
struct site_at_hand {
    uint64_t key; /* stack << 32 | given | source; 0: none */
    struct site_record *record; /* its base is of this process (site_record_begun) */
    uint32_t site;
    bool own; /* its shard is the thread's alone */
};

/* Where the thread's latest deaths were counted, by the site's number: of sites of its own shard that have a record of lives.  Neither
   record ever goes in a process. */
#define LIVES_AT_HAND 256
struct lives_at_hand {
    uint32_t site; /* SITE_DROPPED: none, but in the first place, where that is a site's number, UINT32_MAX */
    struct site_record *record;
    struct lifetime *lives;
};

struct sampler_thread {
    uint64_t gap[HEAP_CLASSES]; /* words before the next sample point */
    uint64_t gaps[RANDOM_STREAMS];
    struct random_streams random;
    uint32_t used;       /* of gaps */
    uint32_t generation; /* of the fork in which `random` was seeded, and of the cache */
    uint32_t own_generation; /* the same if it has own_shard, else 0, which none is */
    uint32_t number;     /* in the order of first samples, from 1 */
    uint32_t shard;      /* of its sites */
    uint32_t own_shard;  /* the same if it is the thread's alone, else none */
    uint16_t tag;        /* its number, UINT16_MAX at most */
    uint64_t live_kept, live_span; /* for site_live_changed, half of the span more than it is, so that one comparison tells */
    uint64_t clock_kept; /* for lifetime_allocated */
    struct coarse_clock clock;
    struct tracked_cache cache;
    struct deaths deaths; /* of a thread with own_shard */
    struct stack_cache *stack;
    struct site_at_hand sites[SITES_AT_HAND];
    struct lives_at_hand lives[LIVES_AT_HAND];
};

HIDDEN extern _Atomic uint32_t sampler_generation; /* of the fork */

static ALWAYS_INLINE uint64_t sampler_key(uint32_t stack, size_t what)
{
    return (uint64_t)stack << 32 | what; /* sizes given are multiples of 16, so that the source has room */
}

static ALWAYS_INLINE struct site_at_hand *sampler_at_hand(struct sampler_thread *t, uint64_t key)
{
    return &t->sites[key * 0x9e3779b97f4a7c15u >> 56];
}
_Static_assert(SITES_AT_HAND == 1 << (64 - 56) && HEAP_SOURCES <= 16, "what the key leaves");

static ALWAYS_INLINE struct lives_at_hand *sampler_lives_at_hand(struct sampler_thread *t, uint32_t site)
{
    return &t->lives[site % LIVES_AT_HAND];
}

/* The live total has changed by `n`, which is told to the sites now and then: true if it is time to. */
static ALWAYS_INLINE bool sampler_live_due(struct sampler_thread *t, int64_t n)
{
    t->live_kept += (uint64_t)n;
    return unlikely(t->live_kept > t->live_span);
}

/* Begins to count anew; returns what there was. */
static inline int64_t sampler_live_begin(struct sampler_thread *t)
{
    uint64_t kept = t->live_kept - t->live_span / 2, most = (uint64_t)atomic_load_explicit(&site_quantum_now, memory_order_relaxed);
    t->live_kept = most;
    t->live_span = 2 * most;
    return (int64_t)kept;
}

static inline void sampler_live_tell(struct sampler_thread *t) { site_live_changed(sampler_live_begin(t)); }

/* The site of the stack with that size given and source, at hand from now on if it is none of those that are dropped. */
uint32_t sampler_site(struct sampler_thread *t, uint32_t stack, size_t given, enum heap_source source);

/* The hooks of any block (hooks.h). */
uint32_t sampler_allocated(struct heap_thread_hook *hook, void *block, size_t asked, size_t given, enum heap_source source,
                           unsigned n_samples);
void sampler_freed(struct heap_thread_hook *hook, void *block, uint32_t entry, bool old);

/* Counts a death: of the block that the entry is still that of. `now`: when it died. */
void sampler_count_death(struct sampler_thread *, void *block, uint32_t entry, struct lifetime_birth now, bool old);

/* The same where every word is sampled: sample_every.c. */
void *sampler_allocated_every(struct heap_thread_hook *hook, void *block, size_t asked, size_t what, _Atomic uint32_t *tag);
void sampler_freed_every(struct heap_thread_hook *hook, void *block, uint32_t entry, bool old);

#endif
