/* test-sampler.c: the sampling process and its estimates, on an allocator that only counts.  Stacks
   are whatever the test says (`stack_now`); the real ones have their own test.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "heap/caller.h"
#include "heap/heap.h"
#include "sampler/estimate.h"
#include "sampler/false_lost.h"
#include "sampler/geometric.h"
#include "sampler/sampler.h"
#include "sampler/site.h"
#include "sampler/stack_cache.h"
#include "sampler/tracked.h"
#include "no_short_stacks.h"
#include "suite.h"

#include <check.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- what the sampler calls ---- */

static _Thread_local uint32_t stack_now = 1;
static _Thread_local int suspended, captured_awake;

void heap_suspend_sampling(void)
{
    suspended++;
}
void heap_resume_sampling(void)
{
    suspended--;
}
uintptr_t caller_address(uint32_t number)
{
    return 0;
}

void stack_print(int fd, uint32_t id)
{
    ck_assert_int_eq(write(fd, &id, sizeof id), sizeof id);
}
void stack_stats(struct stack_stats *to)
{
    *to = (struct stack_stats){.stacks = 5, .one_frame = 2};
}

void stack_cache_forget(struct stack_cache *cache)
{
    ck_assert_ptr_null(cache);
}

uint32_t stack_capture_cached(struct stack_cache **cache, bool *one_frame)
{
    captured_awake += suspended == 0;
    return stack_now;
}

/* ---- an allocator that only counts, as the heap does it ---- */

static struct heap_hooks hooks;

struct fake {
    struct heap_thread_hook hook;
    uint32_t left[HEAP_CLASSES];
};

static void start(uint64_t interval, uint64_t seed)
{
    struct sampler_options options = {
        .interval = interval, .all = interval == 8, .depth = 64, .fixed_seed = true, .seed = seed};
    sampler_start(&options, &hooks);
    ck_assert_uint_eq(sampler_interval(), interval);
}

/* The sample points in the next block. */
static unsigned points(struct fake *f, unsigned class, size_t words)
{
    if (class == HEAP_CLASS_LARGE) return hooks.large(&f->hook, words);
    if (f->left[class] > 0) {
        f->left[class]--;
        return 0;
    }
    unsigned n;
    f->left[class] = hooks.due(&f->hook, class, words, &n);
    return n;
}

struct block {
    void *address;
    uint32_t entry;
};

static struct block fake_alloc(struct fake *f, unsigned class, size_t words)
{
    static _Atomic uintptr_t next = 0x200000000000u;
    struct block b = {(void *)atomic_fetch_add(&next, words * 8), 0};
    unsigned n = points(f, class, words);
    if (n > 0 && hooks.every && words % 2 == 0) {
        _Atomic uint32_t tag = 0;
        /* Not by Check, whose assertions allocate: threads run this while others fork. */
        if (hooks.every(&f->hook, b.address, words * 8 - 1, words * 8 | HEAP_MALLOC, &tag) != b.address) abort();
        b.entry = tag;
    } else if (n > 0)
        b.entry = hooks.allocated(&f->hook, b.address, words * 8 - 1, words * 8, HEAP_MALLOC, n);
    return b;
}

static void fake_free(struct fake *f, struct block b)
{
    if (b.entry) hooks.freed(f ? &f->hook : NULL, b.address, b.entry, false);
}

static struct site_view found;
static void look(const struct site_view *v, void *user)
{
    if (v->stack == *(uint32_t *)user) found = *v;
}

static struct site_view site_of(uint32_t stack)
{
    memset(&found, 0, sizeof found);
    site_each(look, &stack);
    return found;
}

static struct site_count live_sum, allocated_sum;
static void add_up(const struct site_view *v, void *user)
{
    live_sum.n += v->live.n;
    live_sum.blocks += v->live.blocks;
    allocated_sum.n += v->allocated.n;
    allocated_sum.blocks += v->allocated.blocks;
}

static void sum_sites(void)
{
    memset(&live_sum, 0, sizeof live_sum);
    memset(&allocated_sum, 0, sizeof allocated_sum);
    site_each(add_up, NULL);
}

/* ---- the process ---- */

/* The same words cut into blocks in another way hold the same points: what one thread number draws
   for a seed does not depend on the sizes.  The reference walks the gaps word by word. */
