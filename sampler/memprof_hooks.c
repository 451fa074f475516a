/* memprof_hooks.c: between the heap and the library's sampler: where the sample points of the program's profile are drawn.

   1. Two processes.  The library's profile and the program's are independent Bernoulli processes over the same words, so each
      is unbiased at its own rate, and a block may hold points of both.  Each has its gaps by class (sampler.c).  `due` asks
      both; the heap is told of the nearer point, and the other process gets the blocks between the two back, as words.  So
      neither ever knows of the other.
   2. Joining.  Starting a profile sets the heap's hooks anew: each thread, when it notices, hands back what its bins had not
      used (`unused`, to the library's process: the profile's is new), and then draws gaps for the new profile (`renewed`).
      Until then it takes no part in it.  Geometric gaps have no memory, so from there on its words are sampled like any.
   3. Blocks that realloc gives another size are new ones (gleaner.h), in place too.  Their points are those of the words that
      stay, and of new trials for those that are new: together again one trial a word.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/caller.h"
#include "heap/collect.h"
#include "heap/heap.h"
#include "heap/meta.h"
#include "heap/os.h"
#include "sampler/memprof_profile.h"

#define WORD 8

static const struct heap_hooks none;
static const struct heap_hooks *base = &none; /* those that were there before ours */
static struct heap_hooks ours;
static _Atomic uint32_t threads;
_Atomic uint32_t memprof_generation = 1, memprof_torn = 1;

/* ---- gaps ---- */

static uint64_t next_gap(struct memprof_thread *t, const struct memprof_profile *p)
{
    if (unlikely(t->used == RANDOM_STREAMS)) {
        geometric_batch(&p->distribution, &t->random, t->gaps);
        t->used = 0;
    }
    return t->gaps[t->used++];
}

static void seed(struct memprof_thread *t, uint64_t seed_of_profile)
{
    uint64_t state = seed_of_profile + atomic_load(&memprof_generation), of = random_split_mix(&state);
    random_seed(&t->random, of ^ t->number * 0xd1342543de82ef95u);
    t->used = RANDOM_STREAMS;
}

struct memprof_thread *memprof_thread_of(struct heap_thread_hook *hook)
{
    if (!hook) return NULL;
    struct memprof_thread *t = hook->memprof;
    uint32_t now = atomic_load_explicit(&memprof_generation, memory_order_relaxed);
    if (unlikely(!t)) {
        if (!(t = meta_alloc(sizeof *t))) return NULL;
        t->number = atomic_fetch_add(&threads, 1) + 1;
        t->generation = now;
        t->torn = atomic_load(&memprof_torn);
        hook->memprof = t;
    }
    if (unlikely(t->generation != now)) { /* a forked child: the gaps stay (sampler.c), but the numbers to come must be others */
        struct memprof_profile *p = atomic_load(&memprof_active);
        t->generation = now;
        if (t->torn != atomic_load(&memprof_torn)) t->queue_first = t->queue_last = 0; /* memprof_fork.c has them */
        t->torn = atomic_load(&memprof_torn);
        stack_cache_forget(t->stack);
        if (p) seed(t, p->seed);
    }
    return t;
}

/* The profile that the thread takes part in, or NULL. */
static struct memprof_profile *profile_of(const struct memprof_thread *t)
{
    struct memprof_profile *p = atomic_load_explicit(&memprof_active, memory_order_acquire);
    return p && t && t->profile == atomic_load_explicit(&p->id, memory_order_relaxed) ? p : NULL;
}

static unsigned bounded(uint64_t n) { return n < UINT32_MAX ? (unsigned)n : UINT32_MAX; }

static unsigned walk(struct memprof_thread *t, const struct memprof_profile *p, unsigned class, uint64_t words)
{
    if (p->every_word) return bounded(words);
    uint64_t gap = t->gap[class], n = 0;
    if (unlikely(words >= p->huge_words) && gap < words) {
        n = 1 + geometric_count(&p->distribution, &t->random, words - gap - 1);
        gap = words + next_gap(t, p);
    }
    while (gap < words) {
        n++;
        gap += 1 + next_gap(t, p);
    }
    t->gap[class] = gap - words;
    return bounded(n);
}

