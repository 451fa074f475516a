/* test-tracked.c: the table of tracked blocks, alone, in threads, and across forks.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "heap/os.h"
#include "sampler/tracked.h"
#include "suite.h"

#include <check.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *address_of(uint64_t i)
{
    return (void *)(uintptr_t)(0x100000000000u + i * 16);
}

static struct tracked_view view_of(uint64_t i)
{
    return (struct tracked_view){.block = address_of(i),
                                 .asked = i * 1000003 & TRACKED_ASKED_MOST,
                                 .site = (uint32_t)(i * 7 + 1),
                                 .n_samples = (uint32_t)i ^ 0x80000000,
                                 .time = (uint32_t)(i * 31),
                                 .clock = i * 0x3000000007 & (((uint64_t)1 << TRACKED_CLOCK_BITS) - 1),
                                 .thread = (uint16_t)(i * 3),
                                 .flags = (uint16_t)(i & 1)};
}

static bool same(const struct tracked_view *a, const struct tracked_view *b)
{
    return a->block == b->block && a->asked == b->asked && a->site == b->site &&
           a->n_samples == b->n_samples && a->time == b->time && a->clock == b->clock && a->thread == b->thread &&
           a->flags == b->flags;
}

static void count_one(uint32_t entry, const struct tracked_view *v, void *user)
{
    ++*(uint64_t *)user;
}

static uint64_t count_all(void)
{
    uint64_t n = 0;
    tracked_each(count_one, &n);
    return n;
}

START_TEST(entries_keep_what_they_are_told)
{
    enum { N = 40000 }; /* more than two chunks */
    static uint32_t entry[N];
    static bool taken[N * 2];
    struct tracked_cache cache = {0};
    struct tracked_view v, was;
    tracked_start(0);
    for (unsigned i = 0; i < N; i++) {
        v = view_of(i);
        entry[i] = tracked_add(&cache, &v);
        if (entry[i] == 0 || entry[i] >= N * 2 || taken[entry[i]])
            ck_abort_msg("entry %u", entry[i]);
        taken[entry[i]] = true;
    }
    ck_assert_uint_eq(count_all(), N);
    for (unsigned i = 0; i < N; i += 2) {
        v = view_of(i);
        if (!tracked_get(entry[i], &was) || !same(&v, &was)) ck_abort_msg("get %u", i);
        if (!tracked_remove(&cache, entry[i], v.block, &was) || !same(&v, &was))
            ck_abort_msg("%u", i);
        if (tracked_get(entry[i], &was)) ck_abort_msg("%u is still there", i);
    }
    ck_assert_uint_eq(count_all(), N / 2);
    /* Odd ones are as they were; a wrong address, and a free entry, change nothing. */
    for (unsigned i = 0; i < N; i++) {
        if (tracked_remove(&cache, entry[i], address_of(i + 1), &was))
            ck_abort_msg("wrong address %u", i);
        if (i % 2 == 0 && tracked_remove(&cache, entry[i], NULL, &was)) ck_abort_msg("NULL %u", i);
    }
    ck_assert(!tracked_remove(&cache, 0, NULL, &was));
    ck_assert(!tracked_remove(&cache, UINT32_MAX, address_of(1), &was));
    ck_assert(!tracked_get(0, &was) && !tracked_get(UINT32_MAX, &was));
    ck_assert_uint_eq(count_all(), N / 2);
    /* What was freed is used again before new numbers are. */
    struct tracked_stats before, after;
    tracked_stats(&before);
    for (unsigned i = 0; i < N; i += 2) {
        v = view_of(i);
        entry[i] = tracked_add(&cache, &v);
    }
    tracked_stats(&after);
    ck_assert_uint_le(after.used, before.used + 32);
    ck_assert_uint_eq(count_all(), N);
    ck_assert_uint_eq(after.dropped, 0);
}
END_TEST

START_TEST(change_is_seen)
{
    struct tracked_cache cache = {0};
    struct tracked_view v = view_of(5), was;
    tracked_start(0);
    uint32_t e = tracked_add(&cache, &v);
    v.asked = 77;
    v.site = 78;
    v.n_samples = 79;
    v.flags = TRACKED_RESIZED;
    tracked_change(e, &v);
    ck_assert(tracked_get(e, &was) && same(&v, &was));
}
END_TEST

START_TEST(a_full_table_says_so_and_recovers)
{
    struct tracked_cache cache = {0};
    struct tracked_view v, was;
    struct tracked_stats stats;
    uint32_t entry[1000], n = 0;
    tracked_start(1000 * 32);
    tracked_stats(&stats);
    ck_assert_uint_eq(stats.limit, 1000);
    for (unsigned i = 0; i < 1500; i++) {
        v = view_of(i);
        uint32_t e = tracked_add(&cache, &v);
        if (e) {
            ck_assert_uint_lt(n, 999); /* number 0 is not used */
            entry[n++] = e;
        }
    }
    ck_assert_uint_eq(n, 999);
    tracked_stats(&stats);
    ck_assert_uint_eq(stats.dropped, 501);
    ck_assert(tracked_remove(&cache, entry[500], address_of(500), &was));
    v = view_of(2000);
    ck_assert_uint_eq(tracked_add(&cache, &v), entry[500]);
    ck_assert_uint_eq(tracked_add(&cache, &v), 0);
}
END_TEST

