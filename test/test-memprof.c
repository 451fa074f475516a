/* test-memprof.c: the program's own profiles on an allocator that only counts: where sample points fall, that the library's
   own process beside it sees every word once, what is told of a block and in which order, and what happens without memory.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "heap/caller.h"
#include "heap/collect.h"
#include "heap/heap.h"
#include "heap/lost.h"
#include "heap/os.h"
#include "sampler/memprof_profile.h"
#include "suite.h"

#include <check.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- the heap: blocks are numbers, each with a tag ---- */

#define BLOCKS 4096
#define FIRST_BLOCK 0x200000000000u
static _Atomic uint32_t tags[BLOCKS];
static _Atomic bool live[BLOCKS];
static bool old[BLOCKS], lost[BLOCKS];
static const struct heap_hooks *hooks;
static _Thread_local int suspended;
static _Thread_local struct heap_thread_hook own_hook;
static bool no_heap, watches;

static void *address(unsigned i) { return (void *)(uintptr_t)(FIRST_BLOCK + i * 4096u); }
static unsigned index_of(const void *block) { return (unsigned)(((uintptr_t)block - FIRST_BLOCK) / 4096); }

void heap_suspend_sampling(void) { suspended++; }
void heap_resume_sampling(void) { suspended--; }
bool heap_sampling_is_suspended(void) { return suspended != 0; }
struct heap_thread_hook *heap_own_hook(void) { return no_heap ? NULL : &own_hook; }
bool heap_thread_is_ending(void) { return no_heap; }
bool heap_watches(void) { return watches; }
bool heap_owns(const void *block) { return index_of(block) < BLOCKS && live[index_of(block)]; }
bool heap_is_old(const void *block) { return heap_owns(block) && old[index_of(block)]; }
bool heap_tag(const void *block, uint32_t *tag)
{
    if (!heap_owns(block)) return false;
    *tag = tags[index_of(block)];
    return true;
}
bool heap_retag(const void *block, uint32_t from, uint32_t to)
{
    return heap_owns(block) && atomic_compare_exchange_strong(&tags[index_of(block)], &from, to);
}
bool lost_find(const void *block, struct lost_view *to)
{
    *to = (struct lost_view){.kind = LOST_DIRECT};
    return lost[index_of(block)];
}
uint32_t caller_intern(uintptr_t a) { return (uint32_t)a & 0xffff; }

void stack_start(const struct sampler_options *options) {}
void stack_cache_forget(struct stack_cache *cache) {}
uint32_t stack_capture_cached(struct stack_cache **cache, bool *one_frame)
{
    ck_assert_int_eq(suspended, 1);
    return 17;
}
unsigned stack_get(uint32_t id, uintptr_t *frames, unsigned max, unsigned *flags)
{
    ck_assert_uint_eq(id, 17);
    for (unsigned i = 0; i < 5 && i < max; i++) frames[i] = 1000 + i;
    return 5;
}
bool stack_frame(uint32_t id, struct stack_frame *to)
{
    *to = (struct stack_frame){.address = 1000};
    return true;
}

/* ---- the library's own process: `allowed` words that it was told of and has not given back; a block with a point each 100
   blocks ---- */

static uint64_t theirs_allowed[HEAP_CLASSES], theirs_points;
static uint32_t theirs_due(struct heap_thread_hook *h, unsigned class, size_t words, unsigned *n)
{
    uint32_t follow = (uint32_t)rand() % 100;
    *n = rand() % 3 == 0;
    theirs_points += *n;
    theirs_allowed[class] += (follow + 1) * words;
    return follow;
}
static void theirs_unused(struct heap_thread_hook *h, unsigned class, uint64_t words)
{
    ck_assert_uint_ge(theirs_allowed[class], words);
    theirs_allowed[class] -= words;
}
static unsigned theirs_allocated_n, theirs_freed_n;
static uint32_t theirs_allocated(struct heap_thread_hook *h, void *block, size_t asked, size_t given, enum heap_source s,
                                 unsigned n)
{
    ck_assert_uint_eq(n, 1);
    return ++theirs_allocated_n;
}
static void theirs_freed(struct heap_thread_hook *h, void *block, uint32_t entry, bool was_old) { theirs_freed_n++; }
static const struct heap_hooks theirs = {.due = theirs_due, .unused = theirs_unused, .allocated = theirs_allocated,
                                         .freed = theirs_freed};
