/* sampler.c: which blocks are sampled, and what happens to them.

   1. The process.  Each allocated word is a sample point with probability lambda = 8 / interval,
      of its own.  Of a thread's words those of each size class form one sequence, in which the
      distances between points are geometric: `gap` is the number of words before the next point
      of a class. `due` lays a block of that many words over the sequence, counts the points in it
      (that is binomial: the walk needs a gap for each point and nothing else), and tells how many
      whole blocks fit before the next point; the words that are left over stay in `gap`.  So
      neither block sizes nor their order matter: the points are exactly those of one Bernoulli
      trial a word.  As OCaml's memprof does it (Jourdan), with a sequence for each class instead
      of one.
   2. Data.  A thread's sequences, its generators, a batch of 64 gaps, its free entries and its
      stack cache lie in one struct behind heap_thread_hook.sampler.  It stays with the thread
      heap when the thread ends: geometric gaps have no memory, so another thread may go on with
      them.
   3. Synchronisation.  The struct is its thread's alone.  The rest is in tracked.c and site.c,
      which have no locks either.
   4. Forks.  A child has the parent's structs.  Each takes new seeds when it is next used
      (`generation`), or parent and child would draw the same gaps.  The gaps that are pending
      stay: the heap has already counted blocks against them, and to draw them anew after words
      without a point would lose points.
   5. Tracking: stack, site, entry, in this order.  When no entry is to be had, the block counts
      as allocated and freed at once: what was allocated stays right, and the loss is counted.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#define GLEANER_PROBES_COUNTED
#include "sampler/sampler.h"
#include "heap/heap.h"
#include "heap/meta.h"
#include "heap/os.h"
#include "heap/probes.h"
#include "heap/syscall.h"
#include "sampler/false_lost.h"
#include "sampler/sampler_thread.h"

#define WORD ESTIMATE_WORD
#define WITHOUT_MEMORY 4096 /* blocks until we try again to get memory for a thread's struct */

#ifdef PROBE_SEMAPHORE
PROBE_SEMAPHORE gleaner_sample_semaphore, gleaner_sample_free_semaphore, otel_memory_alloc_semaphore, otel_memory_free_semaphore;
#endif

static struct geometric distribution;
static bool every_word, fixed_seed;
static uint64_t huge_words; /* blocks from here on are not walked point by point */
static uint64_t interval;
static _Atomic uint64_t process_seed;
_Atomic uint32_t sampler_generation = 1;
static _Atomic uint32_t forks; /* that this process began */
static _Atomic uint32_t threads;
static _Atomic uint64_t thread_bytes;

static void seed_thread(struct sampler_thread *t, uint32_t now)
{
    uint64_t state = atomic_load_explicit(&process_seed, memory_order_relaxed);
    uint64_t of_process = random_split_mix(&state);
    random_seed(&t->random, of_process ^ t->number * 0xd1342543de82ef95u);
    t->used = RANDOM_STREAMS;
    t->generation = now;
    t->own_generation = t->own_shard == UINT32_MAX ? 0 : now;
    tracked_cache_renew(&t->cache);
}

static uint64_t next_gap(struct sampler_thread *t)
{
    if (unlikely(t->used == RANDOM_STREAMS)) {
        geometric_batch(&distribution, &t->random, t->gaps);
        t->used = 0;
    }
    return t->gaps[t->used++];
}

static COLD struct sampler_thread *make_thread(struct heap_thread_hook *hook)
{
    struct sampler_thread *t = meta_alloc(sizeof *t);
    if (!t) return NULL;
    atomic_fetch_add_explicit(&thread_bytes, sizeof *t, memory_order_relaxed);
    t->number = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) + 1;
    t->tag = t->number < UINT16_MAX ? (uint16_t)t->number : UINT16_MAX;
    t->shard = every_word ? site_shard(t->number) : 0;
    t->own_shard = t->shard >= SITE_OWN ? t->shard : UINT32_MAX;
    t->lives[SITE_DROPPED].site = UINT32_MAX;
    if (t->own_shard != UINT32_MAX) deaths_of(&t->deaths, t->own_shard);
    seed_thread(t, atomic_load_explicit(&sampler_generation, memory_order_relaxed));
    if (!every_word)
        for (unsigned c = 0; c < HEAP_CLASSES; c++) t->gap[c] = next_gap(t);
    hook->sampler = t;
    return t;
}

