/* test-site.c: sites: their table, their counters, peaks, forks, threads.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "heap/os.h"
#include "sampler/site.h"
#include "suite.h"

#include <check.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* The view of one site, by its stack, size and source. */
struct wanted {
    uint32_t stack;
    size_t given;
    enum heap_source source;
    struct site_view found;
    unsigned times;
};

static void look(const struct site_view *v, void *user)
{
    struct wanted *w = user;
    if (v->stack != w->stack || v->source != w->source) return;
    if (v->stack != 0 && v->given != w->given) return;
    w->found = *v;
    w->times++;
}

static struct site_view view(uint32_t stack, size_t given, enum heap_source source)
{
    struct wanted w = {.stack = stack, .given = given, .source = source};
    site_each(look, &w);
    ck_assert_uint_le(w.times, 1);
    return w.found;
}

struct sums {
    struct site_count allocated, live, peak;
    uint64_t sites;
};

static void add_up(const struct site_view *v, void *user)
{
    struct sums *s = user;
    s->allocated.n += v->allocated.n;
    s->allocated.blocks += v->allocated.blocks;
    s->live.n += v->live.n;
    s->live.blocks += v->live.blocks;
    s->peak.n += v->peak.n;
    s->peak.blocks += v->peak.blocks;
    s->sites++;
}

static struct sums sums(void)
{
    struct sums s = {.sites = 0};
    site_each(add_up, &s);
    return s;
}

/* What the sampler does for a block, without keeping anything back. */
static void make(uint32_t site, size_t given, uint64_t n)
{
    site_allocated(site, given, n);
    site_live_changed((int64_t)n);
}

static void end(uint32_t site, size_t given, uint64_t n)
{
    site_freed(site, given, n);
    site_live_changed(-(int64_t)n);
}

START_TEST(a_site_is_stack_size_and_source)
{
    ck_assert(site_start(false));
    uint32_t a = site_find(10, 32, HEAP_MALLOC, 0), b = site_find(10, 48, HEAP_MALLOC, 0),
             c = site_find(10, 32, HEAP_CALLOC, 0), d = site_find(11, 32, HEAP_MALLOC, 0);
    uint32_t all[] = {a, b, c, d};
    for (unsigned i = 0; i < 4; i++) {
        ck_assert_uint_ne(all[i], SITE_DROPPED);
        for (unsigned j = 0; j < i; j++) ck_assert_uint_ne(all[i], all[j]);
    }
    ck_assert_uint_eq(site_find(10, 32, HEAP_MALLOC, 0), a);
    ck_assert_uint_eq(site_find(11, 32, HEAP_MALLOC, 0), d);
    ck_assert_uint_eq(site_given(b), 48);
    ck_assert_uint_eq(site_stack(d), 11);
    ck_assert_int_eq(site_source(c), HEAP_CALLOC);
    /* Another thread's shard: a site of its own, of the same stack, size and source. */
    uint32_t e = site_find(10, 32, HEAP_CALLOC, SITE_SHARDS - 1);
    ck_assert_uint_ne(e, c);
    ck_assert_uint_eq(site_find(10, 32, HEAP_CALLOC, SITE_SHARDS - 1), e);
    ck_assert_uint_eq(site_stack(e), 10);
    ck_assert_uint_eq(site_given(e), 32);
    ck_assert_int_eq(site_source(e), HEAP_CALLOC);
    make(a, 32, 3);
    make(a, 32, 1);
    end(a, 32, 3);
    struct site_view v = view(10, 32, HEAP_MALLOC);
    ck_assert_uint_eq(v.site, a);
    ck_assert_uint_eq(v.allocated.n, 4);
    ck_assert_uint_eq(v.allocated.blocks, 2);
    ck_assert_uint_eq(v.live.n, 1);
    ck_assert_uint_eq(v.live.blocks, 1);
    ck_assert_uint_eq(sums().sites, 1); /* the others have nothing to show */
}
END_TEST

START_TEST(where_every_word_counts_points_follow_from_blocks)
{
    ck_assert(site_start(true));
    uint32_t a = site_find(10, 48, HEAP_MALLOC, 0);
    for (unsigned i = 0; i < 10; i++) make(a, 48, 6);
    end(a, 48, 6);
    struct site_view v = view(10, 48, HEAP_MALLOC);
    ck_assert_uint_eq(v.allocated.n, 60);
    ck_assert_uint_eq(v.live.n, 54);
    ck_assert_uint_eq(v.live.blocks, 9);
}
END_TEST