static const struct heap_hooks nobody;

/* What the heap does: it counts blocks, and asks when one is due. */
static uint32_t follow[HEAP_CLASSES];
static uint64_t used_words[HEAP_CLASSES];
static size_t words_of[HEAP_CLASSES];

void heap_set_hooks(const struct heap_hooks *h)
{
    hooks = h;
    for (unsigned c = 0; c < HEAP_CLASSES; c++) {
        if (follow[c] && hooks->unused) hooks->unused(&own_hook, c, follow[c] * words_of[c]);
        follow[c] = 0;
    }
    if (hooks->renewed) hooks->renewed(&own_hook);
}
const struct heap_hooks *heap_get_hooks(void) { return hooks; }

static unsigned points(unsigned class, size_t words)
{
    unsigned n = 0;
    words_of[class] = words;
    used_words[class] += words;
    if (follow[class] > 0) follow[class]--;
    else if (hooks->due) follow[class] = hooks->due(&own_hook, class, words, &n);
    return suspended ? 0 : n;
}

static void end_of_call(void)
{
    if (own_hook.pending) hooks->callbacks(&own_hook);
}

/* Allocates block i; how many of the points are the program's is told by `ours_of`. */
static void alloc(unsigned i, unsigned class, size_t words)
{
    unsigned n = points(class, words);
    live[i] = true;
    old[i] = lost[i] = false;
    tags[i] = 0;
    if (n > 0) tags[i] = hooks->allocated(&own_hook, address(i), words * 8 - 3, words * 8, HEAP_MALLOC, n);
    end_of_call();
}

static void release(unsigned i)
{
    uint32_t tag = atomic_exchange(&tags[i], 0);
    live[i] = false;
    if (tag) hooks->freed(&own_hook, address(i), tag, old[i]);
    end_of_call();
}

static void begin(const struct heap_hooks *below)
{
    memprof_configure(&(struct sampler_options){.depth = 3, .fixed_seed = true, .seed = 4711});
    heap_set_hooks(below);
}

/* ---- what is told ---- */

static struct {
    long alloc, promote, dealloc_young, dealloc_old, lost, reclaimed, samples;
} told;
static int at[BLOCKS]; /* what block i was told last: 1 alloc, 2 promote, 3 end */

static void *on_alloc(const struct gleaner_sample *s, void *user)
{
    ck_assert_int_eq(suspended, 1);
    ck_assert_uint_eq(s->n_frames, 3);
    ck_assert_ptr_eq(s->frames[2], (void *)1002);
    told.alloc++;
    told.samples += (long)s->n_samples;
    at[index_of(s->block)] = 1;
    return s->block;
}
static void on(const struct gleaner_sample *s, void *data, long *count, int from, int to)
{
    unsigned i = index_of(s->block);
    ck_assert_ptr_eq(data, s->block);
    if (at[i] != from) ck_abort_msg("block %u goes from %d to %d", i, at[i], to);
    at[i] = to;
    ++*count;
}
static void on_promote(const struct gleaner_sample *s, void *d, void *u) { on(s, d, &told.promote, 1, 2); }
static void on_dealloc_young(const struct gleaner_sample *s, void *d, void *u) { on(s, d, &told.dealloc_young, 1, 3); }
static void on_dealloc_old(const struct gleaner_sample *s, void *d, void *u) { on(s, d, &told.dealloc_old, 2, 3); }
static void on_lost(const struct gleaner_sample *s, void *d, void *u) { on(s, d, &told.lost, 2, 2); }
static void on_reclaimed(const struct gleaner_sample *s, void *d, void *u) { on(s, d, &told.reclaimed, 2, 3); }
static const struct gleaner_tracker tracker = {on_alloc, NULL, on_promote, on_dealloc_young, on_dealloc_old,
                                               on_lost, on_reclaimed};

