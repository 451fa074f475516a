/* test-large.c: large blocks: exactness of free and find, reuse, statistics, threads, fork.
   Every case runs in a process of its own (Check forks), so jemalloc starts anew in each.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/large.h"
#include "heap/large_gate.h"
#include "heap/large_map.h"
#include "heap/large_table.h"
#include "heap/os.h"
#include "heap/window.h"
#include "suite.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static void complain(const char *line)
{
    fprintf(stderr, "%s\n", line);
}
#define VERIFY() ck_assert(large_verify(complain))

static void *get(size_t size)
{
    size_t given = 0;
    void *p = large_alloc(size, OS_PAGE, false, &given);
    ck_assert_ptr_nonnull(p);
    ck_assert_uint_ge(given, size);
    ck_assert_uint_eq(given % OS_PAGE, 0);
    ck_assert_uint_eq(large_size(p), given);
    return p;
}

static size_t put(void *p)
{
    uint32_t entry;
    bool old;
    return large_free(p, &entry, &old);
}

static struct large_stats stats(void)
{
    struct large_stats s;
    large_stats(&s);
    return s;
}

static bool filled(const unsigned char *p, size_t n, unsigned char with)
{
    return n == 0 || (p[0] == with && memcmp(p, p + 1, n - 1) == 0);
}

/* A small generator of the test's own, so that runs repeat. */
static uint64_t next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* One size for each path: cached, jemalloc's, direct. */
static const size_t sizes[] = {33 * KIB, 40 * KIB, 64 * KIB + 1, MIB,      MIB + 1,  5 * MIB,
                               25 * MIB, 63 * MIB, 64 * MIB,     65 * MIB, 300 * MIB};
#define N_SIZES (sizeof sizes / sizeof *sizes)

START_TEST(one_block)
{
    size_t size = sizes[_i], given;
    unsigned char *p = large_alloc(size, 16, false, &given);
    ck_assert_ptr_nonnull(p);
    ck_assert_uint_eq((uintptr_t)p % OS_PAGE, 0);
    ck_assert(window_holds(p));
    ck_assert_uint_ge((uintptr_t)p, window_base + WINDOW_LARGE_OFFSET);
    ck_assert_uint_lt((uintptr_t)p + given, window_base + WINDOW_LARGE_OFFSET + WINDOW_LARGE_BYTES);
    p[0] = 1, p[size - 1] = 2, p[given - 1] = 3;
    ck_assert_uint_ge(given, size);
    ck_assert_uint_le(given, size + size / 4 + OS_PAGE); /* four classes a doubling */
    large_set_entry(p, 77);
    ck_assert_uint_eq(large_entry(p), 77);
    VERIFY();
    /* Everything that is not the block's start is refused. */
    ck_assert_uint_eq(put(p + 16), 0);
    ck_assert_uint_eq(put(p + OS_PAGE), 0);
    ck_assert_uint_eq(put(p + given / OS_PAGE / 2 * OS_PAGE), 0);
    ck_assert_uint_eq(put(p + given), 0);
    ck_assert_uint_eq(put(p - OS_PAGE), 0);
    ck_assert_uint_eq(put(&given), 0);
    ck_assert_uint_eq(put(NULL), 0);
    ck_assert_uint_eq(put(large_address(WINDOW_LARGE_BYTES / OS_PAGE - 1)), 0);
    ck_assert_uint_eq(stats().live, 1);
    uint32_t entry;
    bool old = true;
    ck_assert_uint_eq(large_free(p, &entry, &old), given);
    ck_assert_uint_eq(entry, 77);
    ck_assert(!old);
    old = true;
    ck_assert_uint_eq(large_free(p, &entry, &old), 0); /* double */
    ck_assert_uint_eq(entry, 0);
    ck_assert(!old);
    ck_assert_uint_eq(large_size(p), 0);
    ck_assert_uint_eq(large_resize(p, size + MIB), 0);
    struct large_stats s = stats();
    ck_assert_uint_eq(s.live, 0);
    ck_assert_uint_eq(s.live_bytes, 0);
    ck_assert_uint_eq(s.allocated, 1);
    ck_assert_uint_eq(s.allocated_bytes, given);
    p = get(size); /* a fresh block has no entry */
    ck_assert_uint_eq(large_entry(p), 0);
    VERIFY();
}
END_TEST