unsigned memprof_points(struct memprof_thread *t, uint64_t words, struct memprof_profile **of)
{
    struct memprof_profile *p = *of = profile_of(t);
    return p ? walk(t, p, HEAP_CLASS_LARGE, words) : 0;
}

static void renewed(struct heap_thread_hook *hook)
{
    if (base->renewed) base->renewed(hook);
    struct memprof_profile *p = atomic_load(&memprof_active);
    struct memprof_thread *t = p ? memprof_thread_of(hook) : NULL;
    if (!t || t->profile == atomic_load(&p->id)) return;
    seed(t, p->seed);
    for (unsigned c = 0; c < HEAP_CLASSES; c++) t->gap[c] = next_gap(t, p);
    t->profile = atomic_load(&p->id);
}

/* ---- allocation ---- */

static uint32_t due(struct heap_thread_hook *hook, unsigned class, size_t words, unsigned *n_samples)
{
    unsigned theirs = 0, n = 0;
    uint32_t follow = UINT32_MAX;
    if (base->due) follow = base->due(hook, class, words, &theirs);
    *n_samples = theirs;
    struct memprof_thread *t = hook->memprof;
    struct memprof_profile *p = profile_of(t);
    if (!p) return follow;
    n = walk(t, p, class, words);
    uint64_t mine = p->every_word ? 0 : t->gap[class] / words;
    if (mine > follow) mine = follow;
    t->gap[class] -= p->every_word ? 0 : mine * words;
    if (follow > mine && base->unused) base->unused(hook, class, (follow - mine) * words);
    t->drawn = true;
    t->theirs = theirs;
    t->ours = n;
    *n_samples = bounded((uint64_t)theirs + n);
    return (uint32_t)mine;
}

static unsigned large(struct heap_thread_hook *hook, size_t words)
{
    unsigned theirs = base->large ? base->large(hook, words) : 0;
    struct memprof_thread *t = hook->memprof;
    struct memprof_profile *p = profile_of(t);
    if (!p) return theirs;
    t->drawn = true;
    t->theirs = theirs;
    t->ours = walk(t, p, HEAP_CLASS_LARGE, words);
    return bounded((uint64_t)theirs + t->ours);
}

uint32_t memprof_stack(struct memprof_thread *t)
{
    heap_suspend_sampling();
    uint32_t stack = stack_capture_cached(&t->stack, NULL);
    heap_resume_sampling();
    return stack;
}

uint32_t memprof_make(struct memprof_thread *t, struct memprof_profile *p, const struct memprof_new *of)
{
    uint32_t number = memprof_take(t ? &t->cache : NULL);
    if (number == 0) {
        memprof_add(p, MEMPROF_N_DROPPED, of->n_samples);
        return 0;
    }
    struct memprof_entry *e = memprof_entry(number);
    uint32_t thread = os_thread_id();
    e->asked = (uint64_t)of->asked << 16 | (thread & 0xffff);
    e->given = (uint64_t)of->given << 16 | thread >> 16;
    e->time = os_realtime();
    e->n_samples = of->n_samples;
    e->stack = of->stack;
    atomic_store_explicit(&e->owner, p, memory_order_relaxed);
    atomic_store_explicit(&e->below, of->below, memory_order_relaxed);
    atomic_store_explicit(&e->what, (uint64_t)(uintptr_t)of->block << 16 | (uint64_t)of->kind << 8 | of->source,
                          memory_order_release);
    atomic_fetch_add(&p->entries, 1);
    memprof_add(p, MEMPROF_N_ALLOCATED, of->n_samples);
    /* It is queued from the start, so that nobody else delivers before it stands in its place. */
    memprof_use(number, MEMPROF_QUEUED | (of->old ? MEMPROF_WAS_OLD : 0));
    return number;
}

/* What a block's tag would say that nobody tracks: its caller, where callers are kept. */
static uint32_t caller_of(uint32_t stack)
{
    struct stack_frame f;
    uint32_t caller = heap_watches() && stack_frame(stack, &f) ? caller_intern(f.address) : 0;
    return caller ? TAG_CALLER | caller : 0;
}