START_TEST(points_do_not_depend_on_the_cut)
{
    enum { WORDS = 400000 };
    static unsigned char plain[WORDS];
    struct fake one = {.left = {0}}, other = {.left = {0}};
    start(256, 42);
    for (unsigned i = 0; i < WORDS; i++) plain[i] = points(&one, HEAP_CLASS_LARGE, 1) != 0;
    start(256, 42);
    uint64_t cut = 1;
    unsigned at = 0, total = 0;
    while (at < WORDS) {
        cut = cut * 6364136223846793005u + 1442695040888963407u;
        unsigned words = 1 + (unsigned)(cut >> 33) % 300, n = 0;
        if (words > WORDS - at) words = WORDS - at;
        for (unsigned i = 0; i < words; i++) n += plain[at + i];
        unsigned got = points(&other, HEAP_CLASS_LARGE, words);
        if (got != n) ck_abort_msg("block at %u of %u words: %u, not %u", at, words, got, n);
        at += words;
        total += n;
    }
    ck_assert_uint_gt(total, WORDS / 32 - 500); /* 12500, deviation 110 */
    ck_assert_uint_lt(total, WORDS / 32 + 500);
}
END_TEST

/* The same for due(), which skips the blocks without a point: with blocks of 6 words the points per
   block are those of the words taken one by one. */
START_TEST(due_skips_exactly_the_blocks_without_points)
{
    enum { BLOCKS = 300000, SIZE = 6 };
    static unsigned char n[BLOCKS];
    struct fake one = {.left = {0}}, other = {.left = {0}};
    start(_i == 0 ? 12 : 512, 43);
    for (unsigned i = 0; i < BLOCKS; i++) n[i] = (unsigned char)points(&one, 7, SIZE);
    start(_i == 0 ? 12 : 512, 43);
    for (unsigned i = 0; i < BLOCKS; i++) {
        unsigned sum = 0;
        for (unsigned k = 0; k < SIZE; k++) sum += points(&other, 7, 1);
        if (sum != n[i]) ck_abort_msg("block %u: %u, not %u", i, n[i], sum);
    }
}
END_TEST

/* Points of a block are binomial: 10 words at lambda = 1/4, a million blocks, against the
   distribution and against plain trials of a plain generator.  Chi-squared with 8 degrees: 99.9 %
   is 26.12. */
START_TEST(points_of_a_block_are_binomial)
{
    enum { BLOCKS = 1000000, SIZE = 10 };
    struct fake f = {.left = {0}};
    double seen[SIZE + 1] = {0}, plain[SIZE + 1] = {0};
    uint64_t state = 17;
    start(32, 44);
    for (unsigned i = 0; i < BLOCKS; i++) {
        seen[points(&f, 3, SIZE)]++;
        unsigned n = 0;
        uint64_t bits = random_split_mix(&state);
        for (unsigned k = 0; k < SIZE; k++) n += (bits >> 2 * k & 3) == 0;
        plain[n]++;
    }
    double chi = 0, chi_plain = 0;
    for (int k = 0; k <= 8; k++) {
        double p = 0;
        for (int j = k; j <= (k < 8 ? k : SIZE); j++)
            p += exp(lgamma(11) - lgamma(j + 1.0) - lgamma(11.0 - j)) * pow(0.25, j) *
                 pow(0.75, 10 - j);
        double expected = p * BLOCKS;
        double got = k < 8 ? seen[k] : seen[8] + seen[9] + seen[10];
        double ref = k < 8 ? plain[k] : plain[8] + plain[9] + plain[10];
        chi += (got - expected) * (got - expected) / expected;
        chi_plain += (ref - expected) * (ref - expected) / expected;
    }
    ck_assert_msg(chi < 26.12, "chi-squared %g", chi);
    ck_assert_msg(chi_plain < 26.12, "the reference itself: %g", chi_plain);
}
END_TEST

/* Blocks between two sampled ones are geometric with 1 - (1 - lambda)^words, in each class, though
   classes are mixed: the mean within 4 deviations. */
START_TEST(gaps_between_sampled_blocks)
{
    static const size_t words[4] = {2, 8, 40, 512};
    struct fake f = {.left = {0}};
    double blocks[4] = {0}, sampled[4] = {0};
    uint64_t state = 3;
    start(800, 45);
    for (unsigned i = 0; i < 4000000; i++) {
        unsigned c = random_split_mix(&state) & 3;
        blocks[c]++;
        sampled[c] += points(&f, c, words[c]) > 0;
    }
    for (unsigned c = 0; c < 4; c++) {
        double p = 1 - pow(1 - 0.01, (double)words[c]);
        double deviation = sqrt(blocks[c] * p * (1 - p));
        ck_assert_msg(fabs(sampled[c] - blocks[c] * p) < 4 * deviation, "class %u: %g of %g", c,
                      sampled[c], blocks[c]);
    }
}
END_TEST