static unsigned long start(double lambda, const struct gleaner_tracker *t, int postponed)
{
    unsigned long p;
    struct gleaner_memprof_options o = {.lambda = lambda, .postponed = postponed};
    if (t) o.tracker = *t;
    ck_assert_int_eq(memprof_start(&o, &p), 0);
    return p;
}

static struct gleaner_memprof_counts conserved(unsigned long p)
{
    struct gleaner_memprof_counts c;
    ck_assert_int_eq(memprof_counts(p, &c), 0);
    ck_assert_uint_eq(c.allocated.blocks, c.freed_young.blocks + c.freed_old.blocks + c.reclaimed.blocks + c.live.blocks +
                                              c.lost.blocks + c.declined.blocks);
    ck_assert_uint_eq(c.allocated.samples, c.freed_young.samples + c.freed_old.samples + c.reclaimed.samples + c.live.samples +
                                               c.lost.samples + c.declined.samples);
    return c;
}

/* ---- tests ---- */

/* The number of points in a block of w words is binomial: chi-square over its values, at a fixed seed (99.9 % quantiles of 4
   to 12 degrees lie below 33).  The library's process beside it sees every word that was used, and no other. */
static unsigned drawn;
static void *on_alloc_draw(const struct gleaner_sample *s, void *user)
{
    drawn = (unsigned)s->n_samples;
    return NULL;
}

START_TEST(points_are_binomial)
{
    static const struct {
        size_t words;
        double lambda;
    } cases[] = {{4, 0.1}, {12, 0.3}, {2, 0.5}, {100, 0.02}, {1000, 0.001}, {64, 0.01}};
    enum { N = 100000, VALUES = 13 };
    size_t words = cases[_i].words;
    double lambda = cases[_i].lambda, p = pow(1 - lambda, (double)words), chi = 0;
    unsigned seen[VALUES] = {0};
    begin(&theirs);
    start(lambda, &(struct gleaner_tracker){.alloc_young = on_alloc_draw}, 0);
    for (unsigned i = 0; i < N; i++) {
        drawn = 0;
        alloc(i % BLOCKS, 5 + i % 3, words);
        release(i % BLOCKS);
        seen[drawn < VALUES ? drawn : VALUES - 1]++;
    }
    unsigned degrees = 0;
    double rest = N;
    unsigned seen_rest = N;
    for (unsigned k = 0; k < VALUES; k++) {
        double mean = N * p;
        p *= (double)(words - k) / (k + 1) * lambda / (1 - lambda);
        if (mean < 10 || rest - mean < 10) break; /* too few for the test: the rest together */
        chi += (seen[k] - mean) * (seen[k] - mean) / mean;
        rest -= mean;
        seen_rest -= seen[k];
        degrees++;
    }
    chi += (seen_rest - rest) * (seen_rest - rest) / rest;
    ck_assert_uint_ge(degrees, 2);
    ck_assert_msg(chi < 33, "chi square %g of %u degrees", chi, degrees);
    for (unsigned c = 0; c < HEAP_CLASSES; c++)
        ck_assert_uint_eq(theirs_allowed[c], used_words[c] + (uint64_t)follow[c] * words);
    ck_assert_uint_eq(theirs_points, theirs_allocated_n);
    ck_assert_uint_eq(theirs_points, theirs_freed_n);
    ck_assert_uint_gt(theirs_points, 100);
}
END_TEST

