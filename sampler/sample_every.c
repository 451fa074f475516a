/* sample_every.c: the sampler's hooks where every word is a sample point, which run at each malloc and each free.

   1. They do what sampler.c's do, by the short way where that is open: the stack is the previous one, the site is at hand, an
      entry and a reading of the clock too, and what is counted belongs to this thread alone (SITE_OWN of site.h).  Nothing is called on the
      short way, so nothing is saved for a call: where something is missing it is got, and the hook begun again, or left to sampler.c.
   2. A death is counted some frees later (deaths.h), unless a tracer listens for it: he would hear of it after his block was used anew.
   3. Of what can change at a fork only the thread's generation is looked at: when it is renewed so is its cache of entries, and sites at
      hand are forgotten.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#define GLEANER_PROBES_COUNTED
#include "heap/heap.h"
#include "heap/probes.h"
#include "sampler/sampler_thread.h"

#define SOURCE_BITS ((size_t)15)

static ALWAYS_INLINE size_t given_of(size_t what) { return what & ~SOURCE_BITS; }
static ALWAYS_INLINE enum heap_source source_of(size_t what) { return (enum heap_source)(what & SOURCE_BITS); }

static ALWAYS_INLINE bool is_ready(const struct sampler_thread *t)
{
    return t && t->generation == atomic_load_explicit(&sampler_generation, memory_order_relaxed);
}

/* ---- malloc ---- */

struct call {
    void *block;
    size_t asked, what;
    _Atomic uint32_t *tag;
};

static NOINLINE void *live_is_due(struct sampler_thread *t, void *block)
{
    sampler_live_tell(t);
    return block;
}

/* The cache has an entry, the clock's reading is good, and the site is at hand. */
static ALWAYS_INLINE void *make(struct sampler_thread *t, const struct call *c, const struct site_at_hand *site)
{
    const uint64_t bytes = atomic_load_explicit(&lifetime_clock, memory_order_relaxed) + t->clock_kept;
    const struct tracked_view v = {.block = c->block,
                                   .asked = c->asked,
                                   .site = site->site,
                                   .n_samples = (uint32_t)(given_of(c->what) / ESTIMATE_WORD),
                                   .time = t->clock.ticks,
                                   .clock = bytes / LIFETIME_UNIT,
                                   .thread = t->tag};
    uint32_t entry = t->cache.entry[--t->cache.count];
    tracked_store(tracked_entry_at(entry), &v);
    atomic_store_explicit(c->tag, entry, memory_order_release);
    if (likely(site->own)) count_own(&site->record->allocated.blocks);
    else count_add(&site->record->allocated.blocks, 1);
    PROBE5(gleaner, sample, c->block, c->asked, given_of(c->what), v.n_samples, v.site);
    PROBE3(otel_memory, alloc, c->block, c->asked, given_of(c->what));
    return sampler_live_due(t, v.n_samples) ? live_is_due(t, c->block) : c->block;
}

static NOINLINE uint32_t walk(struct sampler_thread *t, const void *frame)
{
    heap_suspend_sampling();
    uint32_t stack = stack_capture_frame(&t->stack, frame);
    heap_resume_sampling();
    return stack;
}

/* The short way was not open. */
static NOINLINE void *make_slowly(struct heap_thread_hook *hook, const struct call *c, const void *frame)
{
    struct sampler_thread *t = hook->sampler;
    if (!is_ready(t) || !tracked_cache_fill(&t->cache)) goto other;
    uint32_t stack = stack_again(t->stack, frame);
    if (unlikely(stack == 0)) stack = walk(t, frame);
    const uint64_t key = sampler_key(stack, c->what);
    const struct site_at_hand *site = sampler_at_hand(t, key);
    if (unlikely(site->key != key) && sampler_site(t, stack, given_of(c->what), source_of(c->what)) == SITE_DROPPED) goto other;
    lifetime_allocated(&t->clock_kept, given_of(c->what));
    coarse_clock_read(&t->clock);
    return make(t, c, site);
other:
    *c->tag = sampler_allocated(hook, c->block, c->asked, given_of(c->what), source_of(c->what),
                                (unsigned)(given_of(c->what) / ESTIMATE_WORD));
    return c->block;
}

/* The frame record of the function that expands it: the caller's frame pointer, the return address, and behind them the caller's
   stack.  Where the ABI does not put it there, NULL. */
#if defined(__x86_64__)
#define FRAME() __builtin_frame_address(0)
#else
#define FRAME() NULL
#endif