/* Far more than the first level of the index holds; each found again, also huge sizes. */
START_TEST(many_sites)
{
    enum { N = 100000 };
    static uint32_t site[N];
    ck_assert(site_start(false));
    for (uint32_t i = 0; i < N; i++) {
        site[i] = site_find(i / 4 + 1, i % 4 * 4096 + 16, HEAP_MALLOC, 0);
        if (site[i] == SITE_DROPPED) ck_abort_msg("%u", i);
        site_allocated(site[i], 16, 1);
    }
    for (uint32_t i = 0; i < N; i++)
        if (site_find(i / 4 + 1, i % 4 * 4096 + 16, HEAP_MALLOC, 0) != site[i]) ck_abort_msg("%u", i);
    ck_assert_uint_eq(sums().sites, N);
    uint32_t huge = site_find(1, (size_t)1 << 46, HEAP_ALIGNED, 0);
    ck_assert_uint_eq(site_given(huge), (size_t)1 << 46);
    struct site_stats stats;
    site_stats(&stats);
    ck_assert_uint_eq(stats.sites, N + 1);
    ck_assert_uint_eq(stats.dropped, 0);
    ck_assert_uint_eq(stats.allocated_blocks, N);
}
END_TEST

/* Without memory and without a stack, blocks go to the dropped site, totals still add up, and the
   mean size gives the right number of blocks: 2 points of 32 bytes (half a block's words each: 1
   word in 2), 3 of 64. */
START_TEST(what_finds_no_room_is_counted_together)
{
    ck_assert(site_start(false));
    ck_assert_uint_eq(site_find(0, 32, HEAP_MALLOC, 0), SITE_DROPPED);
    uint32_t last = 1;
    os_fail_mappings(0, 1000000);
    for (uint32_t i = 1; last != SITE_DROPPED && i < 10000000; i++)
        last = site_find(i, 32, HEAP_MALLOC, 0);
    os_fail_mappings(0, 0);
    ck_assert_uint_eq(last, SITE_DROPPED);
    make(SITE_DROPPED, 32, 2);
    make(SITE_DROPPED, 64, 3);
    end(SITE_DROPPED, 64, 3);
    struct site_view v = view(0, 0, HEAP_MALLOC);
    ck_assert_uint_eq(v.site, SITE_DROPPED);
    ck_assert_uint_eq(v.allocated.n, 5);
    ck_assert_uint_eq(v.live.n, 2);
    /* Blocks: n * 8 / given each, per point: 2/4 + 3/8 = 0.875 = 5 * 8 / given. */
    ck_assert_uint_eq(v.given, (size_t)(40 / 0.875));
    struct site_stats stats;
    site_stats(&stats);
    ck_assert_uint_eq(stats.dropped, 2);
}
END_TEST

START_TEST(no_memory_at_the_start)
{
    os_fail_mappings(0, 1000);
    ck_assert(!site_start(false));
    os_fail_mappings(0, 0);
    ck_assert_uint_eq(sums().sites, 0);
    ck_assert_uint_eq(site_find(1, 16, HEAP_MALLOC, 0), SITE_DROPPED);
}
END_TEST

/* Two sites rise and fall at different times; the peak is the moment of the largest sum, not the
   sum of the sites' own maxima. */
START_TEST(peak_is_one_moment)
{
    ck_assert(site_start(false));
    uint32_t a = site_find(1, 16, HEAP_MALLOC, 0), b = site_find(2, 16, HEAP_MALLOC, 0);
    struct sums s;
    uint64_t time;
    for (unsigned i = 0; i < 600; i++) make(a, 16, 1);
    s = sums(); /* nothing was freed yet: the peak is now */
    ck_assert_uint_eq(s.peak.n, 600);
    ck_assert_uint_eq(site_peak(&time), 600);
    ck_assert_uint_ne(time, 0);
    for (unsigned i = 0; i < 500; i++) end(a, 16, 1);  /* a: 600 at most, now 100 */
    for (unsigned i = 0; i < 800; i++) make(b, 16, 1); /* 900 */
    for (unsigned i = 0; i < 700; i++) end(b, 16, 1);
    for (unsigned i = 0; i < 300; i++) make(a, 16, 1); /* 500 */
    s = sums();
    ck_assert_uint_eq(site_peak(NULL), 900);
    ck_assert_uint_eq(s.live.n, 500);
    /* The copy is taken at the first free after the maximum, which the site has counted by then. */
    ck_assert_uint_ge(s.peak.n, 899);
    ck_assert_uint_le(s.peak.n, 900);
    ck_assert_uint_eq(view(1, 16, HEAP_MALLOC).peak.n, 100);
    ck_assert_uint_ge(view(2, 16, HEAP_MALLOC).peak.n, 799);
}
END_TEST

