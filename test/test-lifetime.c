/* test-lifetime.c: ages and their steps, deaths by site, and that nothing gets lost between allocated, died and live: random programs with
   threads and forks, through the hooks that the heap calls, on an allocator that only counts.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "heap/caller.h"
#include "heap/collect.h"
#include "heap/heap.h"
#include "heap/os.h"
#include "sampler/false_lost.h"
#include "sampler/lifetime_live.h"
#include "sampler/sampler.h"
#include "sampler/stack_cache.h"
#include "sampler/tracked.h"
#include "sampler_alone.h"
#include "suite.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Every third block is old, by its address. */
static bool is_old(const void *block)
{
    return (uintptr_t)block / 4096 % 3 == 0;
}
bool heap_is_old(const void *block)
{
    return is_old(block);
}

static struct lifetime lives_at(uint32_t site)
{
    struct lifetime l;
    ck_assert(lives_of(site, &l));
    return l;
}

static void fake_free(struct fake *f, struct block b)
{
    if (b.entry) hooks.freed(f ? &f->hook : NULL, b.address, b.entry, is_old(b.address));
}

static void wait_ticks(uint32_t n)
{
    for (uint32_t from = lifetime_ticks(); lifetime_ticks() - from < n;) usleep(1000);
}

/* ---- what was counted ---- */

struct sums {
    uint64_t time, span, old, elsewhere, inherited; /* died */
    uint64_t live_time, live_span, live_old;
};

static struct sums sums_of(uint32_t site)
{
    struct sums s = {0};
    struct lifetime sum, *l = lives_of(site, &sum) ? &sum : NULL;
    for (unsigned i = 0; l && i < LIFETIME_TIMES; i++) s.time += l->time[i];
    for (unsigned i = 0; l && i < LIFETIME_SPANS; i++) s.span += l->span[i];
    if (l) {
        s.old = l->old + l->inherited_old;
        s.elsewhere = l->elsewhere;
        s.inherited = l->inherited_young + l->inherited_old;
    }
    struct lifetime_live live;
    struct lifetime_stats now;
    const struct lifetime_cell *cells;
    lifetime_stats(&now);
    ck_assert(lifetime_live_make(&live, &now, true));
    size_t n = lifetime_live_of(&live, site, &cells);
    for (size_t i = 0; i < n; i++) {
        unsigned what = cells[i].key & 0xff;
        ck_assert_uint_eq(cells[i].key >> 8, site);
        *(what < LIFETIME_CELL_SPAN ? &s.live_time : what < LIFETIME_CELL_OLD ? &s.live_span : &s.live_old) +=
            cells[i].weight;
    }
    ck_assert_uint_eq(live.lost, 0);
    lifetime_live_free(&live);
    return s;
}

struct totals {
    uint64_t allocated, live, sites;
    bool child;
};

/* allocated (and what a child has inherited) = died young + died old + live, in points or blocks. */
static void check_site(const struct site_view *v, void *user)
{
    struct totals *t = user;
    struct sums s = sums_of(v->site);
    uint64_t allocated = site_exact ? v->allocated.blocks : v->allocated.n;
    uint64_t live = site_exact ? v->live.blocks : v->live.n;
    ck_assert_uint_eq(s.time, s.span);
    ck_assert_uint_eq(s.live_time, s.live_span);
    ck_assert_uint_le(s.old, s.time + s.inherited);
    if (t->child) { /* what was born in it, apart from what it has inherited */
        ck_assert_uint_eq(s.time + s.live_time, allocated);
        ck_assert_uint_le(s.live_time, live);
    } else {
        ck_assert_uint_eq(s.inherited, 0);
        ck_assert_uint_eq(s.live_time, live);
        ck_assert_uint_eq(s.time + live, allocated);
    }
    t->allocated += allocated;
    t->live += live;
    t->sites++;
}

static struct totals check_all(bool child)
{
    struct totals t = {.child = child};
    site_each(check_site, &t);
    return t;
}

/* ---- steps ---- */

