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

static ALWAYS_INLINE uint32_t generation_now(void) { return atomic_load_explicit(&sampler_generation, memory_order_relaxed); }
static ALWAYS_INLINE bool is_ready(const struct sampler_thread *t) { return t && t->generation == generation_now(); }

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

/* The cache has an entry, the clock's reading is good, and the site is at hand.  The entry's fields are stored one by one, as tracked_store does
   it, so that few of them need a register at the same time. */
static ALWAYS_INLINE void *make(struct sampler_thread *t, const struct call *c, const struct site_at_hand *site)
{
    const uint64_t bytes = atomic_load_explicit(&lifetime_clock, memory_order_relaxed) + t->clock_kept;
    const uint32_t n_samples = (uint32_t)given_of(c->what) / ESTIMATE_WORD; /* it is a pool's block */
    const uint32_t entry = t->cache.entry[--t->cache.count];
    struct tracked_entry *e = tracked_made(entry);
    tracked_store_birth(e, c->asked, bytes / LIFETIME_UNIT, t->tag);
    atomic_store_explicit(&e->time, t->clock.ticks, memory_order_relaxed);
    atomic_store_explicit(&e->site, site->site, memory_order_relaxed);
    atomic_store_explicit(&e->n_samples, n_samples, memory_order_relaxed);
    atomic_store_explicit(&e->what, (uint64_t)(uintptr_t)c->block << 16, memory_order_release);
    atomic_store_explicit(c->tag, entry, memory_order_release);
    if (likely(site->own)) count_own(&site->record->allocated.blocks);
    else count_add(&site->record->allocated.blocks, 1);
    PROBE5(gleaner, sample, c->block, c->asked, given_of(c->what), n_samples, site->site);
    PROBE3(otel_memory, alloc, c->block, c->asked, given_of(c->what));
    return sampler_live_due(t, n_samples) ? live_is_due(t, c->block) : c->block;
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

/* So that an address is made once, not for each of its fields. */
#define IN_ONE_REGISTER(pointer) __asm__("" : "+r"(pointer))

/* Puts a death in the place of the one that is due. */
static ALWAYS_INLINE struct due put_down(struct sampler_thread *t, void *block, uint32_t entry, struct tracked_entry *at)
{
    struct death *d = &t->deaths.ring[t->deaths.turn++ % DEATHS];
    IN_ONE_REGISTER(d);
    const struct due due = {
        .what = atomic_load_explicit(&d->what, memory_order_relaxed), .bytes = atomic_load_explicit(&d->bytes, memory_order_relaxed),
        .block = atomic_load_explicit(&d->block, memory_order_relaxed), .at = atomic_load_explicit(&d->at, memory_order_relaxed)};
    atomic_store_explicit(&d->what, (uint64_t)t->clock.ticks << 32 | entry, memory_order_relaxed);
    atomic_store_explicit(&d->bytes, atomic_load_explicit(&lifetime_clock, memory_order_relaxed) + t->clock_kept, memory_order_relaxed);
    atomic_store_explicit(&d->block, (uintptr_t)block, memory_order_relaxed);
    atomic_store_explicit(&d->at, at, memory_order_relaxed);
    return due;
}

/* Puts a site's records at hand; false where it is of another's shard, or has no record of lives yet. */
static ALWAYS_INLINE bool find_lives(struct sampler_thread *t, uint32_t site)
{
    struct site_record *r = site_record_at(site);
    if (!r || site_record_shard(r) != t->own_shard) return false;
    struct lifetime *l = lifetime_of(site, LIFETIME_SELF);
    if (!l) return false;
    *sampler_lives_at_hand(t, site) = (struct lives_at_hand){site, r, l};
    return true;
}

/* The cache has room for the entry.  False, and nothing was done, if the site's records are not at hand, or there is anything else. */
static ALWAYS_INLINE bool count(struct sampler_thread *t, const struct due *d)
{
    struct tracked_entry *e = d->at;
    if (unlikely(atomic_load_explicit(&e->what, memory_order_relaxed) >> 16 != d->block)) return false;
    struct tracked_view was;
    tracked_load(e, 0, &was);
    const struct lives_at_hand *h = sampler_lives_at_hand(t, was.site);
    if (unlikely(h->site != was.site || was.time < atomic_load_explicit(&lifetime_since, memory_order_relaxed))) return false;
    struct lifetime *l = h->lives;
    atomic_store_explicit(&e->what, t->cache.generation, memory_order_release);
    t->cache.entry[t->cache.count++] = (uint32_t)d->what & ~DEATH_OLD;
    count_own(&h->record->freed.blocks);
    count_own(&l->time[lifetime_time_bucket((uint32_t)(d->what >> 32) - was.time)]);
    count_own(&l->span[lifetime_span_of(was.clock, d->bytes / LIFETIME_UNIT)]);
    if (unlikely(d->what & DEATH_OLD)) count_own(&l->old);
    PROBE3(gleaner, sample_free, d->block, was.site, was.n_samples);
    if (sampler_live_due(t, -(int64_t)was.n_samples)) sampler_live_tell(t);
    return true;
}

static NOINLINE void count_other(struct sampler_thread *t, const struct due *d)
{
    if (find_lives(t, atomic_load_explicit(&d->at->site, memory_order_relaxed)) && count(t, d)) return;
    const struct lifetime_birth then = {.units = d->bytes / LIFETIME_UNIT, .ticks = (uint32_t)(d->what >> 32)};
    sampler_count_death(t, (void *)d->block, (uint32_t)d->what & ~DEATH_OLD, then, d->what & DEATH_OLD);
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
    if (unlikely(!t || t->own_generation != generation_now() || entry >= TRACKED_MAX || PROBE_LISTENED(sample_free))) {
        sampler_freed(hook, block, entry, old);
        return;
    }
    if (unlikely(t->cache.count == TRACKED_CACHE || !coarse_is_good(&t->clock))) {
        begin_again(hook, block, entry, old);
        return;
    }
    struct tracked_entry *e = tracked_made(entry);
    __builtin_prefetch(e, 1);
    PROBE1(otel_memory, free, block);
    const struct due due = put_down(t, block, entry | (old ? DEATH_OLD : 0), e);
    if (unlikely(!due.at) || likely(count(t, &due))) return;
    const struct due copy = due; /* so that the other may stay in registers */
    count_other(t, &copy);
}