/* NULL only without memory. */
static inline struct sampler_thread *thread_of(struct heap_thread_hook *hook)
{
    struct sampler_thread *t = hook->sampler;
    if (unlikely(!t)) return make_thread(hook);
    uint32_t now = atomic_load_explicit(&sampler_generation, memory_order_relaxed);
    if (unlikely(t->generation != now)) {
        seed_thread(t, now);
        sampler_live_begin(t); /* perhaps another thread's, cut off in the middle */
        t->clock_kept = 0;
        stack_cache_forget(t->stack);
        __builtin_memset(t->sites, 0, sizeof t->sites);
        __builtin_memset(t->lives, 0, sizeof t->lives);
        t->lives[SITE_DROPPED].site = UINT32_MAX;
    }
    return t;
}

/* The sample points in the next `words` words of a class. */
static unsigned walk(struct sampler_thread *t, unsigned class, uint64_t words)
{
    uint64_t gap = t->gap[class];
    uint64_t n = 0;
    if (unlikely(words >= huge_words) && gap < words) {
        n = 1 + geometric_count(&distribution, &t->random, words - gap - 1);
        gap = words + next_gap(t);
    }
    while (gap < words) {
        n++;
        gap += 1 + next_gap(t);
    }
    t->gap[class] = gap - words;
    return n < UINT32_MAX ? (unsigned)n : UINT32_MAX;
}

static uint32_t due(struct heap_thread_hook *hook, unsigned class, size_t words,
                    unsigned *n_samples)
{
    struct sampler_thread *t = thread_of(hook);
    if (unlikely(!t)) {
        *n_samples = 0;
        return WITHOUT_MEMORY;
    }
    *n_samples = walk(t, class, words);
    uint64_t follow = t->gap[class] / words;
    if (follow > UINT32_MAX) follow = UINT32_MAX;
    t->gap[class] -= follow * words;
    return (uint32_t)follow;
}

static unsigned large(struct heap_thread_hook *hook, size_t words)
{
    struct sampler_thread *t = thread_of(hook);
    return t ? walk(t, HEAP_CLASS_LARGE, words) : 0;
}

static unsigned points_of_all(size_t words)
{
    return words < UINT32_MAX ? (unsigned)words : UINT32_MAX;
}

static uint32_t due_all(struct heap_thread_hook *hook, unsigned class, size_t words,
                        unsigned *n_samples)
{
    *n_samples = points_of_all(words);
    return 0;
}

static unsigned large_all(struct heap_thread_hook *hook, size_t words)
{
    return points_of_all(words);
}

/* The live total has changed by `n`. */
static inline void live_changed(struct sampler_thread *t, int64_t n)
{
    if (unlikely(!t)) site_live_changed(n);
    else if (sampler_live_due(t, n)) sampler_live_tell(t);
}

uint32_t sampler_site(struct sampler_thread *t, uint32_t stack, size_t given, enum heap_source source)
{
    if (unlikely(stack == 0 || given % 16 != 0 || given > UINT32_MAX)) return site_find(stack, given, source, t->shard);
    uint64_t key = sampler_key(stack, given | (size_t)source);
    struct site_at_hand *h = sampler_at_hand(t, key);
    if (unlikely(h->key != key)) {
        uint32_t site = site_find(stack, given, source, t->shard);
        if (site == SITE_DROPPED) return site;
        struct site_record *r = site_record_begun(site);
        *h = (struct site_at_hand){.key = key, .record = r, .site = site, .own = site_record_shard(r) >= SITE_OWN};
    }
    return h->site;
}

static uint32_t current_site(struct sampler_thread *t, size_t given, enum heap_source source)
{
    heap_suspend_sampling();
    uint32_t stack = stack_capture_cached(&t->stack, NULL);
    heap_resume_sampling();
    return sampler_site(t, stack, given, source);
}

/* A sampled block, or the sampled part of one, of `n` points begins now. */
static ALWAYS_INLINE struct lifetime_birth born(struct sampler_thread *t, uint64_t n)
{
    lifetime_allocated(&t->clock_kept, n * interval);
    return lifetime_now(t->clock_kept);
}