START_TEST(no_memory_is_a_full_table)
{
    struct tracked_cache cache = {0};
    struct tracked_view v = view_of(1);
    tracked_start(0);
    os_fail_mappings(0, 1000);
    ck_assert_uint_eq(tracked_add(&cache, &v), 0);
    os_fail_mappings(0, 0);
    ck_assert_uint_ne(tracked_add(&cache, &v), 0);
}
END_TEST

START_TEST(threads_without_a_cache)
{
    struct tracked_cache cache = {0};
    struct tracked_view v, was;
    uint32_t entry[200];
    tracked_start(0);
    for (unsigned round = 0; round < 20; round++) {
        for (unsigned i = 0; i < 200; i++) {
            v = view_of(i);
            entry[i] = tracked_add(i % 2 ? NULL : &cache, &v);
            ck_assert_uint_ne(entry[i], 0);
        }
        ck_assert_uint_eq(count_all(), 200);
        for (unsigned i = 0; i < 200; i++)
            ck_assert(tracked_remove(i % 3 ? &cache : NULL, entry[i], address_of(i), &was));
        ck_assert_uint_eq(count_all(), 0);
    }
    struct tracked_stats stats;
    tracked_stats(&stats);
    ck_assert_uint_lt(stats.used, 200 + 128);
}
END_TEST

/* Threads hand entries to each other: each adds to a shared board and removes what another put
   there. Every removal must find what the addition said; in the end nothing is left. */

#define BOARD 4096
static _Atomic uint64_t board[BOARD]; /* entry << 32 | block index; 0: empty */
static atomic_bool stop_storm;
static _Atomic uint64_t wrong;
static unsigned long storm_steps = 200000;

static void storm_step(struct tracked_cache *cache, uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    uint32_t index = (uint32_t)(*seed >> 33) | 1;
    struct tracked_view v = view_of(index), was;
    uint64_t e = tracked_add(cache, &v), mine = e << 32 | index;
    if (e == 0) return;
    uint64_t other = atomic_exchange(&board[*seed >> 20 & (BOARD - 1)], mine);
    if (other == 0) return;
    struct tracked_view expected = view_of((uint32_t)other);
    if (!tracked_remove(cache, (uint32_t)(other >> 32), expected.block, &was) ||
        !same(&expected, &was))
        atomic_fetch_add(&wrong, 1);
}

static void clear_board(struct tracked_cache *cache)
{
    for (unsigned i = 0; i < BOARD; i++) {
        uint64_t other = atomic_exchange(&board[i], 0);
        struct tracked_view expected = view_of((uint32_t)other), was;
        if (other && !(tracked_remove(cache, (uint32_t)(other >> 32), expected.block, &was) &&
                       same(&expected, &was)))
            atomic_fetch_add(&wrong, 1);
    }
}

static void *storm(void *arg)
{
    struct tracked_cache *cache = arg;
    uint64_t seed = (uintptr_t)cache;
    for (unsigned long i = 0; i < storm_steps && !atomic_load(&stop_storm); i++)
        storm_step(cache, &seed);
    return NULL;
}

START_TEST(threads_conserve_entries)
{
    static struct tracked_cache cache[5];
    pthread_t thread[4];
    tracked_start(0);
    for (unsigned i = 0; i < 4; i++) pthread_create(&thread[i], NULL, storm, &cache[i]);
    for (unsigned i = 0; i < 4; i++) pthread_join(thread[i], NULL);
    clear_board(&cache[4]);
    ck_assert_uint_eq(wrong, 0);
    ck_assert_uint_eq(count_all(), 0);
    struct tracked_stats stats;
    tracked_stats(&stats);
    /* Live at once: the board and one a thread; the rest may lie in caches and batches. */
    ck_assert_uint_le(stats.used, BOARD + 4 + 5 * 64 + 5 * 32);
}
END_TEST

/* A child of a storm: the board says which entries it may find; of some the entry's page may be
   older, then removal says no.  It must then be able to go on with fresh blocks, each entry given
   once, and the free entries of the parent must be found again. */