START_TEST(all_is_every_word)
{
    struct fake f = {.left = {0}};
    start(8, 1);
    unsigned n;
    ck_assert_uint_eq(hooks.due(&f.hook, 1, 4, &n), 0);
    ck_assert_uint_eq(n, 4);
    ck_assert_uint_eq(hooks.large(&f.hook, 123456), 123456);
    ck_assert_uint_eq(hooks.large(&f.hook, (size_t)1 << 40), UINT32_MAX);
    struct block b[100];
    for (unsigned i = 0; i < 100; i++) b[i] = fake_alloc(&f, 1, 4);
    for (unsigned i = 0; i < 30; i++) fake_free(&f, b[i]);
    struct site_view v = site_of(1);
    ck_assert_uint_eq(v.allocated.blocks, 100);
    ck_assert_uint_eq(v.allocated.n, 400);
    ck_assert_uint_eq(v.live.n, 280);
    struct estimate e = estimate_objects(v.live.n, sampler_interval(), v.given);
    ck_assert(e.value == 70 && e.lo == 70 && e.hi == 70);
}
END_TEST

START_TEST(off_sets_no_sampling_hook)
{
    struct sampler_options options = {.interval = 0};
    struct heap_hooks none = {0}, only = {.false_lost = false_lost_note};
    sampler_start(&options, &none);
    ck_assert_mem_eq(&none, &only, sizeof none);
}
END_TEST

/* A block of 16 TiB at an interval of 9 bytes: 2e12 points are not walked one by one, what can be
   told of them is. */
START_TEST(huge_blocks_are_quick)
{
    struct fake f = {.left = {0}};
    start(9, 46);
    ck_assert_uint_eq(hooks.large(&f.hook, (size_t)1 << 41), UINT32_MAX);
    size_t words = (size_t)1 << 30;
    double mean = (double)words * 8 / 9, deviation = sqrt(mean / 9);
    for (unsigned i = 0; i < 100; i++)
        ck_assert_double_lt(fabs(hooks.large(&f.hook, words) - mean), 5 * deviation);
}
END_TEST

START_TEST(entries_say_what_was_allocated)
{
    struct fake f = {.left = {0}};
    start(8, 1);
    stack_now = 77;
    struct block b = fake_alloc(&f, 5, 12);
    struct tracked_view v;
    ck_assert(tracked_get(b.entry, &v));
    ck_assert_ptr_eq(v.block, b.address);
    ck_assert_uint_eq(v.asked, 95);
    ck_assert_uint_eq(v.n_samples, 12);
    ck_assert_uint_eq(v.thread, 1);
    ck_assert_uint_eq(site_stack(v.site), 77);
    ck_assert_uint_eq(site_given(v.site), 96);
    ck_assert_int_eq(captured_awake, 0);
    ck_assert_int_eq(suspended, 0);
    int fd[2];
    uint32_t stack = 0;
    ck_assert_int_eq(pipe(fd), 0);
    sampler_print_stack(fd[1], b.entry);
    ck_assert_int_eq(read(fd[0], &stack, sizeof stack), sizeof stack);
    ck_assert_uint_eq(stack, 77);
    fake_free(NULL, b); /* by a thread that has no heap any more */
    ck_assert(!tracked_get(b.entry, &v));
    struct sampler_stats stats;
    sampler_stats(&stats);
    ck_assert_uint_eq(stats.samples, 1);
    ck_assert_uint_eq(stats.samples_freed, 1);
    ck_assert_uint_eq(stats.live_entries, 0);
    ck_assert_uint_eq(stats.stacks, 5);
    ck_assert_uint_eq(stats.one_frame, 2);
    ck_assert_uint_gt(stats.memory_bytes, 0);
}
END_TEST

/* The live total rises and falls with the blocks: what a program frees again and again does not add up
   to a peak, and a thread keeps back no more than the quantum. */