/* The life of `v`, of a site, has ended. */
static ALWAYS_INLINE void died(struct sampler_thread *t, const struct tracked_view *v, struct lifetime_birth now, bool old)
{
    const struct site_record *r = site_record_at(v->site);
    const bool elsewhere = !t || t->tag != v->thread;
    const struct lifetime_death d = {.birth = {v->clock, v->time},
                                     .now = now,
                                     .weight = lifetime_weight(v->n_samples),
                                     .old = old,
                                     .elsewhere = elsewhere,
                                     .part = elsewhere && r && site_record_shard(r) >= SITE_OWN ? LIFETIME_OTHERS : LIFETIME_SELF};
    lifetime_died(v->site, &d);
}

static ALWAYS_INLINE struct lifetime_birth now_of(struct sampler_thread *t) { return lifetime_now(likely(t) ? t->clock_kept : 0); }

uint32_t sampler_allocated(struct heap_thread_hook *hook, void *block, size_t asked, size_t given,
                          enum heap_source source, unsigned n_samples)
{
    struct sampler_thread *t = thread_of(hook);
    if (unlikely(!t)) return 0;
    uint32_t site = current_site(t, given, source);
    struct lifetime_birth birth = born(t, n_samples);
    struct tracked_view v = {.block = block,
                             .asked = asked,
                             .site = site,
                             .n_samples = n_samples,
                             .time = birth.ticks,
                             .clock = birth.units,
                             .thread = t->tag};
    uint32_t entry = tracked_add(&t->cache, &v);
    site_allocated(v.site, given, n_samples);
    PROBE5(gleaner, sample, block, asked, given, n_samples, v.site);
    if (likely(entry)) {
        live_changed(t, n_samples);
        PROBE3(otel_memory, alloc, block, asked, n_samples * interval);
    } else {
        const struct tracked_view copy = v;
        site_freed(v.site, given, n_samples);
        died(t, &copy, now_of(t), false);
    }
    return entry;
}

void sampler_count_death(struct sampler_thread *t, void *block, uint32_t entry, struct lifetime_birth now, bool old)
{
    struct tracked_view was;
    if (!tracked_remove(t ? &t->cache : NULL, entry, block, &was)) return;
    site_freed(was.site, 0, was.n_samples);
    died(t, &was, now, old);
    live_changed(t, -(int64_t)was.n_samples);
    PROBE3(gleaner, sample_free, block, was.site, was.n_samples);
}

void sampler_freed(struct heap_thread_hook *hook, void *block, uint32_t entry, bool old)
{
    struct sampler_thread *t = hook ? thread_of(hook) : NULL;
    sampler_count_death(t, block, entry, now_of(t), old);
    PROBE1(otel_memory, free, block);
}

/* A resize in place is, for the sites and for lifetimes, a free and an allocation that keeps its place, as it is where realloc has to
   copy: the points in the words that stay remain, and those that are new are tried. */
static uint32_t resized(struct heap_thread_hook *hook, void *block, uint32_t entry,
                        size_t given_before, size_t asked, size_t given, bool old)
{
    struct sampler_thread *t = hook ? thread_of(hook) : NULL;
    struct tracked_view v;
    if (!tracked_get(entry, &v)) return entry;
    const void *from = v.block;
    v.block = block; /* a large one may have moved with its pages */
    uint32_t site = v.site;
    size_t before = site_given(site);
    v.asked = asked;
    v.flags |= TRACKED_RESIZED;
    if (before != given && t) {
        unsigned was = v.n_samples;
        died(t, &v, now_of(t), old);
        if (every_word)
            v.n_samples = points_of_all(given / WORD);
        else if (before > given)
            v.n_samples = geometric_kept(&t->random, was, before / WORD, given / WORD);
        else if (before)
            v.n_samples =
                points_of_all((size_t)was + walk(t, HEAP_CLASS_LARGE, (given - before) / WORD));
        v.site = current_site(t, given, HEAP_REALLOC);
        site_freed(site, before, was);
        site_allocated(v.site, given, v.n_samples);
        struct lifetime_birth birth = born(t, v.n_samples);
        v.time = birth.ticks;
        v.clock = birth.units;
        v.thread = t->tag;
        live_changed(t, (int64_t)v.n_samples - was);
        PROBE1(otel_memory, free, from);
        PROBE3(otel_memory, alloc, block, asked, v.n_samples * interval);
    }
    tracked_change(entry, &v);
    return entry;
}

