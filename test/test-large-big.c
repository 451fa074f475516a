/* Big blocks: spans fit, meet and keep their pages; blocks grow where they are; what is given back is what was unused
   longest, and no more than was not needed.  By large_alloc and large_free, as everybody calls them.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/large.h"
#include "heap/large_big.h"
#include "heap/large_gate.h"
#include "heap/large_keep.h"
#include "heap/large_map.h"
#include "heap/os.h"
#include "suite.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PERIOD 1000000000u /* the tests' decay time; their clock is a number */

static void complain(const char *line) { fprintf(stderr, "%s\n", line); }
#define VERIFY() ck_assert(large_verify(complain))

static void *get(size_t size)
{
    size_t given = 0;
    void *p = large_alloc(size, OS_PAGE, false, &given);
    ck_assert_ptr_nonnull(p);
    ck_assert_uint_ge(given, size);
    return p;
}

static void *get_filled(size_t size, int with) { return memset(get(size), with, size); }

static void put(void *p)
{
    uint32_t entry;
    bool old;
    ck_assert_uint_gt(large_free(p, &entry, &old), 0);
}

static uint64_t unused(void)
{
    uint64_t used, n;
    big_counts(&used, &n);
    return n;
}

static size_t resident(const void *p, size_t bytes)
{
    static unsigned char there[256 * MIB / OS_PAGE];
    size_t n = 0, pages = bytes / OS_PAGE;
    ck_assert_uint_le(pages, sizeof there);
    ck_assert_int_eq(mincore((void *)(uintptr_t)p, bytes, there), 0);
    for (size_t i = 0; i < pages; i++) n += there[i] & 1;
    return n * OS_PAGE;
}

/* A block costs whole spans, not a class. */
START_TEST(no_more_than_asked_for)
{
    for (size_t size = BIG_MIN; size < 200 * MIB; size = size * 9 / 8 + 12345) {
        size_t given;
        void *p = large_alloc(size, OS_PAGE, false, &given);
        ck_assert_uint_ge(given, size);
        ck_assert_uint_lt(given, size + SPAN_BYTES);
        put(p);
        VERIFY();
    }
}
END_TEST

/* Of the free spans the one that fits best is taken, and its pages are there. */
START_TEST(best_fit)
{
    static const size_t sizes[] = {9, 6, 12, 5, 7}; /* MiB */
    char *block[5], *between[5];
    for (unsigned i = 0; i < 5; i++) {
        block[i] = get_filled(sizes[i] * MIB, 1);
        between[i] = get(4 * MIB);
    }
    for (unsigned i = 0; i < 5; i++) put(block[i]);
    for (unsigned i = 0; i < 5; i++) ck_assert_uint_eq(resident(block[i], sizes[i] * MIB), sizes[i] * MIB);
    ck_assert_ptr_eq(get(6 * MIB + 512 * KIB), block[4]);
    ck_assert_ptr_eq(get(10 * MIB), block[2]);
    ck_assert_ptr_eq(get(5 * MIB), block[3]);
    ck_assert_ptr_eq(get(8 * MIB), block[0]);
    ck_assert_ptr_eq(get(6 * MIB), block[1]);
    VERIFY();
    (void)between;
}
END_TEST