/* Growth with a free after each block: the peak is never behind by more than its step. */
START_TEST(peak_follows_growth_within_its_step)
{
    ck_assert(site_start(false));
    uint32_t a = site_find(1, 16, HEAP_MALLOC, 0);
    for (uint64_t live = 0; live < 20000;) {
        make(a, 16, 2);
        end(a, 16, 1);
        live++;
        uint64_t peak = site_peak(NULL);
        if (peak > live + 1 || peak < live - live / 50 - 1)
            ck_abort_msg("%lu at %lu", (unsigned long)peak, (unsigned long)live);
    }
    uint64_t least = 19800 - 1, recorded = view(1, 16, HEAP_MALLOC).peak.n;
    ck_assert_uint_ge(recorded, least);
    ck_assert_uint_le(recorded, 20001);
}
END_TEST

/* In a child what was allocated starts at zero, and what lives on stays. */
START_TEST(a_child_counts_from_zero)
{
    ck_assert(site_start(_i == 1));
    uint32_t a = site_find(1, 16, HEAP_MALLOC, 0), b = site_find(2, 16, HEAP_MALLOC, 0);
    for (unsigned i = 0; i < 10; i++) make(a, 16, 2), make(b, 16, 2);
    for (unsigned i = 0; i < 4; i++) end(a, 16, 2);
    site_fork_child();
    struct site_view v = view(1, 16, HEAP_MALLOC);
    ck_assert_uint_eq(v.allocated.blocks, 0);
    ck_assert_uint_eq(v.allocated.n, 0);
    ck_assert_uint_eq(v.live.blocks, 6);
    ck_assert_uint_eq(v.live.n, 12);
    ck_assert_uint_eq(v.peak.blocks, 6);
    end(a, 16, 2); /* a block of the parent */
    make(a, 16, 2);
    make(a, 16, 2);
    end(b, 16, 2);
    v = view(1, 16, HEAP_MALLOC);
    ck_assert_uint_eq(v.allocated.blocks, 2);
    ck_assert_uint_eq(v.allocated.n, 4);
    ck_assert_uint_eq(v.live.blocks, 7);
    v = view(2, 16, HEAP_MALLOC);
    ck_assert_uint_eq(v.allocated.blocks, 0);
    ck_assert_uint_eq(v.live.blocks, 9);
    /* And a child of the child. */
    site_fork_child();
    make(b, 16, 2);
    v = view(1, 16, HEAP_MALLOC);
    ck_assert_uint_eq(v.allocated.blocks, 0);
    ck_assert_uint_eq(v.live.blocks, 7);
    v = view(2, 16, HEAP_MALLOC);
    ck_assert_uint_eq(v.allocated.blocks, 1);
    ck_assert_uint_eq(v.live.blocks, 10);
    /* A site that is new in the child. */
    uint32_t c = site_find(3, 16, HEAP_MALLOC, 0);
    make(c, 16, 2);
    ck_assert_uint_eq(view(3, 16, HEAP_MALLOC).allocated.blocks, 1);
}
END_TEST

/* A child's peak is its own: the parent's, though larger, was before its time. */
START_TEST(a_child_has_its_own_peak)
{
    ck_assert(site_start(false));
    uint32_t a = site_find(1, 16, HEAP_MALLOC, 0);
    for (unsigned i = 0; i < 1000; i++) make(a, 16, 1);
    for (unsigned i = 0; i < 900; i++) end(a, 16, 1);
    ck_assert_uint_eq(site_peak(NULL), 1000);
    site_fork_child();
    ck_assert_uint_eq(site_peak(NULL), 100);
    for (unsigned i = 0; i < 50; i++) make(a, 16, 1);
    for (unsigned i = 0; i < 130; i++) end(a, 16, 1);
    ck_assert_uint_eq(site_peak(NULL), 150);
    ck_assert_uint_ge(view(1, 16, HEAP_MALLOC).peak.n, 149);
}
END_TEST