START_TEST(peak_counts_what_lives_together)
{
    enum { N = 20000 };
    static struct block b[N];
    struct fake f = {.left = {0}};
    start(_i ? 8 : 64, 4);
    for (unsigned round = 0; round < 20; round++) {
        for (unsigned i = 0; i < N; i++) b[i] = fake_alloc(&f, 4, 8);
        for (unsigned i = 0; i < N; i++) fake_free(&f, b[i]);
    }
    double expected = N * 8.0 * 8 / (double)sampler_interval(), peak = (double)site_peak(NULL);
    double deviation = _i ? 0 : sqrt(expected); /* of one round; the largest of 20 */
    ck_assert_double_gt(peak, 0.99 * (expected - 3 * deviation) - 512);
    ck_assert_double_lt(peak, expected + 5 * deviation + 512);
}
END_TEST

/* When no entry can be had, what was allocated stays right, nothing is live, and the loss is told. */
START_TEST(a_full_table_loses_only_what_is_live)
{
    struct fake f = {.left = {0}};
    start(8, 1);
    tracked_start(100 * 32);
    for (unsigned i = 0; i < 1000; i++) fake_alloc(&f, 1, 2);
    struct site_view v = site_of(1);
    ck_assert_uint_eq(v.allocated.blocks, 1000);
    ck_assert_uint_eq(v.live.blocks, 99);
    struct sampler_stats stats;
    sampler_stats(&stats);
    ck_assert_uint_eq(stats.dropped_entries, 901);
    ck_assert_uint_eq(stats.live_entries, 99);
}
END_TEST

/* Resizing in place keeps estimates unbiased: blocks of 100 words become 250 or 40 words.  (A block
   that had no point and grows is tried for its new words by the heap, through `large`.) */
START_TEST(resizing_keeps_estimates_right)
{
    enum { BLOCKS = 20000 };
    size_t from = 100, to = _i ? 250 : 40;
    struct fake f = {.left = {0}};
    start(800, 47); /* lambda = 0.01 */
    uintptr_t next = 0x300000000000u;
    for (unsigned i = 0; i < BLOCKS; i++, next += 4096) {
        stack_now = 5;
        unsigned n = points(&f, HEAP_CLASS_LARGE, from);
        uint32_t entry = 0;
        if (n) entry = hooks.allocated(&f.hook, (void *)next, from * 8, from * 8, HEAP_MALLOC, n);
        stack_now = 6;
        if (entry)
            hooks.resized(&f.hook, (void *)next, entry, from * 8, to * 8, to * 8, false);
        else if (to > from && (n = points(&f, HEAP_CLASS_LARGE, to - from)) > 0)
            hooks.allocated(&f.hook, (void *)next, to * 8, to * 8, HEAP_REALLOC, n);
    }
    double mean = BLOCKS * 0.01 * (double)to, deviation = sqrt(mean * 0.99);
    struct site_view v = site_of(6);
    ck_assert_uint_eq(v.given, to * 8);
    ck_assert_int_eq(v.source, HEAP_REALLOC);
    ck_assert_msg(fabs((double)v.live.n - mean) < 4 * deviation, "%lu, not %g",
                  (unsigned long)v.live.n, mean);
    ck_assert_uint_eq(site_of(5).live.n, 0);
    ck_assert_uint_eq(site_of(5).live.blocks, 0);
}
END_TEST

START_TEST(resizing_within_the_slot_changes_what_is_asked)
{
    struct fake f = {.left = {0}};
    struct tracked_view v;
    start(8, 1);
    struct block b = fake_alloc(&f, 5, 12);
    hooks.resized(&f.hook, b.address, b.entry, 96, 90, 96, false);
    ck_assert(tracked_get(b.entry, &v));
    ck_assert_uint_eq(v.asked, 90);
    ck_assert_uint_eq(v.n_samples, 12);
    ck_assert_uint_eq(v.flags, TRACKED_RESIZED);
    hooks.resized(&f.hook, b.address, b.entry, 96, 190, 192, false);
    ck_assert(tracked_get(b.entry, &v));
    ck_assert_uint_eq(v.n_samples, 24);
    sum_sites();
    ck_assert_uint_eq(live_sum.n, 24);
    ck_assert_uint_eq(live_sum.blocks, 1);
}
END_TEST

/* ---- unbiased ----

   A program with three sites allocates and frees the same blocks under many seeds.  The estimates
   of bytes and blocks, allocated and live, must be right on average, and their intervals must hold
   the truth in about 95 % of the cases: with R cases the share deviates by sqrt(0.95 * 0.05 / R);
   Garwood's intervals are a little wide, so more than 95 % is no error until it is implausibly
   much. */