/* Freed neighbours become one span, in whichever order they are freed. */
START_TEST(neighbours_meet)
{
    static const unsigned order[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (unsigned o = 0; o < 6; o++) {
        char *block[3];
        for (unsigned i = 0; i < 3; i++) block[i] = get_filled(6 * MIB, 1);
        char *end = get(4 * MIB); /* so that nothing fresh joins */
        ck_assert_ptr_eq(block[1], block[0] + 6 * MIB);
        ck_assert_ptr_eq(block[2], block[0] + 12 * MIB);
        for (unsigned i = 0; i < 3; i++) put(block[order[o][i]]);
        VERIFY();
        ck_assert_uint_eq(unused(), 18 * MIB);
        char *all = get(18 * MIB);
        ck_assert_ptr_eq(all, block[0]);
        ck_assert_uint_eq(unused(), 0);
        put(all);
        put(end);
        large_trim();
    }
}
END_TEST

/* A block that no free span holds takes the last one and only what that lacks. */
START_TEST(fresh_pages_continue_free_ones)
{
    char *low = get(6 * MIB), *last = get_filled(20 * MIB, 1);
    put(last);
    char *p = get(28 * MIB);
    ck_assert_ptr_eq(p, last);
    ck_assert_uint_eq(resident(p, 28 * MIB), 20 * MIB);
    VERIFY();
    put(low);
    put(p);
}
END_TEST

/* Zeroed blocks read as zero, of whatever pages they are made. */
START_TEST(zeroed_across_kinds)
{
    size_t given;
    char *p = get_filled(20 * MIB, 7);
    put(p);
    char *z = large_alloc(28 * MIB, OS_PAGE, true, &given);
    ck_assert_ptr_eq(z, p);
    for (size_t i = 0; i < 28 * MIB; i++)
        if (z[i] != 0) ck_abort_msg("byte %zu is not zero", i);
    put(z);
}
END_TEST

START_TEST(aligned)
{
    void *block[24];
    unsigned n = 0;
    put(get(5 * MIB));
    for (size_t align = 64 * KIB; align <= BIG_ALIGN_MAX; align *= 2)
        for (unsigned i = 0; i < 2; i++) {
            size_t given;
            block[n] = large_alloc((5 + i * 7) * MIB, align, false, &given);
            ck_assert_uint_eq((uintptr_t)block[n++] % align, 0);
            VERIFY();
        }
    while (n > 0) put(block[--n]);
    VERIFY();
}
END_TEST

/* A block grows into the free span behind it and the clean one behind that, and shrinks by giving its tail back. */
START_TEST(resized_in_place)
{
    char *p = get_filled(8 * MIB, 1), *next = get_filled(8 * MIB, 2), *third = get(8 * MIB);
    ck_assert_uint_eq(large_resize(p, 9 * MIB), 0);
    put(next);
    ck_assert_uint_eq(large_resize(p, 12 * MIB), 12 * MIB);
    ck_assert_uint_eq(resident(p, 12 * MIB), 12 * MIB); /* no page was lost */
    ck_assert_uint_eq(large_resize(p, 16 * MIB), 16 * MIB);
    ck_assert_uint_eq(large_resize(p, 17 * MIB), 0);
    put(third);
    ck_assert_uint_eq(large_resize(p, 40 * MIB), 40 * MIB); /* beyond what was ever mapped */
    ck_assert_uint_eq(p[8 * MIB - 1], 1);
    VERIFY();
    ck_assert_uint_eq(large_resize(p, 10 * MIB), 10 * MIB);
    ck_assert_ptr_eq(get(20 * MIB), p + 10 * MIB);
    VERIFY();
}
END_TEST

/* Where memory with its pages lies unused a grown block is copied there, else its pages are moved; either way it has room
   to grow again. */
START_TEST(moved)
{
    size_t given;
    char *p = get_filled(8 * MIB, 3), *next = get(8 * MIB);
    large_set_entry(p, 77);
    char *q = large_move(p, 9 * MIB, &given);
    ck_assert_ptr_nonnull(q);
    ck_assert_uint_eq(given, large_class_bytes(9 * MIB));
    ck_assert_uint_eq(large_entry(q), 77);
    ck_assert_uint_eq(resident(q, 8 * MIB), 8 * MIB);
    for (size_t i = 0; i < 8 * MIB; i += 64) ck_assert_uint_eq((unsigned char)q[i], 3);
    ck_assert_uint_eq(unused(), 0); /* what is left has no pages */
    VERIFY();
    ck_assert_uint_eq(large_resize(q, given), given);
    char *end = get(4 * MIB);
    put(next);
    put(get_filled(30 * MIB, 1));
    ck_assert_ptr_null(large_move(q, 14 * MIB, &given)); /* 30 MiB of pages lie there */
    ck_assert_uint_gt(large_size(q), 0);
    VERIFY();
    put(q);
    put(end);
}
END_TEST

/* Blocks of 5 to 25 MiB that replace each other use the same pages: hardly any is touched for the first time, and what
   lies unused is bounded. */
START_TEST(replacing_uses_the_same_pages)
{
    char *block[6] = {0};
    size_t size[6] = {0};
    uint64_t state = 88172645463325252u, all = 0, fresh = 0, live = 0;
    for (unsigned n = 0; n < 600; n++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        unsigned i = state % 6;
        if (block[i]) put(block[i]);
        live -= size[i];
        size[i] = 5 * MIB + (state >> 8) % (20 * MIB) / SPAN_BYTES * SPAN_BYTES;
        live += size[i];
        block[i] = get(size[i]);
        if (n >= 100) {
            all += size[i];
            fresh += size[i] - resident(block[i], size[i]);
        }
        ck_assert_uint_le(unused(), large_most_freed(live) + 2 * MIB);
        for (size_t at = 0; at < size[i]; at += OS_PAGE) block[i][at] = 1;
    }
    VERIFY();
    ck_assert_uint_le(fresh, all / 20);
    for (unsigned i = 0; i < 6; i++) put(block[i]);
}
END_TEST

/* What lay unused for a period goes, what was needed meanwhile stays; the oldest goes first. */
START_TEST(decay_gives_back_the_oldest)
{
    char *block[4], *between[4], *large = get(200 * MIB); /* so that 40 MiB unused are worth keeping */
    for (unsigned i = 0; i < 4; i++) {
        block[i] = get_filled(10 * MIB, 1);
        between[i] = get(4 * MIB);
    }
    large_decay(PERIOD, PERIOD);
    for (unsigned i = 0; i < 4; i++) put(block[i]);
    large_decay(2 * PERIOD, PERIOD); /* a period begins with 40 MiB unused */
    ck_assert_uint_eq(unused(), 40 * MIB);
    char *again = get(10 * MIB), *twice = get(10 * MIB); /* 20 MiB were needed in it */
    put(again);
    put(twice);
    large_decay(3 * PERIOD - 1, PERIOD);
    ck_assert_uint_eq(unused(), 40 * MIB);
    large_decay(3 * PERIOD, PERIOD);
    ck_assert_uint_eq(unused(), 20 * MIB);
    size_t there = 0;
    for (unsigned i = 0; i < 4; i++) {
        size_t n = resident(block[i], 10 * MIB);
        ck_assert(n == 0 || n == 10 * MIB);
        if (block[i] == again || block[i] == twice) ck_assert_uint_eq(n, 10 * MIB);
        there += n;
    }
    ck_assert_uint_eq(there, 20 * MIB);
    VERIFY();
    large_decay(4 * PERIOD, PERIOD);
    ck_assert_uint_eq(unused(), 0);
    VERIFY();
    put(large);
    (void)between;
}
END_TEST

/* What exceeds what is worth keeping goes in an eighth of the time, down to that. */
START_TEST(excess_goes_sooner)
{
    char *keep = get(8 * MIB), *much = get_filled(60 * MIB, 1); /* 12 MiB are worth keeping */
    put(much);
    large_decay(PERIOD, PERIOD);
    large_decay(PERIOD + PERIOD / 8, PERIOD);
    ck_assert_uint_le(unused(), large_worth_keeping(8 * MIB) + 2 * MIB);
    ck_assert_uint_ge(unused(), large_worth_keeping(8 * MIB) - 2 * MIB);
    VERIFY();
    put(keep);
}
END_TEST

/* A program that frees much and stops: not all of it stays. */
START_TEST(freed_at_once)
{
    char *block[4];
    for (unsigned i = 0; i < 4; i++) block[i] = get_filled(60 * MIB, 1);
    for (unsigned i = 0; i < 4; i++) put(block[i]);
    ck_assert_uint_le(unused(), large_most_freed(0) + 2 * MIB);
    size_t there = 0;
    for (unsigned i = 0; i < 4; i++) there += resident(block[i], 60 * MIB);
    ck_assert_uint_eq(there, unused());
    VERIFY();
    large_trim();
    ck_assert_uint_eq(unused(), 0);
    VERIFY();
}
END_TEST

/* Where addresses are scarce what is given back is unmapped, and its addresses serve again. */
START_TEST(scarce_addresses)
{
    large_save_addresses();
    struct large_stats s;
    char *keep = get(5 * MIB);
    for (unsigned i = 0; i < 20; i++) {
        char *p = get_filled(50 * MIB, 1), *q = get_filled(30 * MIB, 1);
        put(p);
        put(q);
        large_trim();
        large_stats(&s);
        ck_assert_uint_le(s.mapped_bytes, 16 * MIB);
        VERIFY();
    }
    put(keep);
}
END_TEST

/* Every mapping on the way may be refused. */
START_TEST(refused)
{
    for (unsigned skip = 0; skip < 8; skip++) {
        size_t given;
        os_fail_mappings(skip, 100);
        void *p = large_alloc(9 * MIB, OS_PAGE, false, &given), *q = large_alloc(70 * MIB, OS_PAGE, false, &given);
        if (p) {
            memset(p, 1, 9 * MIB);
            large_resize(p, 80 * MIB);
        }
        os_fail_mappings(0, 0);
        VERIFY();
        if (p) put(p);
        if (q) put(q);
        VERIFY();
        large_trim();
    }
    put(get(9 * MIB));
}
END_TEST

/* ---- threads ---- */

#define THREADS 6
#define SLOTS 24

static _Atomic(unsigned char *) slots[SLOTS];

/* Blocks wander from thread to thread; each page's first byte says what it must. */
static void *exchange(void *arg)
{
    uint64_t state = 0x9e3779b97f4a7c15u * ((uintptr_t)arg + 1);
    for (unsigned n = 0; n < 1500; n++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        size_t size = 4 * MIB + (state >> 20) % (4 * MIB), given;
        unsigned char mark = (unsigned char)(state >> 50 | 1);
        unsigned char *p = large_alloc(size, OS_PAGE, n % 8 == 0, &given);
        if (!p) ck_abort_msg("out of memory");
        if (n % 8 == 0 && (p[0] || p[size / 2] || p[size - 1])) ck_abort_msg("a zeroed block is not zero");
        if (n % 4 == 1) {
            size_t now = large_resize(p, size + MIB);
            if (now) given = now;
        }
        for (size_t at = 0; at < given; at += 256 * KIB) p[at] = mark;
        p[given - 1] = mark;
        p = atomic_exchange(&slots[state % SLOTS], p);
        if (!p) continue;
        given = large_size(p);
        for (size_t at = 0; at < given; at += 256 * KIB)
            if (p[at] != p[given - 1]) ck_abort_msg("a block changed hands and contents");
        uint32_t entry;
        bool old;
        if (large_free(p, &entry, &old) != given) ck_abort_msg("a block of another size was freed");
        if (n % 64 == 0) large_decay(n * 1000u, 1000);
    }
    return NULL;
}

START_TEST(threads_exchange_blocks)
{
    pthread_t t[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, exchange, (void *)i);
    for (unsigned i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    VERIFY();
    for (unsigned i = 0; i < SLOTS; i++)
        if (slots[i]) put(slots[i]);
    VERIFY();
    struct large_stats s;
    large_stats(&s);
    ck_assert_uint_eq(s.live, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("big blocks");
    TCase *t = tcase_create("big blocks");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, no_more_than_asked_for);
    tcase_add_test(t, best_fit);
    tcase_add_test(t, neighbours_meet);
    tcase_add_test(t, fresh_pages_continue_free_ones);
    tcase_add_test(t, zeroed_across_kinds);
    tcase_add_test(t, aligned);
    tcase_add_test(t, resized_in_place);
    tcase_add_test(t, moved);
    tcase_add_test(t, replacing_uses_the_same_pages);
    tcase_add_test(t, decay_gives_back_the_oldest);
    tcase_add_test(t, excess_goes_sooner);
    tcase_add_test(t, freed_at_once);
    tcase_add_test(t, scarce_addresses);
    tcase_add_test(t, refused);
    tcase_add_test(t, threads_exchange_blocks);
    suite_add_tcase(s, t);
    return suite_run(s);
}