void *sampler_allocated_every(struct heap_thread_hook *hook, void *block, size_t asked, size_t what, _Atomic uint32_t *tag)
{
    const void *frame = FRAME();
    struct sampler_thread *t = hook->sampler;
    const struct call call = {block, asked, what, tag};
    if (unlikely(!is_ready(t) || t->cache.count == 0 || !coarse_is_good(&t->clock))) goto slowly;
    const uint64_t key = sampler_key(stack_find(t->stack, frame), what);
    const struct site_at_hand *site = sampler_at_hand(t, key);
    if (unlikely(key >> 32 == 0 || site->key != key)) goto slowly;
    const uint64_t kept = t->clock_kept + given_of(what);
    if (unlikely(kept >= LIFETIME_KEPT)) goto slowly;
    t->clock_kept = kept;
    return make(t, &call, site);
slowly:;
    const struct call copy = call; /* so that the other may stay in registers */
    return make_slowly(hook, &copy, frame);
}

/* ---- free ---- */

struct due {
    uint64_t what, bytes;
    uintptr_t block;
    struct tracked_entry *at;
};

/* Puts a death in the place of the one that is due. */
static ALWAYS_INLINE struct due put_down(struct sampler_thread *t, void *block, uint32_t entry, struct tracked_entry *at)
{
    struct death *d = &t->deaths.ring[t->deaths.turn++ % DEATHS];
    const struct due due = {
        .what = atomic_load_explicit(&d->what, memory_order_relaxed), .bytes = atomic_load_explicit(&d->bytes, memory_order_relaxed),
        .block = atomic_load_explicit(&d->block, memory_order_relaxed), .at = atomic_load_explicit(&d->at, memory_order_relaxed)};
    atomic_store_explicit(&d->what, (uint64_t)t->clock.ticks << 32 | entry, memory_order_relaxed);
    atomic_store_explicit(&d->bytes, atomic_load_explicit(&lifetime_clock, memory_order_relaxed) + t->clock_kept, memory_order_relaxed);
    atomic_store_explicit(&d->block, (uintptr_t)block, memory_order_relaxed);
    atomic_store_explicit(&d->at, at, memory_order_relaxed);
    return due;
}

static NOINLINE void count_slowly(struct sampler_thread *t, const struct due *d)
{
    const struct lifetime_birth then = {.units = d->bytes / LIFETIME_UNIT, .ticks = (uint32_t)(d->what >> 32)};
    sampler_count_death(t, (void *)d->block, (uint32_t)d->what & ~DEATH_OLD, then, d->what & DEATH_OLD);
}

/* The cache has room for the entry. */
static ALWAYS_INLINE void count(struct sampler_thread *t, const struct due *d)
{
    struct tracked_entry *e = d->at;
    if (unlikely(atomic_load_explicit(&e->what, memory_order_relaxed) >> 16 != d->block)) goto other;
    struct tracked_view was;
    tracked_load(e, 0, &was);
    struct site_record *r = site_record_at(was.site);
    if (unlikely(!r || site_record_shard(r) != t->own_shard)) goto other;
    struct lifetime *l = lifetime_of(was.site, LIFETIME_SELF);
    if (unlikely(!l || was.time < atomic_load_explicit(&lifetime_since, memory_order_relaxed))) goto other;
    atomic_store_explicit(&e->what, t->cache.generation, memory_order_release);
    t->cache.entry[t->cache.count++] = (uint32_t)d->what & ~DEATH_OLD;
    count_own(&r->freed.blocks);
    count_own(&l->time[lifetime_time_bucket((uint32_t)(d->what >> 32) - was.time)]);
    count_own(&l->span[lifetime_span_of(was.clock, d->bytes / LIFETIME_UNIT)]);
    if (unlikely(d->what & DEATH_OLD)) count_own(&l->old);
    PROBE3(gleaner, sample_free, d->block, was.site, was.n_samples);
    if (sampler_live_due(t, -(int64_t)was.n_samples)) sampler_live_tell(t);
    return;
other:;
    const struct due copy = *d;
    count_slowly(t, &copy);
}

static NOINLINE void begin_again(struct heap_thread_hook *hook, void *block, uint32_t entry, bool old)
{
    struct sampler_thread *t = hook->sampler;
    coarse_clock_anew(&t->clock);
    tracked_cache_spill(&t->cache);
    if (coarse_is_good(&t->clock)) sampler_freed_every(hook, block, entry, old);
    else sampler_freed(hook, block, entry, old);
}

void sampler_freed_every(struct heap_thread_hook *hook, void *block, uint32_t entry, bool old)
{
    struct sampler_thread *t = hook ? hook->sampler : NULL;
    struct tracked_entry *e = tracked_entry_at(entry);
    if (unlikely(!is_ready(t) || !e || t->own_shard == UINT32_MAX || PROBE_LISTENED(sample_free))) {
        sampler_freed(hook, block, entry, old);
        return;
    }
    if (unlikely(t->cache.count == TRACKED_CACHE || !coarse_is_good(&t->clock))) {
        begin_again(hook, block, entry, old);
        return;
    }
    __builtin_prefetch(e, 1);
    PROBE1(otel_memory, free, block);
    const struct due due = put_down(t, block, entry | (old ? DEATH_OLD : 0), e);
    if (likely(due.at)) count(t, &due);
}