START_TEST(impossible_sizes)
{
    size_t given;
    ck_assert_ptr_null(large_alloc(PTRDIFF_MAX, 16, false, &given));
    ck_assert_ptr_null(large_alloc((size_t)PTRDIFF_MAX - 5000, 16, false, &given));
    ck_assert_ptr_null(large_alloc(SIZE_MAX, 16, false, &given));
    ck_assert_ptr_null(large_alloc(0, 16, false, &given));
    ck_assert_ptr_null(large_alloc(WINDOW_LARGE_BYTES, 16, false, &given));
    size_t tables = large_table_bytes();
    /* Refused by the system again and again: neither addresses nor tables are used up. */
    rlim_t most = 4 * GIB;
    struct rlimit old, limit = {most, most};
    getrlimit(RLIMIT_AS, &old);
    limit.rlim_max = old.rlim_max;
    if (!SANITIZED && setrlimit(RLIMIT_AS, &limit) == 0) {
        for (int i = 0; i < 100; i++) ck_assert_ptr_null(large_alloc(100 * GIB, 16, false, &given));
        ck_assert_uint_le(large_table_bytes(), tables + 512 * KIB);
        setrlimit(RLIMIT_AS, &old);
    }
    put(get(5 * GIB));
    put(get(40 * KIB));
    VERIFY();
}
END_TEST

START_TEST(alignment)
{
    for (size_t a = 16; a <= GIB; a *= 2) {
        size_t given;
        unsigned char *p = large_alloc(50 * KIB, a, false, &given);
        unsigned char *q = large_alloc(3 * MIB, a, true, &given);
        ck_assert_ptr_nonnull(p);
        ck_assert_ptr_nonnull(q);
        ck_assert_uint_eq((uintptr_t)p % a, 0);
        ck_assert_uint_eq((uintptr_t)q % a, 0);
        p[50 * KIB - 1] = 1;
        ck_assert(filled(q, 3 * MIB, 0));
        VERIFY();
        ck_assert_uint_gt(put(p), 0);
        ck_assert_uint_gt(put(q), 0);
    }
    /* The window's base is a multiple of 64 MiB only: two blocks, as one may lie right by chance. */
    for (size_t a = 2 * GIB; a <= 64 * GIB; a *= 2) {
        size_t given;
        void *p = large_alloc(50 * KIB, a, false, &given), *q = large_alloc(70 * MIB, a, false, &given);
        if (p) ck_assert_uint_eq((uintptr_t)p % a, 0);
        if (q) ck_assert_uint_eq((uintptr_t)q % a, 0);
        ck_assert(a > 8 * GIB || (p && q));
        if (p) ck_assert_uint_gt(put(p), 0);
        if (q) ck_assert_uint_gt(put(q), 0);
    }
    VERIFY();
}
END_TEST

/* Dirty memory that is used again, by whichever path, reads as zero where that is asked for. */
START_TEST(zeroed)
{
    size_t size = sizes[_i] > 70 * MIB ? 70 * MIB : sizes[_i], given;
    for (int round = 0; round < 4; round++) {
        unsigned char *p = large_alloc(size, OS_PAGE, true, &given);
        ck_assert(filled(p, given, 0));
        memset(p, 0xa5, given);
        ck_assert_uint_eq(put(p), given);
        if (round == 2) large_trim();
    }
}
END_TEST

START_TEST(find)
{
    void *block[N_SIZES];
    size_t size;
    void *start;
    for (size_t i = 0; i < N_SIZES; i++) block[i] = get(sizes[i]);
    char *giant = get(3 * GIB); /* of which not a page is touched */
    for (size_t i = 0; i < N_SIZES; i++) {
        char *p = block[i];
        size_t n = large_size(p);
        for (size_t at = 0; at < n; at += n / 97 + 1) {
            ck_assert(large_find(p + at, &start, &size));
            ck_assert_ptr_eq(start, p);
            ck_assert_uint_eq(size, n);
        }
        ck_assert(large_find(p + n - 1, &start, &size));
        ck_assert_ptr_eq(start, p);
    }
    for (size_t at = 0; at < 3 * GIB; at += 1234567) {
        ck_assert(large_find(giant + at, &start, &size));
        ck_assert_ptr_eq(start, giant);
    }
    /* Freed: found no more, and stale names in near[] and far[] mislead nobody. */
    for (size_t i = 0; i < N_SIZES; i++) {
        size_t n = put(block[i]);
        ck_assert(!large_find(block[i], &start, &size));
        ck_assert(!large_find((char *)block[i] + n / 2, &start, &size));
    }
    put(giant);
    for (size_t at = 0; at < 3 * GIB; at += 1234567)
        ck_assert(!large_find(giant + at, &start, &size));
    ck_assert(!large_find(&size, &start, &size));
}
END_TEST

