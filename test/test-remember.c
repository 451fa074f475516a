/* What old memory says of young blocks: the filter, the sweep and write tracking, on heaps of random blocks and pointers, against a slow
   model of it that knows every block from its allocation.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "heap/collect.h"
#include "heap/heap.h"
#include "heap/large.h"
#include "heap/os.h"
#include "heap/remember.h"
#include "heap/remember_cost.h"
#include "heap/remember_filter.h"
#include "heap/remember_ranges.h"
#include "heap/remember_sample.h"
#include "heap/remember_sweep.h"
#include "heap/remember_track.h"
#include "heap/syscall.h"
#include "suite.h"
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Check's own assertions report each pass through a pipe: too slow for inner loops. */
#define must(x)                                                                                    \
    do {                                                                                           \
        if (!(x)) ck_abort_msg("%s", #x);                                                          \
    } while (0)

#define MASK48 (((uintptr_t)1 << 48) - 1)

static uint64_t seed = 1;

static uint64_t any(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed * 0x2545f4914f6cdd1du;
}

static uint64_t below(uint64_t n)
{
    return (any() >> 11) % n;
}

/* As glibc's PTR_MANGLE (sysdeps/…/pointer_guard.h): exclusive or, on x86-64 then a rotation by 17 to the left. */
static uintptr_t mangle(uintptr_t p, uintptr_t guard)
{
    p ^= guard;
#if defined(__x86_64__)
    p = p << 17 | p >> 47;
#endif
    return p;
}

static uintptr_t demangle(uintptr_t w, uintptr_t guard)
{
#if defined(__x86_64__)
    w = w >> 17 | w << 47;
#endif
    return w ^ guard;
}

/* ---- the filter ---- */

static bool unit_of(const uint8_t *units, uintptr_t address)
{
    uintptr_t offset = address - window_base;
    return offset < FILTER_AREAS && units[offset >> 15];
}

static void check_filter(struct filter *f, const uint8_t *units, const uintptr_t *words, unsigned n)
{
    static uint16_t found[FILTER_MOST];
    static bool got[FILTER_MOST];
    memset(got, 0, sizeof got);
    unsigned count = filter_words(f, words, n, found);
    for (unsigned i = 0; i < count; i++) {
        must(found[i] < n && !got[found[i]]);
        got[found[i]] = true;
    }
    for (unsigned i = 0; i < n; i++) {
        bool expected = unit_of(units, words[i] & MASK48) ||
                        (f->guard && unit_of(units, demangle(words[i], f->guard)));
        if (got[i] != expected)
            ck_abort_msg("word %u, %#lx: %s", i, (unsigned long)words[i],
                         got[i] ? "found" : "not found");
    }
}

static uintptr_t *page_of_words(void)
{
    static uintptr_t *page;
    if (!page)
        page = mmap(NULL, 2 * OS_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return page;
}

/* Young ranges of every size and place; words at, before and after their ends, plain, tagged and mangled, among others. */
START_TEST(test_filter)
{
    filter_baseline(_i == 1);
    window_start();
    static uint8_t units[FILTER_UNITS];
    uint64_t *bits = mmap(NULL, FILTER_UNITS / 8 + OS_PAGE, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uintptr_t *words = page_of_words();
    for (unsigned round = 0; round < 60; round++) {
        struct filter f = {.guard = round % 3 ? any() : 0, .unit = bits};
        memset(units, 0, sizeof units);
        memset(bits, 0, FILTER_UNITS / 8 + 8);
        unsigned ranges = round == 0 ? 0 : 1 + (unsigned)below(8);
        uintptr_t edge[64];
        unsigned edges = 0;
        edge[edges++] = window_base;
        edge[edges++] = window_base + FILTER_AREAS;
        for (unsigned i = 0; i < ranges; i++) {
            size_t bytes = 1 + below((uint64_t)1 << below(24));
            uintptr_t span = round % 4 == 1 ? 64 * MIB : FILTER_AREAS - 32 * MIB,
                      from = window_base + below(span);
            if (round == 2) from = window_base, bytes = 1;
            if (round == 3) from = window_base + FILTER_AREAS - 1, bytes = 1;
            filter_add(&f, from, bytes);
            for (uintptr_t u = (from - window_base) >> 15;
                 u <= (from + bytes - 1 - window_base) >> 15; u++)
                units[u] = 1;
            edge[edges++] = from;
            edge[edges++] = from + bytes;
            edge[edges++] = ((from - window_base) & ~(uintptr_t)0x7fff) + window_base;
            edge[edges++] =
                ((from + bytes + 0x7fff - window_base) & ~(uintptr_t)0x7fff) + window_base;
        }
        for (unsigned turn = 0; turn < 40; turn++) {
            unsigned dense = turn % 5 == 0 ? 0 : 1u << below(7);
            for (unsigned i = 0; i < FILTER_MOST; i++) {
                words[i] = below(2) ? any() : below(1000);
                if (dense == 0 || below(dense)) continue;
                uintptr_t p = edge[below(edges)] + below(3) - 1;
                if (below(3) == 0) p = window_base + below(FILTER_AREAS);
                if (below(8) == 0) p += below(2) ? below(4 * GIB) : -below(4 * GIB);
                if (below(4) == 0) p |= below(0x10000) << 48;
                words[i] = f.guard && below(2) ? mangle(p & MASK48, f.guard) : p;
            }
            check_filter(&f, units, words,
                         FILTER_GROUP * (1 + (unsigned)below(FILTER_MOST / FILTER_GROUP)));
        }
    }
}
END_TEST

/* ---- what it costs ---- */

START_TEST(test_cost)
{
    /* 1 GiB of old memory at 15 GB/s; machine faults, then those of a virtual machine with shadow pages. */
    struct remember_cost c = {.pages = 262144, .sweep = 270, .look = 10, .arm = 60};
    c.fault = 1000;
    c.written = 0.01 * c.pages; /* 71 ms against 2.6 + 3.5 ms */
    ck_assert(cost_says_track(&c, false));
    ck_assert(cost_says_track(&c, true));
    c.written = 0.5 * c.pages; /* 71 ms against 177 ms */
    ck_assert(!cost_says_track(&c, false));
    ck_assert(!cost_says_track(&c, true));
    c.fault = 50000;
    c.arm = 400;
    c.look = 100;
    c.written = 0.01 * c.pages; /* 71 ms against 26 + 133 ms */
    ck_assert(!cost_says_track(&c, false));
    c.written =
        0.001 * c.pages; /* 71 ms against 26 + 13 ms, but 13 ms more in each of eight cycles */
    ck_assert(cost_says_track(&c, false));
    c.look = 170; /* 71 ms against 45 + 13 ms: not worth to begin, nor to end */
    ck_assert(!cost_says_track(&c, false));
    ck_assert(cost_says_track(&c, true));
    /* 71 ms are too long for huge pages; 18 ms are not, if there are any. */
    ck_assert(!cost_keeps_huge(&c, 1));
    c.pages /= 4;
    ck_assert(cost_keeps_huge(&c, 0.9));
    ck_assert(!cost_keeps_huge(&c, 0.1));
}
END_TEST

/* Of every ten pages the first is written before the second and each later sweep; before the third half of all pages are gone, and
   before the fifth all are there again. */
START_TEST(test_sample)
{
    enum { PAGES = 40000 };
    char *m =
        mmap(NULL, PAGES * OS_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned found, changed;
    for (unsigned sweep = 0; sweep < 7; sweep++) {
        unsigned pages = sweep == 2 || sweep == 3 ? PAGES / 2 : PAGES;
        for (unsigned i = 0; sweep > 0 && i < PAGES; i += 10)
            m[i * OS_PAGE + 8 * (1 + sweep)] = (char)sweep;
        sample_begin();
        for (unsigned i = 0; i < pages; i++) sample_page((uint64_t *)(m + i * OS_PAGE));
        sample_end();
        sample_result(&found, &changed);
        if (sweep == 0) {
            ck_assert_uint_eq(found, 0);
            continue;
        }
        ck_assert_uint_ge(found, SAMPLE_MOST / 8);
        ck_assert_uint_le(found, SAMPLE_MOST);
        /* A tenth: six standard deviations of a binomial with n = found. */
        double expected = found * 0.1, slack = 6 * 0.3 * __builtin_sqrt(found);
        ck_assert_double_le(changed, expected + slack);
        ck_assert_double_ge(changed, expected - slack);
    }
    sample_forget();
    sample_begin();
    for (unsigned i = 0; i < PAGES; i++) sample_page((uint64_t *)(m + i * OS_PAGE));
    sample_end();
    sample_result(&found, &changed);
    ck_assert_uint_eq(found, 0);
}
END_TEST

/* ---- the model ---- */

struct block {
    uintptr_t start;
    size_t bytes;
    bool old, reached, direct;
};

#define BLOCKS 6000
static struct block block[BLOCKS];
static unsigned blocks;
static uintptr_t guard;

/* Where the test has stored pointers, so that it can take them back before it frees what they point to (a program that tracks nothing need
   not, but then a word may come to point to a young block without having been written). */
struct store {
    uintptr_t *at;
    uintptr_t value, target;
};
#define STORES 20000
static struct store store[STORES];
static unsigned stores;

static size_t random_size(void)
{
    switch (below(40)) {
    case 0:
        return 32 * KIB + 1 + below(200 * KIB);
    case 1:
    case 2:
    case 3:
        return 1025 + below(31 * KIB);
    default:
        return 1 + below((uint64_t)1 << (4 + below(7)));
    }
}

static void allocate(unsigned n)
{
    for (; n > 0 && blocks < BLOCKS; n--) {
        size_t size = random_size();
        void *p = heap_malloc(size);
        must(p != NULL);
        size = heap_usable_size(p);
        memset(p, 0, size);
        block[blocks++] = (struct block){.start = (uintptr_t)p, .bytes = size};
    }
}

static void *new_block(size_t size)
{
    void *p = heap_malloc(size);
    must(p != NULL && blocks < BLOCKS);
    memset(p, 0, size);
    block[blocks++] = (struct block){.start = (uintptr_t)p, .bytes = heap_usable_size(p)};
    return p;
}

static struct block *block_from(uintptr_t start)
{
    unsigned i = 0;
    while (block[i].start != start) i++;
    return &block[i];
}

static void forget_block(const void *p)
{
    struct block *b = block_from((uintptr_t)p);
    *b = block[--blocks];
}

static uintptr_t *random_word(const struct block *b)
{
    return (uintptr_t *)b->start + below(b->bytes / 8);
}

/* By a plain store, or by a system call, which no protection may make fail.  A pipe is this process's alone: one that a forked child and its
   parent share hands either the other's words, and then the model does not know what it has to clear when a block is freed. */
static void write_word(uintptr_t *at, uintptr_t value)
{
    static int pipes[2];
    static pid_t owner;
    if (below(4)) {
        *at = value;
        return;
    }
    if (owner != getpid()) must(pipe(pipes) == 0);
    owner = getpid();
    must(write(pipes[1], &value, sizeof value) == sizeof value);
    must(read(pipes[0], at, sizeof value) == sizeof value);
    must(*at == value);
}

static void store_pointers(unsigned n)
{
    for (; n > 0 && stores < STORES; n--) {
        const struct block *from = &block[below(blocks)], *to = &block[below(blocks)];
        uintptr_t p = to->start + (below(2) ? 0 : below(to->bytes)), value = p;
        if (below(6) == 0)
            value = p | below(0x10000) << 48;
        else if (guard && below(6) == 0)
            value = mangle(p, guard);
        uintptr_t *at = random_word(from);
        write_word(at, value);
        store[stores++] = (struct store){at, value, p};
    }
}

static void free_block(unsigned i)
{
    const struct block *b = &block[i];
    for (unsigned k = 0; k < stores;) {
        struct store *s = &store[k];
        bool inside = (uintptr_t)s->at - b->start < b->bytes;
        if (!inside && s->target - b->start >= b->bytes) {
            k++;
            continue;
        }
        if (!inside && *s->at == s->value) *s->at = 0;
        *s = store[--stores];
    }
    heap_free((void *)b->start);
    block[i] = block[--blocks];
}

static int by_start(const void *a, const void *b)
{
    uintptr_t x = ((const struct block *)a)->start, y = ((const struct block *)b)->start;
    return (x > y) - (x < y);
}

/* The block around an address; a large one also has its end (mark.c). */
static struct block *block_at(uintptr_t p)
{
    unsigned low = 0, high = blocks;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (block[middle].start <= p)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0) return NULL;
    struct block *b = &block[low - 1];
    return p - b->start < b->bytes ? b : NULL;
}

static struct block *ends_at(uintptr_t p)
{
    struct block *b = p % OS_PAGE == 0 ? block_at(p - 1) : NULL;
    return b && b->start + b->bytes == p && p - window_base > WINDOW_LARGE_OFFSET ? b : NULL;
}

static struct block *todo[BLOCKS];
static unsigned todos;

static void reach(struct block *b, bool direct)
{
    if (!b || b->old) return;
    b->direct |= direct;
    if (b->reached) return;
    b->reached = true;
    todo[todos++] = b;
}

static void follow(const struct block *b, bool direct)
{
    for (size_t i = 0; i < b->bytes / 8; i++) {
        uintptr_t w = ((const uintptr_t *)b->start)[i], form[] = {w & MASK48, demangle(w, guard)};
        for (unsigned k = 0; k < (guard ? 2 : 1); k++) {
            if (form[k] - window_base >= WINDOW_BYTES) continue;
            struct block *to = block_at(form[k]);
            reach(to ? to : ends_at(form[k]), direct);
        }
    }
}

/* The blocks that old ones reach, directly and through young ones. */
static void run_model(void)
{
    qsort(block, blocks, sizeof block[0], by_start);
    for (unsigned i = 0; i < blocks; i++) block[i].reached = block[i].direct = false;
    todos = 0;
    for (unsigned i = 0; i < blocks; i++)
        if (block[i].old) follow(&block[i], true);
    while (todos > 0) follow(todo[--todos], false);
}

/* ---- a minor collection without roots ---- */

static bool is_white(const struct white *w, const struct block *b)
{
    struct white_block found;
    must(white_find(w, b->start, &found));
    must(found.start == b->start);
    return white_is(w, &found);
}

static struct mark_stats delivered;
static enum present_way at_best = PRESENT_SCAN;

struct pause {
    bool arm; /* the collection succeeds */
};

/* As in the helper thread that stops the world: with descriptors of its own. */
static void *collect_paused(void *user)
{
    const struct pause *c = user;
    struct present present;
    struct white white;
    struct white_young aged;
    must(unshare(CLONE_FILES) == 0);
    present_start(&present, at_best);
    must(white_make(&white, WHITE_YOUNG));
    struct marker *m = mark_start(&white, guard, &present);
    must(m != NULL);
    must(remember_words(m, &white, guard, &present));
    uintptr_t unseen;
    if (remember_unseen(&present, &unseen) != 0) ck_abort_msg("page %#lx was written unseen", (unsigned long)unseen);
    mark_stats(m, &delivered);
    mark_drain(m);
    unsigned young = 0;
    for (unsigned i = 0; i < blocks; i++) {
        const struct block *b = &block[i];
        if (b->old) continue;
        bool marked = !is_white(&white, b);
        if (marked != b->reached)
            ck_abort_msg("block %#lx of %zu bytes is %s (%s, %s way)", (unsigned long)b->start,
                         b->bytes, marked ? "marked but not reached" : "reached but not marked",
                         b->direct ? "from an old block" : "indirectly",
                         remember_way() == REMEMBER_TRACK ? "tracked" : "swept");
        young++;
    }
    must(white.blocks == young);
    if (c->arm) {
        white_make_old(&aged, NULL);
        must(aged.blocks == young);
        for (unsigned i = 0; i < blocks; i++) block[i].old = true;
        remember_arm(&present);
    }
    mark_end(m);
    white_free(&white);
    present_end(&present);
    return NULL;
}

/* Compares with the model. */
static void collect(bool arm)
{
    struct pause c = {arm};
    pthread_t helper;
    run_model();
    must(pthread_create(&helper, NULL, collect_paused, &c) == 0);
    pthread_join(helper, NULL);
    remember_settle();
}

static bool can_track(void)
{
    struct present present;
    present_start(&present, PRESENT_SCAN);
    track_start(&present);
    track_settle();
    bool can = track_start(&present);
    track_stop();
    track_settle();
    present_end(&present);
    if (!can)
        fprintf(stderr, "no userfaultfd with asynchronous write protection here: not tested\n");
    return can;
}

static void live(unsigned cycles)
{
    for (unsigned i = 0; i < cycles; i++) {
        allocate(100 + (unsigned)below(600));
        for (unsigned n = (unsigned)below(300); n > 0 && blocks > 1000; n--)
            free_block((unsigned)below(blocks));
        store_pointers((unsigned)below(400));
        if (below(8) == 0) heap_trim();
        collect(below(6) != 0);
        must(heap_verify(NULL));
    }
}

/* Both ways, with and without mangled pointers; collections that fail are among them. */
START_TEST(test_ways)
{
    static const struct {
        enum remember_way way;
        uintptr_t guard;
        bool baseline;
    } kind[] = {
        {REMEMBER_SWEEP, 0, false},
        {REMEMBER_SWEEP, 0x9f3c55aa12348877, false},
        {REMEMBER_SWEEP, 0x51, true},
        {REMEMBER_TRACK, 0, false},
        {REMEMBER_TRACK, 0x9f3c55aa12348877, false},
    };
    seed = (uint64_t)_i + 1;
    guard = kind[_i].guard;
    filter_baseline(kind[_i].baseline);
    if (kind[_i].way == REMEMBER_TRACK && !can_track()) return;
    remember_start(kind[_i].way);
    remember_verify(true);
    live(40);
    collect(true);
    ck_assert_int_eq(remember_way(), kind[_i].way);
    /* Nothing is young and nothing old points anywhere new. */
    collect(true);
    ck_assert_uint_eq(delivered.words, 0);
}
END_TEST

static void grow_old(unsigned n)
{
    allocate(n);
    collect(true);
}

/* Words of free slots, of young blocks, and of old ones that point elsewhere are not handed over; that of an old block is, alone. */
START_TEST(test_only_old_words)
{
    remember_start(REMEMBER_SWEEP);
    grow_old(500);
    uintptr_t *old = new_block(64), *freed = new_block(64);
    collect(true);
    uintptr_t *young = new_block(64), *other = new_block(64);
    for (unsigned i = 0; i < 8; i++)
        freed[i] = other[i] = (uintptr_t)young; /* `other` is young and nothing points to it */
    old[1] = block[3].start;
    forget_block(freed);
    heap_free(freed); /* what it held is still there */
    collect(false);
    ck_assert_uint_eq(delivered.words, 0);
    old[2] = (uintptr_t)young + 63;
    collect(false);
    ck_assert_uint_eq(delivered.words, 1);
    old[7] = (uintptr_t)other | (uintptr_t)0xb6 << 56;
    collect(true);
    ck_assert_uint_eq(delivered.words, 2);
}
END_TEST

static size_t present_pages(const void *from, size_t bytes)
{
    static unsigned char in_core[16384];
    size_t n = 0;
    must(bytes / OS_PAGE <= sizeof in_core && mincore((void *)from, bytes, in_core) == 0);
    for (size_t i = 0; i < bytes / OS_PAGE; i++) n += in_core[i] & 1;
    return n;
}

static void aged_without_model(void)
{
    struct present present;
    struct white_young aged;
    present_start(&present, PRESENT_SCAN);
    white_make_old(&aged, NULL);
    remember_arm(&present);
    present_end(&present);
    remember_settle();
}

/* A collection; 1 for the first block if it was marked, and 2 for the other. */
static unsigned marked_of_two(const void *one, const void *two)
{
    struct present present;
    struct white white;
    struct white_block b[2];
    present_start(&present, PRESENT_SCAN);
    must(white_make(&white, WHITE_YOUNG));
    struct marker *m = mark_start(&white, 0, &present);
    must(m && remember_words(m, &white, 0, &present));
    mark_drain(m);
    must(white_find(&white, (uintptr_t)one, &b[0]) && white_find(&white, (uintptr_t)two, &b[1]));
    unsigned marked = !white_is(&white, &b[0]) + 2 * !white_is(&white, &b[1]);
    mark_end(m);
    white_free(&white);
    present_end(&present);
    aged_without_model();
    return marked;
}

/* Pages that are not there stay so: of large blocks that were written in part, and of pools that are free. */
START_TEST(test_absent_pages)
{
    static char *in_pool[64];
    remember_start(_i == 0 ? REMEMBER_SWEEP : REMEMBER_TRACK);
    if (_i == 1 && !can_track()) return;
    char *large = heap_calloc(1, 40 * MIB);
    madvise(large, 40 * MIB, MADV_NOHUGEPAGE);
    large[5 * MIB] = large[30 * MIB] = 1;
    for (unsigned i = 0; i < 64; i++) in_pool[i] = new_block(32 * KIB);
    uintptr_t pools = (uintptr_t)in_pool[0] & ~(uintptr_t)(256 * KIB - 1);
    size_t before = present_pages(large, 40 * MIB);
    ck_assert_uint_le(before, 16); /* the model does not know the block: it would touch all of it */
    aged_without_model();
    for (unsigned i = 0; i < 64; i++) {
        forget_block(in_pool[i]);
        heap_free(in_pool[i]);
    }
    heap_trim();
    size_t in_pools = 0;
    if (mincore((void *)pools, 256 * KIB, (unsigned char[64]){0}) == 0)
        in_pools = present_pages((void *)pools, 256 * KIB);
    for (unsigned cycle = 0; cycle < 3; cycle++) {
        uintptr_t *young = heap_malloc(100), *other = heap_malloc(100);
        memset(young, 0, 100);
        memset(other, 0, 100);
        *(uintptr_t **)(void *)(large + 5 * MIB) = young;
        ck_assert_uint_eq(marked_of_two(young, other), 1);
        ck_assert_uint_eq(present_pages(large, 40 * MIB), before);
        if (mincore((void *)pools, 256 * KIB, (unsigned char[64]){0}) == 0)
            ck_assert_uint_eq(present_pages((void *)pools, 256 * KIB), in_pools);
    }
}
END_TEST

/* Parts that must not be loaded: those that the roots' scan reads in another way, guard regions, and what a kernel does not
   tell apart from them, which is copied. */
START_TEST(test_unloadable)
{
    struct present present;
    struct white white;
    remember_start(REMEMBER_SWEEP);
    uintptr_t *large = heap_calloc(1, 64 * OS_PAGE), *medium = heap_aligned(OS_PAGE, 16 * KIB);
    memset(medium, 0, 16 * KIB);
    madvise(large, 64 * OS_PAGE, MADV_NOHUGEPAGE);
    aged_without_model();
    enum { WORDS = OS_PAGE / 8, KINDS = 6 };
    uintptr_t *young[KINDS];
    for (unsigned i = 0; i < KINDS; i++) young[i] = heap_malloc(40);
    large[3 * WORDS + 1] = (uintptr_t)young[0];    /* on a page that is blind, */
    large[4 * WORDS + 511] = (uintptr_t)young[1];  /* beside it, */
    large[9 * WORDS] = (uintptr_t)young[2];        /* on one that becomes a guard, */
    large[10 * WORDS] = (uintptr_t)young[3];       /* beside it; */
    medium[WORDS + 7] = (uintptr_t)young[4];       /* blind, */
    medium[2 * WORDS - 511] = (uintptr_t)young[5]; /* and with it on one page */
    must(mprotect(large + 3 * WORDS, OS_PAGE, PROT_NONE) == 0);
    must(mprotect(medium + WORDS, OS_PAGE, PROT_NONE) == 0);
    bool guards = madvise(large + 9 * WORDS, OS_PAGE, 102) == 0; /* MADV_GUARD_INSTALL */
    struct ranges blind = {0};
    ranges_add(&blind, (uintptr_t)(large + 3 * WORDS), (uintptr_t)(large + 4 * WORDS));
    ranges_add(&blind, (uintptr_t)(medium + WORDS), (uintptr_t)(medium + 2 * WORDS));
    ranges_settle(&blind);
    for (unsigned copied = 0; copied < 2; copied++) {
        present_start(&present, PRESENT_SCAN);
        must(white_make(&white, WHITE_YOUNG));
        white.blind = &blind;
        struct marker *m = mark_start(&white, 0, &present);
        if (copied) {
            struct sweep *sweep = sweep_begin(m, &white, 0, &present);
            present.swapped = true;
            present.knows_guards = false;
            sweep_pages((uintptr_t)large, (uintptr_t)(large + 64 * WORDS), sweep);
            sweep_pages((uintptr_t)medium, (uintptr_t)(medium + 4 * WORDS), sweep);
            ck_assert_uint_eq(sweep_bytes(sweep), (63 - guards + 3) * OS_PAGE);
            sweep_end(sweep);
        } else {
            ck_assert(remember_words(m, &white, 0, &present));
        }
        mark_drain(m);
        const bool expected[KINDS] = {false, true, !guards, true, false, false};
        for (unsigned i = 0; i < KINDS; i++) {
            struct white_block b;
            must(white_find(&white, (uintptr_t)young[i], &b));
            ck_assert_int_eq(!white_is(&white, &b), expected[i]);
        }
        mark_end(m);
        white_free(&white);
        present_end(&present);
    }
    ranges_free(&blind);
}
END_TEST

struct cover {
    uintptr_t from[4096], to[4096];
    unsigned n;
};

static bool note_range(uintptr_t from, uintptr_t to, void *user)
{
    struct cover *c = user;
    must(c->n < 4096 && from < to);
    must(c->n == 0 || c->to[c->n - 1] <= from);
    must(range_unit(from) == range_unit(to - 1));
    c->from[c->n] = from;
    c->to[c->n++] = to;
    return true;
}

static bool stop_at_third(uintptr_t from, uintptr_t to, void *user)
{
    return ++*(unsigned *)user < 3;
}

/* Every live block lies in ranges, and they are mapped. */
START_TEST(test_ranges)
{
    static struct cover c;
    static unsigned char in_core[RANGE_UNITS];
    for (unsigned round = 0; round < 6; round++) {
        allocate(1000);
        block[blocks].start =
            (uintptr_t)heap_malloc(70 * MIB + round * 65 * MIB); /* over a unit's end */
        block[blocks].bytes = heap_usable_size((void *)block[blocks].start);
        blocks++;
        for (unsigned i = 0; i < 400; i++) free_block((unsigned)below(blocks));
        if (round % 2) heap_trim();
        c.n = 0;
        ck_assert(ranges_each(note_range, &c));
        for (unsigned i = 0; i < blocks; i++) {
            uintptr_t at = block[i].start, end = at + block[i].bytes;
            for (unsigned k = 0; k < c.n && at < end; k++)
                if (at >= c.from[k] && at < c.to[k]) at = c.to[k];
            ck_assert_uint_ge(at, end);
        }
        for (unsigned k = 0; k < c.n; k++)
            for (uintptr_t at = c.from[k]; at < c.to[k]; at += 16 * MIB) {
                size_t n = c.to[k] - at < 16 * MIB ? c.to[k] - at : 16 * MIB;
                ck_assert_int_eq(mincore((void *)at, n, in_core),
                                 0); /* ENOMEM where something is not mapped */
            }
    }
    unsigned calls = 0;
    ck_assert(!ranges_each(stop_at_third, &calls));
    ck_assert_uint_eq(calls, 3);
}
END_TEST

/* ---- tracking and what the program does to it ---- */

static void start_tracking(void)
{
    seed = 77;
    guard = 0;
    remember_start(REMEMBER_TRACK);
    remember_verify(true);
    grow_old(1500);
    live(4);
    collect(true);
    ck_assert_int_eq(remember_way(), REMEMBER_TRACK);
    ck_assert_int_ge(track_descriptor(), 3);
}

/* It is not only called so: what was not written is not read. */
static void must_track(void)
{
    struct remember_stats s;
    for (unsigned i = 0; i < 3; i++) { /* noticed, opened, armed */
        collect(true);
        allocate(5);
    }
    collect(true);
    remember_stats(&s);
    must(remember_way() == REMEMBER_TRACK && s.bytes_scanned * 2 < s.bytes);
}

/* It reads what was written, not everything. */
START_TEST(test_reads_little)
{
    if (!can_track()) return;
    start_tracking();
    char *big = new_block(16 * MIB);
    collect(true);
    allocate(20);
    store_pointers(10);
    big[7 * MIB] = 1;
    collect(true);
    struct remember_stats s;
    remember_stats(&s);
    ck_assert_uint_ge(s.bytes, 16 * MIB);
    ck_assert_uint_le(s.bytes_scanned, 8 * MIB);
    ck_assert_uint_ge(s.bytes_scanned, OS_PAGE);
    ck_assert(s.track_ns_per_page > 0 && s.arm_ns_per_page > 0);
}
END_TEST

static void ignore_pages(uintptr_t from, uintptr_t to, void *unused) {}

/* With `verify` a page that was written and that nobody was told of is noticed: here it is armed again behind the collector's back. */
START_TEST(test_unseen)
{
    if (!can_track()) return;
    start_tracking();
    char *big = new_block(16 * MIB);
    must_track();
    uintptr_t first, at = (uintptr_t)round_up((size_t)big, OS_PAGE), page[2] = {at + 3 * MIB, at + 9 * MIB};
    struct present present;
    present_start(&present, PRESENT_SCAN);
    ck_assert_uint_eq(remember_unseen(&present, &first), 0);
    for (unsigned i = 0; i < 2; i++) {
        ((char *)page[1 - i])[40] = 1;
        ck_assert_uint_eq(remember_unseen(&present, &first), i); /* the kernel knows of it still */
        must(track_read(&present, page[1 - i], page[1 - i] + OS_PAGE, ignore_pages, NULL));
        ck_assert_uint_eq(remember_unseen(&present, &first), i + 1);
        ck_assert_uint_eq(first, page[1 - i]);
    }
    ((char *)page[0])[40] = 0; /* as it was */
    must(track_read(&present, page[0], page[0] + OS_PAGE, ignore_pages, NULL));
    ck_assert_uint_eq(remember_unseen(&present, &first), 1);
    present_end(&present);
}
END_TEST

/* Descriptors that are closed, or become another file. */
START_TEST(test_closed)
{
    if (!can_track()) return;
    start_tracking();
    for (unsigned kind = 0; kind < 3; kind++) {
        int fd = track_descriptor();
        allocate(300);
        store_pointers(200);
        if (kind == 0) ck_assert_int_eq(close(fd), 0);
        if (kind == 1) ck_assert_int_eq(dup2(0, fd), fd);
        if (kind == 2) { /* another one like it */
            long other = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | 1);
            ck_assert_int_ge(other, 0);
            ck_assert_int_eq(dup2((int)other, fd), fd);
            close((int)other);
        }
        store_pointers(100);
        live(2);
        must_track(); /* set up again */
        if (kind > 0)
            ck_assert_int_eq(fcntl(fd, F_GETFD) >= 0, 1); /* the program's was left alone */
        live(3);
    }
}
END_TEST

/* The descriptor lies where a program's are not. */
START_TEST(test_descriptor_is_high)
{
    if (!can_track()) return;
    start_tracking();
    ck_assert_int_ge(track_descriptor(), 900);
    ck_assert_int_eq(fcntl(track_descriptor(), F_GETFD), FD_CLOEXEC);
}
END_TEST

static void end_child(pid_t pid)
{
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}

/* A child tracks by itself, or, if it did not hear of the fork, notices; the parent goes on. */
START_TEST(test_fork)
{
    if (!can_track()) return;
    start_tracking();
    for (unsigned told = 0; told < 2; told++) {
        int fd = track_descriptor();
        allocate(300);
        store_pointers(300);
        pid_t pid = fork();
        if (pid == 0) {
            if (told) {
                remember_fork_child();
                must(fcntl(fd, F_GETFD) < 0);
                must(remember_way() == REMEMBER_SWEEP);
            }
            store_pointers(100);
            live(6);
            must_track();
            live(6);
            _exit(0);
        }
        ck_assert_int_gt(pid, 0);
        store_pointers(100);
        live(1);
        end_child(pid);
        live(6);
        must_track();
    }
}
END_TEST

/* What the heap does with its mappings while they are tracked: it grows, moves large blocks, gives memory back. */
START_TEST(test_mappings_change)
{
    if (!can_track()) return;
    start_tracking();
    void *p = new_block(8 * MIB);
    struct block *b;
    uintptr_t big = (uintptr_t)p;
    collect(true);
    for (unsigned i = 0; i < 12; i++) {
        allocate(300);
        b = block_from(big);
        for (unsigned k = 0; k < 40; k++) {
            uintptr_t *at = random_word(b), to = block[below(blocks)].start;
            *at = to;
            store[stores++] = (struct store){at, to, to};
        }
        if (i % 3 == 1) { /* moved, or grown where it is */
            size_t before = b->bytes;
            p = heap_realloc((void *)big, before + 9 * MIB);
            must(p != NULL);
            for (unsigned k = 0; k < stores; k++)
                if ((uintptr_t)store[k].at - big < before)
                    store[k].at = (uintptr_t *)((uintptr_t)store[k].at - big + (uintptr_t)p);
            if ((uintptr_t)p != big) b->old = heap_is_old(p);
            big = b->start = (uintptr_t)p;
            b->bytes = heap_usable_size(p);
            memset((char *)p + before, 0, b->bytes - before);
        }
        for (unsigned k = 0; k < 200; k++) {
            unsigned victim = (unsigned)below(blocks);
            if (block[victim].start != big) free_block(victim);
        }
        if (i % 4 == 2) heap_trim();
        collect(true);
        ck_assert_int_eq(remember_way(), REMEMBER_TRACK);
    }
}
END_TEST

/* ---- where it cannot be had ---- */

START_TEST(test_refused)
{
    track_refuse(true);
    remember_start(REMEMBER_TRACK);
    seed = 5;
    live(8);
    ck_assert_int_eq(remember_way(), REMEMBER_SWEEP);
    ck_assert_int_eq(track_descriptor(), -1);
}
END_TEST

/* Another filter kills the process for userfaultfd: it is not tried. */
START_TEST(test_filter_kills)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        return;
    remember_start(REMEMBER_TRACK);
    seed = 6;
    live(8);
    ck_assert_int_eq(remember_way(), REMEMBER_SWEEP);
}
END_TEST

/* Without PAGEMAP_SCAN the sweep finds the pages that are there in other ways, and nothing is tracked. */
START_TEST(test_older_kernels)
{
    static const enum present_way best[] = {PRESENT_PAGEMAP, PRESENT_MINCORE};
    at_best = best[_i];
    remember_start(REMEMBER_TRACK);
    seed = 9;
    guard = 0x1234567890abcdef;
    live(10);
    ck_assert_int_eq(remember_way(), REMEMBER_SWEEP);
    ck_assert_int_eq(track_descriptor(), -1);
}
END_TEST

/* Nothing is opened or measured for it. */
START_TEST(test_small_heap)
{
    remember_start(REMEMBER_UNKNOWN);
    for (unsigned i = 0; i < 10; i++) {
        for (unsigned k = 0; k < 10; k++) new_block(100);
        store_pointers(10);
        collect(true);
    }
    ck_assert_int_eq(remember_way(), REMEMBER_SWEEP);
    ck_assert_int_eq(track_descriptor(), -1);
    struct remember_stats s;
    remember_stats(&s);
    ck_assert(s.track_ns_per_page == 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("remember");
    TCase *parts = tcase_create("parts"), *heaps = tcase_create("heaps"),
          *outside = tcase_create("outside");
    tcase_set_timeout(parts, 120);
    tcase_set_timeout(heaps, 300);
    tcase_set_timeout(outside, 300);
    tcase_add_loop_test(parts, test_filter, 0, 2);
    tcase_add_test(parts, test_cost);
    tcase_add_test(parts, test_sample);
    tcase_add_test(parts, test_ranges);
    tcase_add_loop_test(heaps, test_ways, 0, 5);
    tcase_add_test(heaps, test_only_old_words);
    tcase_add_loop_test(heaps, test_absent_pages, 0, 2);
    tcase_add_test(heaps, test_unloadable);
    tcase_add_test(outside, test_reads_little);
    tcase_add_test(outside, test_unseen);
    tcase_add_test(outside, test_closed);
    tcase_add_test(outside, test_descriptor_is_high);
    tcase_add_test(outside, test_fork);
    tcase_add_test(outside, test_mappings_change);
    tcase_add_test(outside, test_refused);
    tcase_add_test(outside, test_filter_kills);
    tcase_add_loop_test(outside, test_older_kernels, 0, 2);
    tcase_add_test(outside, test_small_heap);
    suite_add_tcase(s, parts);
    suite_add_tcase(s, heaps);
    suite_add_tcase(s, outside);
    return suite_run(s);
}