#define SEEDS 400

struct program {
    unsigned class[3];
    size_t words[3];
    unsigned blocks[3], freed[3];
};

static const struct program programs[] = {
    {{0, 1, 2}, {2, 4, 8}, {60000, 30000, 20000}, {20000, 0, 15000}}, /* small */
    {{63, 63, 63}, {5000, 9000, 130000}, {60, 40, 3}, {30, 10, 1}},   /* large */
    {{1, 20, 63}, {4, 300, 70000}, {50000, 800, 5}, {25000, 300, 2}}, /* mixed */
};

static void run_program(struct fake *f, const struct program *p, uint32_t first_stack)
{
    for (unsigned s = 0; s < 3; s++) {
        /* Frees are spread over the allocations, which are spread over the sites. */
        stack_now = first_stack + s;
        for (unsigned i = 0; i < p->blocks[s]; i++) {
            struct block b = fake_alloc(f, p->class[s], p -> words[s]);
            if ((uint64_t)(i + 1) * p->freed[s] / p->blocks[s] !=
                (uint64_t)i * p->freed[s] / p->blocks[s])
                fake_free(f, b);
        }
    }
}

struct tally {
    double sum, cases, held;
};

static void count_case(struct tally *t, struct estimate e, double truth)
{
    t->sum += e.value / truth;
    t->cases++;
    t->held += e.lo <= truth && truth <= e.hi;
}

static struct site_view by_stack[3 * SEEDS + 1];
static void collect(const struct site_view *v, void *user)
{
    if (v->stack <= 3 * SEEDS) by_stack[v->stack] = *v;
}

/* `rows` of three sites each, made by `threads` threads together. */
static void check_estimates(const struct program *p, double threads)
{
    site_each(collect, NULL);
    for (unsigned s = 0; s < 3; s++) {
        struct tally t[4] = {{0}};
        double blocks = p->blocks[s] * threads, live = (p->blocks[s] - p->freed[s]) * threads;
        double size = (double)p->words[s] * 8;
        for (unsigned i = 0; i < SEEDS; i++) {
            struct site_view *v = &by_stack[1 + 3 * i + s];
            uint64_t every = sampler_interval();
            count_case(&t[0], estimate_bytes(v->allocated.n, every), blocks * size);
            count_case(&t[1], estimate_bytes(v->live.n, every), live * size);
            count_case(&t[2], estimate_objects(v->allocated.n, every, p->words[s] * 8), blocks);
            count_case(&t[3], estimate_objects(v->live.n, every, p->words[s] * 8), live);
        }
        for (unsigned k = 0; k < 4; k++) {
            double points = (k % 2 ? live : blocks) * size / (double)sampler_interval();
            double share = t[k].held / t[k].cases;
            double off = fabs(t[k].sum / t[k].cases - 1) * sqrt(points * t[k].cases);
            ck_assert_double_eq(t[k].cases, SEEDS);
            ck_assert_msg(off < 4, "site %u, figure %u: off by %g deviations", s, k, off);
            ck_assert_msg(share > 0.95 - 3 * sqrt(0.95 * 0.05 / SEEDS) && share < 0.995,
                          "site %u, figure %u: %g held", s, k, share);
        }
    }
}

START_TEST(estimates_are_unbiased)
{
    static struct fake fakes[SEEDS];
    for (unsigned i = 0; i < SEEDS; i++) {
        start(16384, 1000 + i);
        run_program(&fakes[i], &programs[_i], 1 + 3 * i);
    }
    check_estimates(&programs[_i], 1);
}
END_TEST

static struct fake thread_fakes[4][SEEDS];
static const struct program *thread_program;

static void *run_programs(void *arg)
{
    struct fake *f = arg;
    for (unsigned i = 0; i < SEEDS; i++) run_program(&f[i], thread_program, 1 + 3 * i);
    return NULL;
}

/* Four threads work at the same sites; each has its own streams (a thread's number is taken at its
   first draw: here beforehand, so that the test does the same each time). */
START_TEST(estimates_are_unbiased_with_threads)
{
    pthread_t thread[4];
    thread_program = &programs[_i];
    start(4 * 16384, 5);
    for (unsigned i = 0; i < SEEDS; i++)
        for (unsigned k = 0; k < 4; k++) {
            struct block none = {0};
            fake_free(&thread_fakes[k][i], none);
            hooks.large(&thread_fakes[k][i].hook, 0);
        }
    for (unsigned k = 0; k < 4; k++)
        pthread_create(&thread[k], NULL, run_programs, thread_fakes[k]);
    for (unsigned k = 0; k < 4; k++) pthread_join(thread[k], NULL);
    check_estimates(&programs[_i], 4);
}
END_TEST