/* Random lives of blocks, with collections between: what is told is what was counted. */
START_TEST(lives)
{
    begin(_i % 2 ? &theirs : &nobody);
    watches = _i == 3;
    unsigned long p = start(_i < 2 ? 1 : 0.05, &tracker, _i >= 4);
    for (unsigned step = 0; step < 100000; step++) {
        unsigned i = (unsigned)rand() % BLOCKS;
        if (live[i]) release(i);
        else alloc(i, 1 + i % 40, 2 + i % 40);
        if (step % 10000 != 9999) continue;
        for (unsigned k = 0; k < BLOCKS; k++) {
            old[k] = live[k];
            lost[k] = live[k] && rand() % 10 == 0;
        }
        memprof_collected();
        if (_i < 4) memprof_run();
        else memprof_poll();
        for (unsigned k = 0; k < BLOCKS; k += 3) { /* some of the lost are taken back */
            if (!lost[k]) continue;
            uint32_t tag = atomic_exchange(&tags[k], 0);
            live[k] = lost[k] = false;
            if (tag && (tag = memprof_reclaimed(address(k), tag))) theirs_freed(&own_hook, address(k), tag, true);
        }
        memprof_poll();
        struct gleaner_memprof_counts c = conserved(p);
        ck_assert_uint_gt(c.lost.blocks, 0);
        ck_assert_int_eq(told.alloc, (long)c.allocated.blocks);
        ck_assert_int_eq(told.samples, (long)c.allocated.samples);
        ck_assert_int_eq(told.promote, (long)c.promoted.blocks);
        ck_assert_int_eq(told.dealloc_young, (long)c.freed_young.blocks);
        ck_assert_int_eq(told.dealloc_old, (long)c.freed_old.blocks);
        ck_assert_int_eq(told.reclaimed, (long)c.reclaimed.blocks);
    }
    ck_assert_int_gt(told.reclaimed, 0);
    ck_assert_int_gt(told.lost, told.reclaimed);
    for (unsigned k = 0; k < BLOCKS; k++)
        if (live[k]) release(k);
    memprof_poll();
    ck_assert_uint_eq(conserved(p).live.blocks + conserved(p).lost.blocks, 0);
    ck_assert_int_eq(memprof_stop(), 0);
    ck_assert_int_eq(memprof_discard(p), 0);
    ck_assert_uint_eq(theirs_allocated_n, theirs_freed_n);
}
END_TEST

/* A thread without a heap ends blocks, too; what is told then waits for whoever comes by. */
START_TEST(without_a_hook)
{
    begin(&nobody);
    unsigned long p = start(1, &tracker, 0);
    for (unsigned i = 0; i < 10; i++) alloc(i, 3, 4);
    no_heap = true;
    for (unsigned i = 0; i < 10; i++) {
        uint32_t tag = atomic_exchange(&tags[i], 0);
        live[i] = false;
        hooks->freed(NULL, address(i), tag, false);
    }
    memprof_run();
    ck_assert_int_eq(told.dealloc_young, 0);
    no_heap = false;
    memprof_run();
    ck_assert_int_eq(told.dealloc_young, 10);
    conserved(p);
}
END_TEST

/* A table that is full, and a system that refuses memory: nothing is tracked, everything is counted, and it goes on
   afterwards. */
START_TEST(without_memory)
{
    begin(&theirs);
    unsigned long p = start(1, &tracker, 0);
    memprof_limit(100);
    for (unsigned i = 0; i < 200; i++) alloc(i, 3, 4);
    struct gleaner_memprof_counts c = conserved(p);
    ck_assert_uint_eq(c.allocated.blocks, 100);
    ck_assert_uint_eq(c.dropped.blocks, 100);
    ck_assert_uint_eq(c.dropped.samples, 400);
    for (unsigned i = 0; i < 200; i++) release(i);
    for (unsigned i = 0; i < 50; i++) alloc(i, 3, 4);
    ck_assert_uint_eq(conserved(p).live.blocks, 50);
    ck_assert_uint_eq(memprof_weak_make(address(0), NULL, NULL) != 0, true);
    for (unsigned i = 1; i < 50; i++) memprof_weak_make(address(i), NULL, NULL);
    ck_assert_uint_eq(memprof_weak_make(address(0), NULL, NULL), 0);
    for (unsigned i = 0; i < 50; i++) release(i);
    ck_assert_uint_eq(theirs_allocated_n, theirs_freed_n);
    memprof_limit(MEMPROF_MAX);
    memprof_stop();
    ck_assert_int_eq(memprof_discard(p), 0);
}
END_TEST