START_TEST(steps_follow_each_other)
{
    for (unsigned i = 0; i < LIFETIME_TIMES; i++) {
        uint64_t least = lifetime_time_least(i), next = lifetime_time_least(i + 1);
        ck_assert_uint_eq(lifetime_time_bucket(least), i);
        ck_assert_uint_gt(next, least);
        ck_assert_uint_eq(lifetime_time_bucket(next - 1), i);
        if (least >= 4) ck_assert_uint_le((next - least) * 4, least);
    }
    ck_assert_uint_eq(lifetime_time_bucket(UINT64_MAX), LIFETIME_TIMES - 1);
    ck_assert_uint_eq(lifetime_time_bucket(16 * 3600 * LIFETIME_TICKS), LIFETIME_TIMES - 1);
    ck_assert_uint_eq(lifetime_time_bucket(15 * 3600 * LIFETIME_TICKS), LIFETIME_TIMES - 2);
    for (unsigned i = 0; i < LIFETIME_SPANS; i++) {
        ck_assert_uint_eq(lifetime_span_bucket(lifetime_span_least(i)), i);
        ck_assert_uint_eq(lifetime_span_bucket(lifetime_span_least(i + 1) - 1), i);
    }
    ck_assert_uint_eq(lifetime_span_bucket(UINT64_MAX), LIFETIME_SPANS - 1);
    ck_assert_uint_eq(lifetime_span_least(9) * LIFETIME_UNIT, MIB); /* the report's columns are where steps begin */
    ck_assert_uint_eq(lifetime_span_least(15) * LIFETIME_UNIT, 64 * MIB);
    ck_assert_uint_eq(lifetime_span_least(19) * LIFETIME_UNIT, GIB);
}
END_TEST

START_TEST(the_clock_of_bytes_turns_over)
{
    uint64_t all = (uint64_t)1 << LIFETIME_CLOCK_BITS;
    ck_assert_uint_eq(lifetime_units(7, 7), 0);
    ck_assert_uint_eq(lifetime_units(7, 12), 5);
    ck_assert_uint_eq(lifetime_units(all - 5, 3), 8);
    ck_assert_uint_eq(lifetime_units(12, 7), 0); /* another thread's clock is late */
    ck_assert_uint_eq(lifetime_units(3, all - 5), 0);
    ck_assert_uint_eq(lifetime_units(0, all / 2 - 1), all / 2 - 1);
}
END_TEST

/* ---- deaths ---- */

static uint32_t first_site(uint32_t stack, size_t given)
{
    return site_find(stack, given, HEAP_MALLOC, site_shard(1));
}

/* With every word sampled an age in bytes is what was allocated in between, and nothing else. */
START_TEST(ages_are_exact_in_bytes)
{
    struct fake f = {{NULL}};
    start(8);
    for (unsigned step = 0; step < 20; step++) {
        stack_now = 1;
        struct block b = fake_alloc(&f, 8);
        stack_now = 2;
        /* 2^step - 1 units, whatever part of a unit was used at the birth: the last age of the step. */
        size_t between = ((size_t)1 << step) * LIFETIME_UNIT - LIFETIME_UNIT;
        for (size_t done = 0; done < between; done += 8 * LIFETIME_UNIT)
            fake_free(&f, fake_alloc(&f, (between - done < 8 * LIFETIME_UNIT ? between - done : 8 * LIFETIME_UNIT) / 8));
        fake_free(&f, b);
        ck_assert_uint_eq(lives_at(first_site(1, 64)).span[step], 1);
    }
    ck_assert_uint_eq(sums_of(first_site(1, 64)).time, 20);
    ck_assert_uint_eq(check_all(false).live, 0);
}
END_TEST

/* Deaths at ages from `least` to `most` ticks, the steps of both included. */
static uint64_t died_at(const struct lifetime *l, uint64_t least, uint64_t most)
{
    uint64_t n = 0;
    for (unsigned i = lifetime_time_bucket(least); i <= lifetime_time_bucket(most); i++) n += l->time[i];
    return n;
}