/* ---- seeds ---- */

static void draw(struct fake *f, unsigned n[100])
{
    for (unsigned i = 0; i < 100; i++) n[i] = hooks.large(&f->hook, 1000);
}

START_TEST(seeds_repeat_and_differ)
{
    struct fake f[5];
    unsigned a[100], b[100], c[100], d[100], e[100];
    memset(f, 0, sizeof f);
    start(800, 1);
    draw(&f[0], a);
    draw(&f[1], b); /* another thread */
    start(800, 1);
    draw(&f[2], c);
    start(800, 2);
    draw(&f[3], d);
    struct sampler_options options = {.interval = 800};
    sampler_start(&options, &hooks);
    draw(&f[4], e);
    ck_assert_mem_eq(a, c, sizeof a);
    ck_assert_mem_ne(a, b, sizeof a);
    ck_assert_mem_ne(a, d, sizeof a);
    ck_assert_mem_ne(a, e, sizeof a);
}
END_TEST

/* Parent and children draw differently after a fork (the gap that was pending apart), two children
   differ, and with a fixed seed it is the same the next time. */
static void child_draws(struct fake *f, unsigned n[100])
{
    int fd[2];
    ck_assert_int_eq(pipe(fd), 0);
    sampler_fork_prepare();
    pid_t pid = fork();
    if (pid == 0) {
        sampler_fork_child();
        draw(f, n);
        _exit(write(fd[1], n, 100 * sizeof *n) != 100 * sizeof *n);
    }
    sampler_fork_parent();
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(read(fd[0], n, 100 * sizeof *n), 100 * sizeof *n);
}

START_TEST(children_have_their_own_points)
{
    unsigned a[2][100], b[2][100], c[2][100];
    for (unsigned round = 0; round < 2; round++) {
        struct fake f = {.left = {0}};
        start(800, 9);
        draw(&f, a[round]);
        child_draws(&f, a[round]);
        child_draws(&f, b[round]);
        draw(&f, c[round]);
    }
    ck_assert_mem_eq(a[0], a[1], sizeof a[0]);
    ck_assert_mem_eq(b[0], b[1], sizeof b[0]);
    ck_assert_mem_eq(c[0], c[1], sizeof c[0]);
    ck_assert_mem_ne(a[0], b[0], sizeof a[0]);
    ck_assert_mem_ne(a[0], c[0], sizeof a[0]);
    ck_assert_mem_ne(b[0], c[0], sizeof b[0]);
}
END_TEST

/* ---- threads and forks ---- */

#define BOARD 2048
static _Atomic uint64_t board[BOARD]; /* address | entry << 40, kept small for one word */
static atomic_bool stop_storm;
static unsigned long storm_steps;
static struct fake storm_fakes[5];

/* Allocates, puts the block on the board, frees what was there: so most frees are by another
 * thread. */
static void storm_step(struct fake *f, uint64_t *state)
{
    uint64_t r = random_split_mix(state);
    stack_now = 1 + (r & 63);
    size_t words = 2 + 2 * (r >> 8 & 15);
    struct block b = fake_alloc(f, (unsigned)words / 2, words);
    if (!b.entry) return;
    uint64_t mine = (uint64_t)b.entry << 40 | ((uintptr_t)b.address - 0x200000000000u) >> 4;
    uint64_t was = atomic_exchange(&board[r >> 20 & (BOARD - 1)], mine);
    if (!was) return;
    b.entry = (uint32_t)(was >> 40);
    b.address = (void *)(((was & 0xffffffffffu) << 4) + 0x200000000000u);
    fake_free(r >> 40 & 15 ? f : NULL, b);
}

static uint64_t clear_board(struct fake *f)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < BOARD; i++) {
        uint64_t was = atomic_exchange(&board[i], 0);
        if (!was) continue;
        struct block b = {(void *)(((was & 0xffffffffffu) << 4) + 0x200000000000u),
                          (uint32_t)(was >> 40)};
        fake_free(f, b);
        n++;
    }
    return n;
}