static uint32_t track(struct heap_thread_hook *hook, struct memprof_thread *t, struct memprof_profile *p, void *block,
                      size_t asked, size_t given, enum heap_source source, unsigned n, uint32_t below)
{
    struct memprof_new of = {.block = block, .asked = asked, .given = given, .n_samples = n, .stack = memprof_stack(t),
                             .source = (enum gleaner_source)source, .kind = MEMPROF_BLOCK};
    of.below = below ? below : caller_of(of.stack);
    uint32_t number = memprof_make(t, p, &of);
    if (number == 0) return below;
    /* Its tag is written by who called us, before `callbacks`. */
    memprof_publish(hook, number);
    return number;
}
_Static_assert((int)GLEANER_MALLOC == HEAP_MALLOC && (int)GLEANER_CALLOC == HEAP_CALLOC && (int)GLEANER_REALLOC == HEAP_REALLOC &&
                   (int)GLEANER_ALIGNED == HEAP_ALIGNED,
               "sources");

static uint32_t allocated(struct heap_thread_hook *hook, void *block, size_t asked, size_t given, enum heap_source source,
                          unsigned n_samples)
{
    struct memprof_thread *t = hook->memprof;
    struct memprof_profile *p = profile_of(t);
    unsigned theirs = n_samples, n = 0;
    if (t && t->drawn) { /* else they were drawn before our hooks were there */
        t->drawn = false;
        theirs = t->theirs;
        n = t->ours;
    }
    uint32_t below = theirs > 0 && base->allocated ? base->allocated(hook, block, asked, given, source, theirs) : 0;
    return n > 0 && p ? track(hook, t, p, block, asked, given, source, n, below) : below;
}

/* ---- ends ---- */

static uint32_t end_ours(struct heap_thread_hook *hook, void *block, uint32_t tag, uint32_t how)
{
    struct memprof_entry *e;
    while ((e = memprof_at(tag_entry(tag)))) {
        uint32_t number = tag_entry(tag);
        if (memprof_block(e) != block) return 0; /* lost in a fork */
        tag = atomic_load_explicit(&e->below, memory_order_relaxed);
        memprof_died(hook, number, how);
    }
    return tag_entry(tag);
}

static void freed(struct heap_thread_hook *hook, void *block, uint32_t entry, bool old)
{
    entry = end_ours(hook, block, entry, MEMPROF_FREED | (old ? MEMPROF_FREED_OLD : 0));
    if (entry && base->freed) base->freed(hook, block, entry, old);
}

uint32_t memprof_reclaimed(void *block, uint32_t entry)
{
    return end_ours(NULL, block, entry, MEMPROF_RECLAIMED);
}

/* ---- resizing ---- */

/* The library's own profile: told of the resize, or, where it did not track the block, of the words that are new. */
static uint32_t resize_theirs(struct heap_thread_hook *hook, void *block, uint32_t tag, size_t asked, size_t before, size_t given,
                              bool old)
{
    uint32_t entry = tag_entry(tag);
    if (entry) return base->resized ? base->resized(hook, block, entry, before, asked, given, old) : tag;
    if (!hook || given <= before || !base->large || !base->allocated) return tag;
    unsigned n = base->large(hook, (given - before) / WORD);
    entry = n > 0 && !heap_sampling_is_suspended() ? base->allocated(hook, block, asked, given, HEAP_REALLOC, n) : 0;
    return entry ? entry : tag;
}

/* The sample points that a block has after a resize which had `was` of them. */
static unsigned points_after(struct memprof_thread *t, struct memprof_profile *p, unsigned was, size_t before, size_t given)
{
    if (p->every_word) return bounded(given / WORD);
    if (given < before) return geometric_kept(&t->random, was, before / WORD, given / WORD);
    return bounded((uint64_t)was + walk(t, p, HEAP_CLASS_LARGE, (given - before) / WORD));
}

struct chain { /* of our entries of one block, foremost first */
    uint32_t first, last;
};