static int child_of_storm(void)
{
    enum { N = 20000 };
    static uint32_t entry[N];
    static unsigned char given[1 << 20];
    struct tracked_cache cache[2] = {{0}, {0}};
    struct tracked_view v, was;
    struct tracked_stats before, after;
    tracked_fork_child();
    tracked_stats(&before);
    for (unsigned i = 0; i < BOARD; i++) {
        uint64_t other = atomic_load(&board[i]);
        struct tracked_view expected = view_of((uint32_t)other);
        if (other && tracked_remove(&cache[i % 2], (uint32_t)(other >> 32), expected.block, &was) &&
            !same(&expected, &was))
            return 2;
    }
    uint64_t left = count_all(); /* in flight in the parent's threads */
    for (unsigned round = 0; round < 3; round++) {
        memset(given, 0, sizeof given);
        for (unsigned i = 0; i < N; i++) {
            v = view_of(0x80000000u + i);
            entry[i] = tracked_add(&cache[i % 2], &v);
            if (entry[i] == 0 || entry[i] >= sizeof given || given[entry[i]]++) return 3;
        }
        if (count_all() != N + left) return 4;
        for (unsigned i = 0; i < N; i++)
            if (!tracked_remove(&cache[i % 3 != 0], entry[i], address_of(0x80000000u + i), &was))
                return 5;
        if (count_all() != left) return 6;
    }
    tracked_stats(&after);
    /* The parent's entries were used again: only what passes its high-water mark is new. */
    uint64_t most = before.used > N ? before.used : N;
    return after.used > most + left + 256 ? 7 : 0;
}

START_TEST(children_of_a_storm_go_on)
{
    static struct tracked_cache cache[4];
    pthread_t thread[3];
    tracked_start(0);
    storm_steps = ULONG_MAX;
    for (unsigned i = 0; i < 3; i++) pthread_create(&thread[i], NULL, storm, &cache[i]);
    for (unsigned forks = 0; forks < 30; forks++) {
        pid_t pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0) _exit(child_of_storm());
        int status;
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child %u: status %x", forks,
                      status);
    }
    atomic_store(&stop_storm, true);
    for (unsigned i = 0; i < 3; i++) pthread_join(thread[i], NULL);
    clear_board(&cache[3]);
    ck_assert_uint_eq(wrong, 0);
    ck_assert_uint_eq(count_all(), 0);
}
END_TEST

/* What a child finds free must be in one place only: entries that a cache of the parent still names, and
   entries that the child has freed itself, are not found a second time by the sweep. */
START_TEST(a_child_gives_each_entry_once)
{
    enum { N = 300 };
    static bool taken[10000];
    struct tracked_cache parent = {0}, first = {0}, second = {0};
    struct tracked_view v, was;
    uint32_t entry[N];
    tracked_start(0);
    for (unsigned i = 0; i < N; i++) {
        v = view_of(i);
        entry[i] = tracked_add(&parent, &v);
    }
    for (unsigned i = 0; i < 60; i++) ck_assert(tracked_remove(&parent, entry[i], address_of(i), &was));
    ck_assert_uint_ge(parent.count, 32);
    tracked_fork_child();
    for (unsigned i = 60; i < 180; i++) ck_assert(tracked_remove(&first, entry[i], address_of(i), &was));
    ck_assert_uint_ge(first.count, 32);
    for (unsigned i = 180; i < N; i++) taken[entry[i]] = true;
    struct tracked_cache *order[] = {&second, &parent, &first};
    for (unsigned c = 0; c < 3; c++)
        for (unsigned i = 0; i < 200; i++) {
            v = view_of(1000 + 200 * c + i);
            uint32_t e = tracked_add(order[c], &v);
            ck_assert(e > 0 && e < 10000);
            if (taken[e]) ck_abort_msg("entry %u twice, cache %u", e, c);
            taken[e] = true;
        }
    ck_assert_uint_eq(count_all(), N - 180 + 600);
}
END_TEST

/* Forks of forks: each generation finds all free entries of the one before, nothing is lost. */
START_TEST(generations_lose_nothing)
{
    struct tracked_cache cache = {0};
    struct tracked_view v, was;
    uint32_t entry[3000];
    tracked_start(3000 * 32);
    for (unsigned generation = 0; generation < 50; generation++) {
        for (unsigned i = 1; i < 3000; i++) {
            v = view_of(i);
            entry[i] = tracked_add(&cache, &v);
            if (entry[i] == 0) ck_abort_msg("generation %u has %u entries", generation, i);
        }
        for (unsigned i = 1; i < 3000; i++)
            if (!tracked_remove(&cache, entry[i], address_of(i), &was)) ck_abort_msg("%u", i);
        tracked_fork_child();
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("tracked");
    TCase *t = tcase_create("tracked");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, entries_keep_what_they_are_told);
    tcase_add_test(t, change_is_seen);
    tcase_add_test(t, a_full_table_says_so_and_recovers);
    tcase_add_test(t, no_memory_is_a_full_table);
    tcase_add_test(t, threads_without_a_cache);
    tcase_add_test(t, threads_conserve_entries);
    tcase_add_test(t, children_of_a_storm_go_on);
    tcase_add_test(t, a_child_gives_each_entry_once);
    tcase_add_test(t, generations_lose_nothing);
    suite_add_tcase(s, t);
    return suite_run(s);
}