/* How much time passes is the machine's matter: an age is one that the clock has allowed. */
START_TEST(ages_in_time)
{
    struct fake f = {{NULL}};
    start(8);
    uint32_t before = lifetime_ticks();
    struct block quick = fake_alloc(&f, 8), slow = fake_alloc(&f, 8), stays = fake_alloc(&f, 8);
    (void)stays;
    fake_free(&f, quick);
    uint32_t after = lifetime_ticks();
    struct lifetime l = lives_at(first_site(1, 64));
    ck_assert_uint_eq(died_at(&l, 0, after - before), 1);
    uint32_t waited = 2 * (after - before) + 20; /* longer than `quick` can have lived, by more than a step */
    wait_ticks(waited);
    fake_free(&f, slow);
    l = lives_at(first_site(1, 64));
    ck_assert_uint_eq(died_at(&l, waited, lifetime_ticks() - before), 1);
    struct sums s = sums_of(first_site(1, 64));
    ck_assert_uint_eq(s.time, 2);
    ck_assert_uint_eq(s.live_time, 1);
}
END_TEST

static void *free_it(void *user)
{
    static _Thread_local struct fake other;
    struct block *b = user;
    fake_free(&other, fake_alloc(&other, 10)); /* so that the thread has what the quick way wants */
    fake_free(&other, b[0]);
    fake_free(NULL, b[1]); /* a thread that has no heap any more */
    return NULL;
}

START_TEST(deaths_elsewhere)
{
    struct fake f = {{NULL}};
    start(8);
    struct block b[3];
    for (unsigned i = 0; i < 3; i++) b[i] = fake_alloc(&f, 8);
    fake_free(&f, b[2]);
    pthread_t t;
    pthread_create(&t, NULL, free_it, b);
    pthread_join(t, NULL);
    struct sums s = sums_of(first_site(1, 64));
    ck_assert_uint_eq(s.time, 3);
    ck_assert_uint_eq(s.elsewhere, 2);
}
END_TEST

/* A resize to another size ends a life and begins one. */
START_TEST(resizing_is_a_death_and_a_birth)
{
    struct fake f = {{NULL}};
    start(8);
    struct block b = fake_alloc(&f, 8);
    wait_ticks(40);
    hooks.resized(&f.hook, b.address, b.entry, 64, 60, 64, true); /* the same size: nothing ends */
    struct lifetime l;
    ck_assert(!lives_of(first_site(1, 64), &l));
    uint32_t resized = lifetime_ticks();
    hooks.resized(&f.hook, b.address, b.entry, 64, 120, 128, true);
    l = lives_at(first_site(1, 64));
    ck_assert_uint_eq(l.old, 1);
    ck_assert_uint_eq(died_at(&l, 40, UINT64_MAX), 1);
    fake_free(&f, b);
    /* Its own age, not the whole block's. */
    l = lives_at(site_find(1, 128, HEAP_REALLOC, site_shard(1)));
    ck_assert_uint_eq(died_at(&l, 0, lifetime_ticks() - resized), 1);
    check_all(false);
}
END_TEST

/* Without memory for records deaths are counted, and nothing breaks. */
START_TEST(no_memory_for_records)
{
    struct fake f = {{NULL}};
    start(8);
    struct block b[2000];
    for (unsigned i = 0; i < 2000; i++) {
        stack_now = i + 1;
        b[i] = fake_alloc(&f, 8);
    }
    struct lifetime_stats s;
    os_fail_mappings(0, 1000000);
    for (unsigned i = 0; i < 2000; i++) fake_free(&f, b[i]);
    lifetime_stats(&s);
    os_fail_mappings(0, 0);
    ck_assert_uint_gt(s.dropped, 1000);
    uint64_t known = 0;
    for (unsigned i = 0; i < 2000; i++) {
        struct lifetime l;
        if (lives_of(first_site(i + 1, 64), &l)) known += died_at(&l, 0, UINT64_MAX);
    }
    ck_assert_uint_eq(known + s.dropped, 2000);
}
END_TEST

/* ---- conservation ---- */

#define THREADS 4
#define SLOTS 512

static _Atomic(struct block *) slots[SLOTS];