/* Against a model: random allocation, free, resize and move; every address is where the model has
 * it. */
START_TEST(model)
{
    enum { BLOCKS = 60 };
    struct {
        unsigned char *p;
        size_t n;
        unsigned char fill;
    } b[BLOCKS] = {0};
    uint64_t seed = 88172645463325252u + (uint64_t)_i, live = 0;
    for (int step = 0; step < 1500; step++) {
        size_t i = next(&seed) % BLOCKS, given;
        size_t size = 33 * KIB + next(&seed) % ((size_t)1 << (16 + next(&seed) % 8));
        if (!b[i].p) {
            bool zero = next(&seed) % 2;
            b[i].p = large_alloc(size, OS_PAGE, zero, &given);
            ck_assert_ptr_nonnull(b[i].p);
            if (zero) ck_assert(filled(b[i].p, given, 0));
        } else {
            ck_assert_uint_eq(b[i].p[0], b[i].fill);
            ck_assert_uint_eq(b[i].p[b[i].n - 1], b[i].fill);
            live -= b[i].n;
            size_t same, now;
            void *moved;
            switch (next(&seed) % 4) {
            case 0:
                now = large_resize(b[i].p, size);
                given = now ? now : b[i].n;
                ck_assert_uint_eq(given, large_size(b[i].p));
                same = given < b[i].n ? given : b[i].n;
                ck_assert(filled(b[i].p, same, b[i].fill));
                break;
            case 1:
                moved = large_move(b[i].p, size, &given);
                if (moved) {
                    ck_assert(moved != b[i].p);
                    ck_assert_uint_eq(large_size(b[i].p), 0);
                    b[i].p = moved;
                } else {
                    given = b[i].n;
                }
                same = given < b[i].n ? given : b[i].n;
                ck_assert(filled(b[i].p, same, b[i].fill));
                break;
            default:
                ck_assert(filled(b[i].p, b[i].n, b[i].fill));
                ck_assert_uint_eq(put(b[i].p), b[i].n);
                b[i].p = NULL;
                continue;
            }
        }
        b[i].n = given;
        b[i].fill = (unsigned char)next(&seed);
        memset(b[i].p, b[i].fill, given);
        live += given;
        ck_assert_uint_eq(stats().live_bytes, live);
        if (step % 500 == 0) {
            VERIFY();
            large_trim();
        }
    }
    VERIFY();
}
END_TEST

START_TEST(resize_grows_in_place)
{
    /* A direct block has room behind it as long as nobody claims it. */
    unsigned char *p = get(LARGE_DIRECT_MIN);
    p[0] = 1, p[LARGE_DIRECT_MIN - 1] = 2;
    ck_assert_uint_ge(large_resize(p, GIB), GIB);
    ck_assert_uint_eq(p[0], 1);
    ck_assert_uint_eq(p[LARGE_DIRECT_MIN - 1], 2);
    p[GIB - 1] = 3;
    void *start;
    size_t size;
    ck_assert(large_find(p + GIB - 1, &start, &size));
    ck_assert_ptr_eq(start, p);
    ck_assert_uint_ge(large_resize(p, 65 * MIB), 65 * MIB);
    ck_assert(!large_find(p + 900 * MIB, &start, &size));
    VERIFY();
    put(p);
    ck_assert_uint_eq(stats().live_bytes, 0);
}
END_TEST