static void append(struct chain *c, uint32_t number)
{
    if (c->last) atomic_store_explicit(&memprof_entry(c->last)->below, number, memory_order_release);
    else c->first = number;
    c->last = number;
}

/* Our entries: those of profiles end if the block is another now, what else is tied to it if it has moved.  `kept`: those
   that stay; `was`: the sample points of the running profile in the block that was.  Returns what lies below them. */
static uint32_t resize_ours(struct heap_thread_hook *hook, void *block, uint32_t tag, bool same_size, size_t asked, bool old,
                            const struct memprof_profile *p, struct chain *kept, unsigned *was)
{
    struct memprof_entry *e;
    *was = 0;
    while ((e = memprof_at(tag_entry(tag)))) {
        uint32_t number = tag_entry(tag);
        bool moved = memprof_block(e) != block, sampled = memprof_kind(e) == MEMPROF_BLOCK &&
                                                          (atomic_load(&e->what) & 0xff) != GLEANER_CUSTOM;
        tag = atomic_load_explicit(&e->below, memory_order_relaxed);
        if (!moved && (!sampled || same_size)) {
            if (sampled) e->asked = (uint64_t)asked << 16 | (e->asked & 0xffff);
            append(kept, number);
            continue;
        }
        if (sampled && p && atomic_load(&e->owner) == p) *was = e->n_samples;
        memprof_died(hook, number, MEMPROF_FREED | (old ? MEMPROF_FREED_OLD : 0));
    }
    return tag;
}

static uint32_t resized(struct heap_thread_hook *hook, void *block, uint32_t entry, size_t before, size_t asked, size_t given,
                        bool old)
{
    struct memprof_thread *t = hook ? hook->memprof : NULL;
    struct memprof_profile *p = profile_of(t);
    struct chain kept = {0};
    unsigned was;
    uint32_t below = resize_ours(hook, block, entry, before == given, asked, old, p, &kept, &was);
    below = resize_theirs(hook, block, below, asked, before, given, old);
    if (p && before != given) {
        unsigned n = points_after(t, p, was, before, given);
        struct memprof_new of = {.block = block, .asked = asked, .given = given, .n_samples = n, .below = below,
                                 .source = GLEANER_REALLOC, .kind = MEMPROF_BLOCK, .old = heap_is_old(block)};
        if (n > 0 && !heap_sampling_is_suspended()) {
            of.stack = memprof_stack(t);
            uint32_t number = memprof_make(t, p, &of);
            if (number) {
                append(&kept, number);
                memprof_publish(hook, number);
            }
        }
    }
    if (!kept.last) return below;
    struct memprof_entry *last = memprof_entry(kept.last);
    if (last->below != below) atomic_store_explicit(&last->below, below, memory_order_release);
    return kept.first;
}

/* ---- installing ---- */

static void tick(struct heap_thread_hook *hook, uint64_t now)
{
    if (base->tick) base->tick(hook, now);
    memprof_run();
}

static _Atomic uint32_t installed; /* 1: a thread is at it; 2: done */

void memprof_install_again(void)
{
    uint32_t half = 1;
    atomic_compare_exchange_strong(&installed, &half, 0);
}

void memprof_install(bool anew)
{
    uint32_t not = 0;
    if (!anew && atomic_load_explicit(&installed, memory_order_acquire) == 2) return;
    if (atomic_compare_exchange_strong(&installed, &not, 1)) {
        base = heap_get_hooks();
        ours = *base;
        ours.due = due;
        ours.every = NULL;
        ours.large = large;
        ours.allocated = allocated;
        ours.renewed = renewed;
        ours.freed = freed;
        ours.resized = resized;
        ours.reclaimed = memprof_reclaimed;
        ours.callbacks = memprof_callbacks;
        ours.thread_ended = memprof_thread_ended;
        ours.tick = tick;
        tracked_below = memprof_below;
        atomic_store(&installed, 2);
    }
    while (atomic_load(&installed) != 2) os_yield(); /* a few stores */
    heap_set_hooks(&ours);
}