START_TEST(mappings_refused)
{
    begin(&theirs);
    os_fail_mappings(0, 1000000);
    struct gleaner_memprof_options o = {.lambda = 1};
    unsigned long p = 0;
    int e = memprof_start(&o, &p);
    if (e) ck_assert_int_eq(e, ENOMEM);
    for (unsigned i = 0; i < 200; i++) alloc(i, 3, 4);
    os_fail_mappings(0, 0);
    if (e) {
        p = start(1, NULL, 0);
    } else {
        memprof_stop();
        ck_assert_int_eq(memprof_discard(p), 0);
        p = start(1, NULL, 0);
    }
    for (unsigned i = 200; i < 300; i++) alloc(i, 3, 4);
    ck_assert_uint_eq(conserved(p).live.blocks, 100);
    for (unsigned i = 0; i < 300; i++) release(i);
    ck_assert_uint_eq(conserved(p).live.blocks, 0);
    ck_assert_uint_eq(theirs_allocated_n, theirs_freed_n);
}
END_TEST

/* A block that nobody else tracks keeps what its tag would have said: its caller, or the library's entry. */
START_TEST(what_lies_below)
{
    begin(&nobody);
    watches = true;
    unsigned long p = start(1, &tracker, 0);
    alloc(1, 3, 4);
    ck_assert_uint_ge(tag_entry(tags[1]), MEMPROF_FIRST);
    ck_assert_uint_eq(tracked_tag(tags[1]), TAG_CALLER | 1000);
    ck_assert_uint_eq(tracked_tag(tags[1] | TAG_IGNORED), TAG_CALLER | TAG_IGNORED | 1000);
    unsigned long h = memprof_weak_make(address(1), NULL, NULL), g = memprof_weak_make(address(1), NULL, NULL);
    ck_assert_uint_eq(tracked_tag(tags[1]), TAG_CALLER | 1000);
    ck_assert_int_eq(memprof_weak_drop(h), 0); /* in the middle */
    ck_assert_ptr_eq(memprof_weak_get(g), address(1));
    ck_assert_int_eq(memprof_weak_drop(g), 0); /* foremost */
    ck_assert_uint_eq(tracked_tag(tags[1]), TAG_CALLER | 1000);
    memprof_stop();
    ck_assert_int_eq(memprof_discard(p), 0);
    ck_assert_uint_eq(tracked_tag(tags[1]), TAG_CALLER | 1000);
    release(1);
    ck_assert_uint_eq(tracked_tag(5), 5);
    ck_assert_uint_eq(tracked_tag(TAG_CALLER | 5), TAG_CALLER | 5);
}
END_TEST

/* An entry that a profile left behind does not keep others from using its place: profiles come and go over blocks that stay. */
START_TEST(generations)
{
    begin(&theirs);
    for (int round = 0; round < 2000; round++) {
        unsigned long p = start(1, NULL, 0);
        for (unsigned i = 0; i < 20; i++) {
            unsigned k = (unsigned)rand() % 200;
            if (live[k]) release(k);
            else alloc(k, 3, 4);
        }
        memprof_stop();
        ck_assert_int_eq(memprof_discard(p), 0);
        struct gleaner_memprof_counts c;
        ck_assert_int_eq(memprof_counts(p, &c), EINVAL);
    }
    ck_assert_uint_le(memprof_end() - MEMPROF_FIRST, 200 + 2 * MEMPROF_CACHE);
}
END_TEST