START_TEST(move_keeps_contents)
{
    unsigned char *p = get(8 * MIB);
    for (size_t i = 0; i < 8 * MIB; i += 512) p[i] = (unsigned char)(i / 4096);
    large_set_entry(p, 5);
    for (size_t n = 10 * MIB; n < 700 * MIB; n = n * 3 / 2) {
        size_t given;
        unsigned char *q = large_move(p, n, &given);
        ck_assert_ptr_nonnull(q);
        ck_assert_uint_ge(given, n);
        ck_assert_uint_eq(large_size(p), 0);
        ck_assert_uint_eq(large_entry(q), 5);
        q[given - 1] = 9;
        p = q;
    }
    for (size_t i = 0; i < 8 * MIB; i += 512) ck_assert_uint_eq(p[i], (unsigned char)(i / 4096));
    VERIFY();
    put(p);
    ck_assert_uint_eq(stats().live, 0);
}
END_TEST

START_TEST(decay)
{
    enum { N = 40 };
    void *p[N];
    const uint64_t second = 1000000000u, decay = 10 * second;
    uint64_t now = 100 * second;
    large_decay(now, decay);
    for (int i = 0; i < N; i++) memset(p[i] = get(MIB + MIB / 2), 1, MIB + MIB / 2);
    for (int i = 0; i < N; i++) put(p[i]);
    for (int i = 0; i < 20; i++) memset(p[i] = get(64 * KIB), 1, 64 * KIB);
    for (int i = 0; i < 20; i++) put(p[i]);
    ck_assert_uint_ge(stats().cached_bytes, N * (MIB + MIB / 2));
    large_decay(now += second, decay); /* too early */
    ck_assert_uint_ge(stats().cached_bytes, N * (MIB + MIB / 2));
    for (int i = 0; i < 4; i++) large_decay(now += decay, decay);
    ck_assert_uint_eq(stats().cached_bytes, 0);
    /* What is needed again and again stays. */
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < N; i++) p[i] = get(MIB + MIB / 2);
        for (int i = 0; i < N; i++) put(p[i]);
        large_decay(now += decay, decay);
        if (round > 0) ck_assert_uint_ge(stats().cached_bytes, N * (MIB + MIB / 2));
    }
    ck_assert(large_trim());
    ck_assert_uint_eq(stats().cached_bytes, 0);
    ck_assert(!large_trim());
    VERIFY();
}
END_TEST

/* Blocks of many sizes come and go: neither memory nor addresses grow without bound. */
START_TEST(addresses_are_reused)
{
    enum { LIVE = 24 };
    void *p[LIVE] = {0};
    uint64_t seed = 1;
    size_t mapped = 0, tables = 0;
    for (int step = 0; step < 8000; step++) {
        size_t i = next(&seed) % LIVE;
        if (p[i]) put(p[i]);
        p[i] = get(33 * KIB + next(&seed) % ((size_t)1 << (16 + next(&seed) % 12)));
        if (step == 4000) mapped = stats().mapped_bytes, tables = large_table_bytes();
    }
    ck_assert_uint_le(stats().mapped_bytes, mapped + mapped / 2);
    ck_assert_uint_le(large_table_bytes(), tables * 2);
    for (int i = 0; i < LIVE; i++)
        if (p[i]) put(p[i]);
    VERIFY();
}
END_TEST

START_TEST(refused_mappings)
{
    void *p[200];
    size_t given;
    for (unsigned skip = 0; skip < 12; skip++) {
        os_fail_mappings(skip, 1000000);
        int n = 0;
        while (n < 200 && (p[n] = large_alloc(3 * MIB, OS_PAGE, false, &given))) n++;
        ck_assert_ptr_null(large_alloc(80 * MIB, OS_PAGE, false, &given));
        ck_assert_int_lt(n, 200);
        os_fail_mappings(0, 0);
        VERIFY();
        while (n > 0) ck_assert_uint_gt(put(p[--n]), 0);
    }
    put(get(3 * MIB));
    put(get(80 * MIB));
    VERIFY();
}
END_TEST