/* Threads make the same keys at once and count at them: one site a key, nothing counted lost. */

#define KEYS 5000
#define STEPS 60000
static uint32_t found[4][KEYS];
static atomic_bool stop_storm;
static bool endless;

static void *storm(void *arg)
{
    unsigned me = (unsigned)(uintptr_t)arg;
    uint64_t seed = me + 1;
    for (unsigned long i = 0; (endless || i < STEPS) && !atomic_load(&stop_storm); i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        unsigned k = i < KEYS ? (unsigned)i : (unsigned)(seed >> 33) % KEYS;
        if (endless) k = (unsigned)(seed >> 33) % 200000;
        uint32_t s = site_find(k + 1, 32, HEAP_MALLOC, 0);
        if (k < KEYS) found[me][k] = s;
        make(s, 32, 4);
        if (i % 3) end(s, 32, 4);
    }
    return NULL;
}

START_TEST(threads_agree_on_sites_and_sums)
{
    pthread_t thread[4];
    ck_assert(site_start(_i == 1));
    for (uintptr_t i = 0; i < 4; i++) pthread_create(&thread[i], NULL, storm, (void *)i);
    for (unsigned i = 0; i < 4; i++) pthread_join(thread[i], NULL);
    for (unsigned k = 0; k < KEYS; k++)
        for (unsigned i = 1; i < 4; i++)
            if (found[i][k] != found[0][k] || found[i][k] == 0) ck_abort_msg("key %u", k);
    struct sums s = sums();
    ck_assert_uint_eq(s.sites, KEYS);
    ck_assert_uint_eq(s.allocated.blocks, 4 * STEPS);
    ck_assert_uint_eq(s.allocated.n, 4 * 4 * STEPS);
    ck_assert_uint_eq(s.live.blocks, 4 * STEPS / 3);
    ck_assert_uint_eq(s.live.n, 4 * 4 * STEPS / 3);
    ck_assert_uint_ge(site_peak(NULL), s.live.n);
}
END_TEST

static int child_of_storm(void)
{
    site_fork_child();
    struct sums s = sums();
    if (s.allocated.blocks != 0) return 2;
    uint64_t live = s.live.blocks;
    for (unsigned i = 0; i < 20000; i++) {
        uint32_t site = site_find(2000000 + i % 1000, 32, HEAP_MALLOC, 0);
        if (site == SITE_DROPPED || site_given(site) != 32 ||
            site_stack(site) != 2000000 + i % 1000)
            return 3;
        make(site, 32, 4);
        if (i % 4) end(site, 32, 4);
    }
    s = sums();
    if (s.allocated.blocks != 20000 || s.allocated.n != 80000) return 4;
    if (s.live.blocks != live + 5000) return 5;
    return site_peak(NULL) == 0 ? 6 : 0;
}

START_TEST(children_of_a_storm_go_on)
{
    pthread_t thread[3];
    ck_assert(site_start(_i == 1));
    endless = true;
    for (uintptr_t i = 0; i < 3; i++) pthread_create(&thread[i], NULL, storm, (void *)i);
    for (unsigned forks = 0; forks < 15; forks++) {
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
}
END_TEST

int main(void)
{
    Suite *s = suite_create("site");
    TCase *t = tcase_create("site");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, a_site_is_stack_size_and_source);
    tcase_add_test(t, where_every_word_counts_points_follow_from_blocks);
    tcase_add_test(t, many_sites);
    tcase_add_test(t, what_finds_no_room_is_counted_together);
    tcase_add_test(t, no_memory_at_the_start);
    tcase_add_test(t, peak_is_one_moment);
    tcase_add_test(t, peak_follows_growth_within_its_step);
    tcase_add_loop_test(t, a_child_counts_from_zero, 0, 2);
    tcase_add_test(t, a_child_has_its_own_peak);
    tcase_add_loop_test(t, threads_agree_on_sites_and_sums, 0, 2);
    tcase_add_loop_test(t, children_of_a_storm_go_on, 0, 2);
    suite_add_tcase(s, t);
    return suite_run(s);
}