static void *random_program(void *user)
{
    struct fake *f = calloc(1, sizeof *f);
    uint64_t state = (uint64_t)(uintptr_t)user * 0x9e3779b97f4a7c15u + 1;
    for (unsigned i = 0; i < 20000; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        struct block *b = NULL;
        if (state >> 61) {
            stack_now = 1 + (uint32_t)(state >> 40) % 37;
            b = malloc(sizeof *b);
            *b = fake_alloc(f, 2 + (state >> 33) % 50);
        }
        b = atomic_exchange(&slots[(state >> 20) % SLOTS], b);
        if (!b) continue;
        if ((state >> 55 & 15) == 0 && b->entry) {
            b->words += 2;
            hooks.resized(&f->hook, b->address, b->entry, (b->words - 2) * 8, b->words * 8, b->words * 8, is_old(b->address));
        }
        fake_free((state >> 50 & 7) == 0 ? NULL : f, *b);
        free(b);
    }
    free(f);
    return NULL;
}

static void run_threads(void)
{
    pthread_t t[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, random_program, (void *)(i + 1));
    for (unsigned i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
}

/* Of all sites: those that have nothing left are not shown by site_each. */
static uint64_t inherited_dead(void)
{
    struct site_stats stats;
    uint64_t sum = 0;
    site_stats(&stats);
    for (uint32_t site = 0; site <= stats.sites; site++) sum += sums_of(site).inherited;
    return sum;
}

START_TEST(nothing_gets_lost)
{
    start(_i ? 256 : 8);
    run_threads();
    struct totals before = check_all(false);
    ck_assert_uint_gt(before.allocated, 10000);
    ck_assert_uint_gt(before.live, 0);
    ck_assert_uint_gt(before.sites, 37);
    wait_ticks(2); /* so that a birth in the tick of the fork is the child's */
    sampler_fork_prepare();
    pid_t pid = fork();
    if (pid == 0) {
        sampler_fork_child();
        /* Nothing was allocated or has died; all that lives was inherited. */
        struct totals t = check_all(true);
        if (t.allocated != 0 || t.live != before.live) _exit(1);
        struct fake f = {{NULL}};
        uint64_t died = 0;
        for (unsigned i = 0; i < SLOTS / 2; i++) {
            if (!slots[i]) continue;
            fake_free(&f, *slots[i]);
            died++;
        }
        t = check_all(true);
        if (died == 0 || inherited_dead() + t.live != before.live) _exit(2);
        for (unsigned i = 0; i < SLOTS; i++) slots[i] = NULL;
        run_threads(); /* what it allocates itself is observed from the birth on */
        struct totals after = check_all(true);
        if (after.allocated < before.allocated / 2) _exit(3);
        struct lifetime_stats s;
        lifetime_stats(&s);
        _exit(s.observed_ticks > 60 * LIFETIME_TICKS || s.since == 0 ? 4 : 0);
    }
    sampler_fork_parent();
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    struct totals after = check_all(false);
    ck_assert_uint_eq(after.allocated, before.allocated);
    for (unsigned i = 0; i < SLOTS; i++) free(slots[i]);
}
END_TEST

/* The clock of bytes is the truth with every word sampled, and within four deviations of it otherwise. */
START_TEST(the_clock_counts_what_is_allocated)
{
    struct fake f = {{NULL}};
    uint64_t interval = _i ? 8192 : 8, bytes = 0;
    start(interval);
    struct lifetime_stats s;
    for (unsigned i = 0; i < 200000; i++) {
        size_t words = 2 + i % 100;
        fake_free(&f, fake_alloc(&f, words));
        bytes += words * 8;
    }
    lifetime_stats(&s);
    double deviation = _i ? 4 * __builtin_sqrt((double)bytes * (double)interval) : 0;
    double got = (double)(s.observed_units * LIFETIME_UNIT);
    ck_assert_msg(got <= (double)bytes + deviation && got >= (double)bytes - deviation - LIFETIME_KEPT - LIFETIME_UNIT,
                  "%g, not %g", got, (double)bytes);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lifetime");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, steps_follow_each_other);
    tcase_add_test(t, the_clock_of_bytes_turns_over);
    tcase_add_test(t, ages_are_exact_in_bytes);
    tcase_add_test(t, ages_in_time);
    tcase_add_test(t, deaths_elsewhere);
    tcase_add_test(t, resizing_is_a_death_and_a_birth);
    tcase_add_test(t, no_memory_for_records);
    tcase_add_loop_test(t, nothing_gets_lost, 0, 2);
    tcase_add_loop_test(t, the_clock_counts_what_is_allocated, 0, 2);
    suite_add_tcase(suite, t);
    return suite_run(suite);
}