START_TEST(address_limit)
{
    if (SANITIZED) return;
    static void *p[4000];
    struct rlimit old, limit;
    getrlimit(RLIMIT_AS, &old);
    limit = (struct rlimit){400 * MIB, old.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
    size_t given, total = 0, n = 0;
    while (n < 4000 && (p[n] = large_alloc(150 * KIB, OS_PAGE, false, &given))) n++, total += given;
    ck_assert_uint_gt(total, 300 * MIB); /* most of it is to be had */
    for (size_t i = 0; i < n; i++) ck_assert_uint_gt(put(p[i]), 0);
    size_t again = 0;
    for (; again < n && (p[again] = large_alloc(150 * KIB, OS_PAGE, false, &given)); again++) {
    }
    ck_assert_uint_ge(again + n / 100, n); /* but for a table that was mapped meanwhile */
    VERIFY();
    for (size_t i = 0; i < again; i++) put(p[i]);
    /* A block that is nearly all there is goes only without rounding. */
    setrlimit(RLIMIT_AS, &old);
}
END_TEST

/* The program's own jemalloc may be configured: ours does not listen.  With this
   string it would abort. */
START_TEST(malloc_conf_is_not_ours)
{
    setenv("MALLOC_CONF", "abort_conf:true,no_such_option:1", 1);
    ck_assert_uint_gt(put(get(5 * MIB)), 0);
}
END_TEST

/* --- threads --- */

enum { THREADS = 4 };

static void *churn(void *arg)
{
    enum { LIVE = 30 };
    unsigned char *p[LIVE] = {0};
    uint64_t seed = (uint64_t)(uintptr_t)arg * 7919 + 1;
    for (int step = 0; step < 4000; step++) {
        size_t i = next(&seed) % LIVE;
        if (p[i]) {
            if (p[i][0] != (unsigned char)(uintptr_t)arg || !put(p[i])) abort();
            p[i] = NULL;
        } else {
            p[i] = get(33 * KIB + next(&seed) % ((size_t)1 << (15 + next(&seed) % 7)));
            p[i][0] = (unsigned char)(uintptr_t)arg;
        }
    }
    for (size_t i = 0; i < LIVE; i++)
        if (p[i] && !put(p[i])) abort();
    return NULL;
}

START_TEST(threads_churn)
{
    pthread_t t[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, churn, (void *)(i + 1));
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    ck_assert_uint_eq(stats().live, 0);
    ck_assert_uint_eq(stats().live_bytes, 0);
    VERIFY();
}
END_TEST

enum { RACED = 400 };
static void *raced[RACED];
static pthread_barrier_t barrier;

static void *free_all(void *wins)
{
    for (int i = 0; i < RACED; i++) {
        if (i % 40 == 0) pthread_barrier_wait(&barrier);
        if (put(raced[i])) ++*(int *)wins;
    }
    return NULL;
}

/* Three threads free the same blocks: each block is freed once. */
START_TEST(racing_frees)
{
    for (int i = 0; i < RACED; i++) raced[i] = get(sizes[i % 6]);
    pthread_t t[3];
    int wins[3] = {0};
    pthread_barrier_init(&barrier, NULL, 3);
    for (int i = 0; i < 3; i++) pthread_create(&t[i], NULL, free_all, &wins[i]);
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    ck_assert_int_eq(wins[0] + wins[1] + wins[2], RACED);
    ck_assert_uint_eq(stats().live, 0);
    VERIFY();
}
END_TEST

static pthread_key_t key;
static void at_end(void *p)
{
    if (!put(p)) abort();
    put(get(50 * KIB));
    put(get(2 * MIB));
}
static void *short_life(void *arg)
{
    pthread_setspecific(key, get(2 * MIB));
    put(get(40 * KIB));
    return NULL;
}

START_TEST(threads_are_born_and_die)
{
    pthread_key_create(&key, at_end);
    size_t mapped = 0;
    for (int i = 0; i < 1500; i++) {
        pthread_t t[2];
        for (int k = 0; k < 2; k++)
            ck_assert_int_eq(pthread_create(&t[k], NULL, short_life, NULL), 0);
        for (int k = 0; k < 2; k++) pthread_join(t[k], NULL);
        if (i == 300) mapped = stats().mapped_bytes;
    }
    ck_assert_uint_eq(stats().live, 0);
    ck_assert_uint_le(stats().mapped_bytes, mapped + 8 * MIB);
    VERIFY();
}
END_TEST

/* --- fork --- */

static _Atomic bool stop;

static void *churn_until_stopped(void *arg)
{
    uint64_t seed = (uint64_t)(uintptr_t)arg * 104729 + 1;
    void *p[8] = {0};
    while (!atomic_load(&stop)) {
        size_t i = next(&seed) % 8;
        if (p[i] && !put(p[i])) abort();
        p[i] = get(33 * KIB + next(&seed) % (2 * MIB));
        *(char *)p[i] = 1;
    }
    for (int i = 0; i < 8; i++)
        if (p[i] && !put(p[i])) abort();
    return NULL;
}

static int child_works(void *inherited)
{
    alarm(60);
    if (*(char *)inherited != 42 || !put(inherited) || put(inherited)) return 1;
    uint64_t seed = 99;
    void *p[20] = {0};
    for (int step = 0; step < 80; step++) {
        size_t i = next(&seed) % 20, given;
        if (p[i] && !put(p[i])) return 2;
        bool zero = step % 2;
        p[i] = large_alloc(33 * KIB + next(&seed) % (step % 8 ? 300 * KIB : 3 * MIB), OS_PAGE, zero,
                           &given);
        if (!p[i]) return 3;
        if (zero && !filled(p[i], given, 0)) return 4;
        memset(p[i], 7, given);
    }
    for (int i = 0; i < 20; i++)
        if (p[i] && !put(p[i])) return 5;
    return 0;
}

static int status_of(pid_t pid)
{
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

START_TEST(fork_storm)
{
    pthread_t t[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, churn_until_stopped, (void *)(i + 1));
    for (int i = 0; i < 100; i++) {
        char *mine = get(100 * KIB + (size_t)(i % 3) * MIB);
        *mine = 42;
        large_fork_prepare();
        pid_t pid = fork();
        if (pid == 0) {
            large_fork_child(true);
            _exit(child_works(mine));
        }
        large_fork_parent();
        ck_assert_int_gt(pid, 0);
        ck_assert_int_eq(status_of(pid), 0);
        put(mine);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    ck_assert_uint_eq(stats().live, 0);
    VERIFY();
}
END_TEST

/* While a fork is on, other threads are served, and what they free reaches jemalloc afterwards. */
static void *during_fork(void *p)
{
    for (int i = 0; i < 10; i++)
        if (!put(((void **)p)[i])) abort();
    void *q = get(2 * MIB);
    memset(q, 1, 2 * MIB);
    if (!put(q)) abort();
    return NULL;
}

START_TEST(served_while_the_gate_is_closed)
{
    void *p[10];
    for (int i = 0; i < 10; i++) memset(p[i] = get(2 * MIB), 1, 2 * MIB);
    pthread_t t;
    large_fork_prepare();
    pthread_create(&t, NULL, during_fork, p);
    pthread_join(t, NULL); /* it would never return if it waited */
    ck_assert_uint_eq(stats().live, 0);
    ck_assert_uint_eq(stats().cached_bytes, 0); /* jemalloc still counts them as used */
    large_fork_parent();
    ck_assert_uint_eq(stats().cached_bytes, 20 * MIB);
    VERIFY();
}
END_TEST

static void *stay_inside(void *arg)
{
    ck_assert(large_gate_enter());
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    large_gate_leave();
    return NULL;
}

/* A thread that does not come out of jemalloc in time: the child does without it, the parent goes
   on with it. */
START_TEST(gate_that_cannot_be_emptied)
{
    char *mine = get(3 * MIB), *cached = get(64 * KIB);
    *mine = 42;
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_t t;
    pthread_create(&t, NULL, stay_inside, NULL);
    pthread_barrier_wait(&barrier);
    large_fork_prepare();
    pid_t pid = fork();
    if (pid == 0) {
        large_fork_child(true);
        if (!large_gate_broken() || large_gate_enter() || !put(cached)) _exit(50);
        int result = child_works(mine);
        if (result == 0 && (stats().live != 0 || !large_verify(complain))) result = 51;
        _exit(result);
    }
    large_fork_parent();
    pthread_barrier_wait(&barrier);
    pthread_join(t, NULL);
    ck_assert_int_eq(status_of(pid), 0);
    ck_assert(!large_gate_broken());
    ck_assert_uint_gt(put(mine), 0);
    ck_assert_uint_gt(put(cached), 0);
    VERIFY();
}
END_TEST

struct seen {
    unsigned n;
    size_t bytes;
    uint64_t entries;
};
static void count(void *block, size_t size, uint32_t entry, void *user)
{
    struct seen *s = user;
    s->n++;
    s->bytes += size;
    s->entries += entry;
}

START_TEST(each)
{
    struct seen s = {0};
    void *p[N_SIZES];
    for (size_t i = 0; i < N_SIZES; i++) large_set_entry(p[i] = get(sizes[i]), (uint32_t)i + 1);
    put(p[3]);
    large_each(count, &s);
    ck_assert_uint_eq(s.n, N_SIZES - 1);
    ck_assert_uint_eq(s.bytes, stats().live_bytes);
    ck_assert_uint_eq(s.entries, N_SIZES * (N_SIZES + 1) / 2 - 4);
}
END_TEST

/* The claims of several regions, small and large: none within 64 MiB of a multiple of 4 GiB, but what is longer than the rest; none overlap. */
START_TEST(far_from_multiples)
{
    static const size_t chunks[] = {1, 3, 17, 1, 40, 62, 2, 63, 5, 70, 1};
    uint32_t end = 0;
    window_start();
    for (unsigned i = 0; i < 3 * sizeof chunks / sizeof *chunks; i++) {
        size_t bytes = chunks[i % (sizeof chunks / sizeof *chunks)] * LARGE_CHUNK;
        uint32_t page = large_table_claim(bytes);
        ck_assert_uint_ne(page, LARGE_NO_PAGE);
        ck_assert_uint_ge(page, end);
        ck_assert_uint_eq(page % LARGE_CHUNK_PAGES, 0);
        end = page + (uint32_t)(bytes / OS_PAGE);
        uintptr_t from = (uintptr_t)large_address(page), row = from / (4 * GIB);
        if (bytes > 4 * GIB - 2 * LARGE_CHUNK) continue;
        ck_assert_uint_ge(from, row * 4 * GIB + LARGE_CHUNK);
        ck_assert_uint_le(from + bytes, (row + 1) * 4 * GIB - LARGE_CHUNK);
        /* Nor does one grow into such a place. */
        uintptr_t room = ((row + 1) * 4 * GIB - LARGE_CHUNK - from - bytes) / LARGE_CHUNK;
        ck_assert(!large_table_claim_after(end, (room + 1) * LARGE_CHUNK));
        if (room == 0) continue;
        ck_assert(large_table_claim_after(end, LARGE_CHUNK));
        end += LARGE_CHUNK_PAGES;
    }
}
END_TEST

/* What comes first in each quarter has no text's byte, and no 0, above its low half. */
START_TEST(window_is_unlike_data)
{
    window_start();
    for (uintptr_t at = 0; at < WINDOW_BYTES; at += WINDOW_BYTES / 4)
        for (uintptr_t first = window_base + at; first < window_base + at + 32 * GIB; first += 4 * GIB) {
            ck_assert_uint_ge(first >> 40, 0x10);
            ck_assert_uint_lt(first >> 40, 0x20);
            ck_assert_uint_ne(first >> 32 & 0xff, 0);
        }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("large");
    TCase *c = tcase_create("large");
    tcase_set_timeout(c, 300);
    tcase_add_loop_test(c, one_block, 0, N_SIZES);
    tcase_add_test(c, impossible_sizes);
    tcase_add_test(c, alignment);
    tcase_add_loop_test(c, zeroed, 0, N_SIZES);
    tcase_add_test(c, find);
    tcase_add_loop_test(c, model, 0, 2);
    tcase_add_test(c, resize_grows_in_place);
    tcase_add_test(c, move_keeps_contents);
    tcase_add_test(c, decay);
    tcase_add_test(c, addresses_are_reused);
    tcase_add_test(c, refused_mappings);
    tcase_add_test(c, address_limit);
    tcase_add_test(c, malloc_conf_is_not_ours);
    tcase_add_test(c, each);
    tcase_add_test(c, threads_churn);
    tcase_add_test(c, racing_frees);
    tcase_add_test(c, threads_are_born_and_die);
    tcase_add_test(c, fork_storm);
    tcase_add_test(c, served_while_the_gate_is_closed);
    tcase_add_test(c, gate_that_cannot_be_emptied);
    tcase_add_loop_test(c, far_from_multiples, 0, 8);
    tcase_add_loop_test(c, window_is_unlike_data, 0, 64);
    suite_add_tcase(suite, c);
    return suite_run(suite);
}