/* Threads share the tables: each has blocks of its own, and others' handles. */
static void *in_thread(void *number)
{
    unsigned from = (unsigned)(uintptr_t)number * 512, seed = from + 1;
    struct heap_thread_hook *h = &own_hook;
    hooks->renewed(h);
    for (int step = 0; step < 30000; step++) {
        unsigned i = from + (unsigned)rand_r(&seed) % 512;
        if (live[i]) {
            uint32_t tag = atomic_exchange(&tags[i], 0);
            live[i] = false;
            if (tag) hooks->freed(h, address(i), tag, false);
        } else {
            unsigned n;
            hooks->due(h, 1, 4, &n);
            live[i] = true;
            if (n) tags[i] = hooks->allocated(h, address(i), 30, 32, HEAP_MALLOC, n);
            if (step % 7 == 0) {
                unsigned long w = memprof_weak_make(address(i), NULL, NULL);
                ck_assert_ptr_eq(memprof_weak_get(w), address(i));
                if (step % 14 == 0) ck_assert_int_eq(memprof_weak_drop(w), 0);
            }
        }
        if (h->pending) hooks->callbacks(h);
        if (step % 5000 == 0) memprof_poll();
        if (step % 50 == 0) hooks->renewed(h); /* as at a slow path: another profile may have begun */
    }
    memprof_thread_ended(h);
    return NULL;
}

static void *on_alloc_same(const struct gleaner_sample *s, void *user) { return s->block; }
static void on_end_same(const struct gleaner_sample *s, void *data, void *user) { ck_assert_ptr_eq(s->block, data); }

START_TEST(threads)
{
    pthread_t t[8];
    begin(&nobody);
    unsigned long p = start(_i ? 0.1 : 1, &(struct gleaner_tracker){.alloc_young = on_alloc_same, .dealloc_young = on_end_same,
                                                                  .dealloc_old = on_end_same}, 0);
    for (long i = 0; i < 8; i++) pthread_create(&t[i], NULL, in_thread, (void *)i);
    for (int i = 0; i < 50; i++) memprof_collected();
    for (int i = 0; i < 8; i++) pthread_join(t[i], NULL);
    memprof_poll();
    conserved(p);
    memprof_stop();
    ck_assert_int_eq(memprof_discard(p), 0);
}
END_TEST

/* Profiles begin, are polled, end and are forgotten while threads allocate and free. */
START_TEST(threads_and_discards)
{
    pthread_t t[8];
    const struct gleaner_tracker same = {.alloc_young = on_alloc_same, .alloc_old = on_alloc_same, .dealloc_young = on_end_same,
                                         .dealloc_old = on_end_same};
    begin(&nobody);
    memprof_install(false);
    for (long i = 0; i < 8; i++) pthread_create(&t[i], NULL, in_thread, (void *)i);
    for (int i = 0; i < 400; i++) {
        unsigned long p = start(i % 3 ? 1 : 0.1, &same, i % 2);
        for (int k = 0; k < 20; k++) {
            memprof_poll();
            if (k % 7 == 0) memprof_collected();
        }
        memprof_stop();
        if (i % 5) ck_assert_int_eq(memprof_discard(p), 0);
    }
    for (int i = 0; i < 8; i++) pthread_join(t[i], NULL);
    memprof_poll();
    unsigned long p = start(1, &tracker, 0);
    for (unsigned i = 0; i < BLOCKS; i++)
        if (live[i]) release(i);
    for (unsigned i = 0; i < 1000; i++) alloc(i, 3, 4);
    ck_assert_uint_eq(conserved(p).live.blocks, 1000);
    for (unsigned i = 0; i < 1000; i++) release(i);
    ck_assert_int_eq(told.dealloc_young, 1000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("the program's own profile");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, points_are_binomial, 0, 6);
    tcase_add_loop_test(t, lives, 0, 6);
    tcase_add_test(t, without_a_hook);
    tcase_add_test(t, without_memory);
    tcase_add_test(t, mappings_refused);
    tcase_add_test(t, what_lies_below);
    tcase_add_test(t, generations);
    tcase_add_loop_test(t, threads, 0, 2);
    tcase_add_test(t, threads_and_discards);
    suite_add_tcase(suite, t);
    return suite_run(suite);
}