/* They had been counted against the gap. */
static void unused(struct heap_thread_hook *hook, unsigned class, uint64_t words)
{
    struct sampler_thread *t = hook->sampler;
    if (t) t->gap[class] += words;
}

void sampler_start(const struct sampler_options *options, struct heap_hooks *hooks)
{
    hooks->false_lost = false_lost_note;
    if (options->interval == 0 && !options->all) return;
    every_word = options->all || options->interval <= WORD;
    interval = every_word ? WORD : options->interval;
    geometric_set(&distribution, every_word ? 1 : (double)WORD / (double)interval);
    uint64_t mean = interval / WORD + 1;
    huge_words = mean < UINT64_MAX / GEOMETRIC_MANY ? mean * GEOMETRIC_MANY : UINT64_MAX;
    uint64_t seed = options->seed;
    fixed_seed = options->fixed_seed;
    if (!fixed_seed) os_random(&seed, sizeof seed);
    atomic_store(&process_seed, seed);
    atomic_store(&threads, 0);
    atomic_store(&forks, 0);
    lifetime_start();
    if (every_word) coarse_clock_start(lifetime_start_ticks);
    stack_start(options);
    tracked_start(0);
    if (!site_start(every_word)) {
        if (options->warn) options->warn("no memory for the sampler: nothing is sampled");
        return;
    }
    hooks->due = every_word ? due_all : due;
    hooks->large = every_word ? large_all : large;
    hooks->allocated = sampler_allocated;
    hooks->freed = every_word ? sampler_freed_every : sampler_freed;
    hooks->every = every_word ? sampler_allocated_every : NULL;
    hooks->resized = resized;
    if (!every_word) hooks->unused = unused;
}

uint64_t sampler_interval(void)
{
    return interval;
}

void sampler_fork_prepare(void)
{
    atomic_fetch_add(&forks, 1);
    stack_fork_prepare();
}

void sampler_fork_parent(void)
{
    stack_fork_parent();
}

/* What the parent's threads had still to count, the child counts; their lives are not those of its blocks (lifetime.h). */
static void count_pending(void)
{
    struct deaths_pending pending;
    struct tracked_view was;
    deaths_pending(&pending);
    for (unsigned i = 0; i < pending.count; i++) {
        const struct death_view *d = &pending.death[i];
        if (!tracked_remove(NULL, d->entry, d->was.block, &was)) continue;
        site_freed(was.site, 0, was.n_samples);
        site_live_changed(-(int64_t)was.n_samples);
    }
    deaths_forget();
}

void sampler_fork_child(void)
{
    /* Children of one parent differ by the number of the fork, so with a fixed seed they are
       repeatable too.  (Two threads that fork at once may give theirs one number; random bytes help
       there.) */
    uint64_t state = atomic_load(&process_seed) + atomic_load(&forks) * 0x9e3779b97f4a7c15u, r = 0;
    if (!fixed_seed) os_random(&r, sizeof r);
    state ^= r;
    atomic_store(&process_seed, random_split_mix(&state));
    atomic_store(&forks, 0);
    uint32_t now = atomic_load(&sampler_generation) + 1;
    atomic_store(&sampler_generation, now ? now : 1);
    tracked_fork_child();
    count_pending();
    site_fork_child();
    lifetime_fork_child();
    stack_fork_child();
}

void sampler_print_stack(int fd, uint32_t entry)
{
    struct tracked_view v;
    if (tracked_get(entry, &v)) stack_print(fd, site_stack(v.site));
}

void sampler_stats(struct sampler_stats *to)
{
    struct site_stats sites;
    struct tracked_stats tracked;
    struct stack_stats stacks;
    struct lifetime_stats lifetimes;
    site_stats(&sites);
    tracked_stats(&tracked);
    stack_stats(&stacks);
    lifetime_stats(&lifetimes);
    *to = (struct sampler_stats){
        .samples = sites.allocated_blocks,
        .samples_freed = sites.freed_blocks,
        .live_entries = sites.live_blocks,
        .dropped_entries = tracked.dropped,
        .stacks = stacks.stacks,
        .dropped_stacks = stacks.dropped,
        .one_frame = stacks.one_frame,
        .early = stacks.early,
        .memory_bytes = sites.memory_bytes + tracked.memory_bytes + stacks.memory_bytes +
                        lifetimes.memory_bytes + atomic_load(&thread_bytes),
    };
}