static void *storm(void *arg)
{
    struct fake *f = arg;
    uint64_t state = (uint64_t)(f - storm_fakes);
    for (unsigned long i = 0; i < storm_steps && !atomic_load(&stop_storm); i++)
        storm_step(f, &state);
    return NULL;
}

START_TEST(threads_conserve_samples)
{
    pthread_t thread[4];
    start(_i ? 64 : 8, 3);
    storm_steps = 100000;
    for (unsigned i = 0; i < 4; i++) pthread_create(&thread[i], NULL, storm, &storm_fakes[i]);
    for (unsigned i = 0; i < 4; i++) pthread_join(thread[i], NULL);
    struct sampler_stats stats;
    sampler_stats(&stats);
    uint64_t samples = stats.samples, freed = stats.samples_freed;
    ck_assert_uint_eq(stats.live_entries, samples - freed);
    if (_i == 0) ck_assert_uint_eq(samples, 4 * 100000);
    ck_assert_uint_eq(clear_board(&storm_fakes[4]), samples - freed);
    sum_sites();
    ck_assert_uint_eq(live_sum.n, 0);
    ck_assert_uint_eq(live_sum.blocks, 0);
    ck_assert_uint_eq(allocated_sum.blocks, samples);
}
END_TEST

/* In the child the other threads are gone, in whatever they were doing; their structs, as they are,
   come to be used by its own threads. */
static int child_of_storm(void)
{
    sampler_fork_child();
    uint64_t state = (uint64_t)getpid();
    struct sampler_stats before, after;
    sampler_stats(&before);
    if (before.samples != 0) return 2;
    clear_board(&storm_fakes[4]);
    for (unsigned i = 0; i < 20000; i++) storm_step(&storm_fakes[i % 5], &state);
    sampler_stats(&after);
    if (after.samples != 20000) return 3;
    uint64_t on_board = clear_board(&storm_fakes[0]);
    if (on_board == 0 || on_board > BOARD) return 4;
    sampler_stats(&after);
    /* What is left was in flight in the parent's threads, or its page was older than the board's.
     */
    return after.live_entries > 100 + before.live_entries / 10 ? 5 : 0;
}

START_TEST(children_of_a_storm_go_on)
{
    pthread_t thread[3];
    start(8, 3);
    storm_steps = ~0ul;
    for (unsigned i = 0; i < 3; i++) pthread_create(&thread[i], NULL, storm, &storm_fakes[i]);
    for (unsigned forks = 0; forks < 20; forks++) {
        sampler_fork_prepare();
        pid_t pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0) _exit(child_of_storm());
        sampler_fork_parent();
        int status;
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child %u: status %x", forks,
                      status);
    }
    atomic_store(&stop_storm, true);
    for (unsigned i = 0; i < 3; i++) pthread_join(thread[i], NULL);
    clear_board(&storm_fakes[4]);
    struct sampler_stats stats;
    sampler_stats(&stats);
    ck_assert_uint_eq(stats.live_entries, 0);
    ck_assert_uint_eq(stats.samples, stats.samples_freed);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("sampler");
    TCase *t = tcase_create("sampler");
    tcase_set_timeout(t, 300);
    tcase_add_test(t, points_do_not_depend_on_the_cut);
    tcase_add_loop_test(t, due_skips_exactly_the_blocks_without_points, 0, 2);
    tcase_add_test(t, points_of_a_block_are_binomial);
    tcase_add_test(t, gaps_between_sampled_blocks);
    tcase_add_test(t, all_is_every_word);
    tcase_add_test(t, off_sets_no_sampling_hook);
    tcase_add_test(t, huge_blocks_are_quick);
    tcase_add_test(t, entries_say_what_was_allocated);
    tcase_add_loop_test(t, peak_counts_what_lives_together, 0, 2);
    tcase_add_test(t, a_full_table_loses_only_what_is_live);
    tcase_add_loop_test(t, resizing_keeps_estimates_right, 0, 2);
    tcase_add_test(t, resizing_within_the_slot_changes_what_is_asked);
    tcase_add_loop_test(t, estimates_are_unbiased, 0, 3);
    tcase_add_loop_test(t, estimates_are_unbiased_with_threads, 0, 3);
    tcase_add_test(t, seeds_repeat_and_differ);
    tcase_add_test(t, children_have_their_own_points);
    tcase_add_loop_test(t, threads_conserve_samples, 0, 2);
    tcase_add_test(t, children_of_a_storm_go_on);
    suite_add_tcase(s, t);
    return suite_run(s);
}
