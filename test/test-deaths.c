/* test-deaths.c: deaths that a thread has still to count, where every block is sampled: whatever is read is as if they were counted.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "sampler/deaths.h"
#include "sampler/lifetime.h"
#include "sampler/sampler_thread.h"
#include "sampler_alone.h"
#include "suite.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define GIVEN 64

static struct block born(struct fake *f) { return fake_alloc(f, GIVEN / 8); }

static void dies(struct fake *f, struct block b, bool old)
{
    hooks.freed(&f->hook, b.address, b.entry, old);
}

/* A death, so that the site has what the quick way wants; and as many more as are needed for this one to be counted. */
static void warm_up(struct fake *f)
{
    for (unsigned i = 0; i <= DEATHS; i++) dies(f, born(f), false);
}

struct seen {
    uint64_t live, allocated, entries;
};

static void add_site(const struct site_view *v, void *user)
{
    struct seen *s = user;
    s->live += v->live.blocks;
    s->allocated += v->allocated.blocks;
    if (v->live.n != v->live.blocks * GIVEN / 8) abort();
}

static void add_entry(uint32_t entry, const struct tracked_view *v, void *user)
{
    (void)entry;
    (void)v;
    ((struct seen *)user)->entries++;
}

static struct seen look(void)
{
    struct seen s = {0};
    site_each(add_site, &s);
    tracked_each(add_entry, &s);
    return s;
}

static unsigned pending_now(void)
{
    struct deaths_pending pending;
    deaths_pending(&pending);
    return pending.count;
}

/* Of twenty blocks so many die; sites, entries, lives and totals say so at once. */
START_TEST(what_is_pending_is_dead)
{
    struct fake f = {{NULL}};
    struct block b[20];
    start(8);
    warm_up(&f);
    ck_assert_uint_eq(pending_now(), DEATHS); /* or this tests nothing */
    for (unsigned i = 0; i < 20; i++) b[i] = born(&f);
    for (unsigned i = 0; i < 20; i++) {
        dies(&f, b[i], i % 2);
        struct seen s = look();
        ck_assert_uint_eq(pending_now(), DEATHS);
        ck_assert_uint_eq(s.live, 19 - i);
        ck_assert_uint_eq(s.entries, 19 - i);
        struct sampler_stats stats;
        sampler_stats(&stats);
        ck_assert_uint_eq(stats.live_entries, 19 - i);
        ck_assert_uint_eq(stats.samples_freed, DEATHS + 1 + i + 1);
        struct lifetime l;
        ck_assert(lives_of(1, &l));
        uint64_t deaths = 0;
        for (unsigned k = 0; k < LIFETIME_SPANS; k++) deaths += l.span[k];
        ck_assert_uint_eq(deaths, DEATHS + 1 + i + 1);
        ck_assert_uint_eq(l.old, (i + 1) / 2);
    }
}
END_TEST

/* The slot is given out anew before the death of the block that was there is counted. */
START_TEST(an_address_is_used_again)
{
    struct fake f = {{NULL}};
    start(8);
    warm_up(&f);
    struct block first = born(&f), again = first;
    dies(&f, first, false);
    _Atomic uint32_t tag = 0;
    hooks.every(&f.hook, first.address, GIVEN - 1, GIVEN | HEAP_MALLOC, &tag);
    again.entry = tag;
    ck_assert_uint_ne(again.entry, first.entry);
    struct seen s = look();
    ck_assert_uint_eq(s.live, 1);
    ck_assert_uint_eq(s.entries, 1);
    for (unsigned i = 0; i < DEATHS; i++) dies(&f, born(&f), false); /* the first death is counted */
    s = look();
    ck_assert_uint_eq(s.live, 1);
    ck_assert_uint_eq(s.entries, 1);
    dies(&f, again, false);
    s = look();
    ck_assert_uint_eq(s.live, 0);
    ck_assert_uint_eq(s.entries, 0);
}
END_TEST

/* Threads that have ended, or do nothing, leave nothing uncounted.  More than have a shard of their own. */
#define THREADS (DEATHS_THREADS + 4)

static void *busy(void *user)
{
    struct fake *f = user;
    struct block b[10];
    warm_up(f);
    for (unsigned i = 0; i < 10; i++) b[i] = born(f);
    for (unsigned i = 0; i < 9; i++) dies(f, b[i], false);
    return NULL;
}

static void run_threads(struct fake f[THREADS])
{
    pthread_t t[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_create(&t[i], NULL, busy, &f[i]);
        pthread_join(t[i], NULL);
    }
}

START_TEST(threads)
{
    static struct fake f[THREADS];
    start(8);
    run_threads(f);
    ck_assert_uint_eq(pending_now(), DEATHS_MOST);
    struct seen s = look();
    ck_assert_uint_eq(s.live, THREADS);
    ck_assert_uint_eq(s.entries, THREADS);
}
END_TEST

/* A forked child counts what its parent's threads had still to count, once. */
START_TEST(a_forked_child)
{
    static struct fake f[THREADS];
    start(8);
    run_threads(f);
    sampler_fork_prepare();
    pid_t pid = fork();
    if (pid == 0) {
        sampler_fork_child();
        struct seen s = look();
        if (pending_now() != 0) _exit(1);
        if (s.live != THREADS || s.entries != THREADS || s.allocated != 0) _exit(2);
        for (unsigned round = 0; round < 3; round++) { /* the threads' places, taken by others */
            struct block b[10];
            for (unsigned i = 0; i < 10; i++) b[i] = born(&f[round]);
            for (unsigned i = 0; i < 10; i++) dies(&f[round], b[i], false);
        }
        s = look();
        if (s.live != THREADS || s.entries != THREADS || s.allocated != 30) _exit(3);
        struct lifetime l;
        if (lives_of(1, &l) && l.inherited_young + l.inherited_old) _exit(4);
        _exit(0);
    }
    sampler_fork_parent();
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_eq(pending_now(), DEATHS_MOST); /* the parent's are as they were */
}
END_TEST

/* In a child an entry that was pending is given to a block at the same address: that one lives. */
START_TEST(an_entry_is_used_again)
{
    static struct fake f[THREADS];
    struct deaths_pending was;
    start(8);
    run_threads(f);
    deaths_pending(&was);
    ck_assert_uint_eq(was.count, DEATHS_MOST);
    pid_t pid = fork();
    if (pid == 0) {
        sampler_fork_child();
        struct fake other = {{NULL}};
        for (unsigned i = 0; i < 10000; i++) {
            _Atomic uint32_t tag = 0;
            hooks.every(&other.hook, was.death[0].was.block, GIVEN - 1, GIVEN | HEAP_MALLOC, &tag);
            if (tag == was.death[0].entry) _exit(pending_now() == 0 ? 0 : 1);
        }
        _exit(2);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}
END_TEST

/* A child that was made behind our back (a raw clone) reads what is pending as its parent did. */
START_TEST(a_child_of_a_raw_clone)
{
    static struct fake f[THREADS];
    start(8);
    run_threads(f);
    pid_t pid = fork();
    if (pid == 0) {
        struct seen s = look();
        _exit(pending_now() != DEATHS_MOST ? 1 : s.live != THREADS || s.entries != THREADS ? 2 : 0);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}
END_TEST

#if __has_include(<sys/sdt.h>)
extern volatile unsigned short gleaner_sample_free_semaphore;

/* A tracer hears of each death before the slot is used anew. */
START_TEST(a_tracer_listens)
{
    struct fake f = {{NULL}};
    start(8);
    warm_up(&f);
    gleaner_sample_free_semaphore = 1;
    struct block b = born(&f);
    dies(&f, b, false);
    struct tracked_view v;
    ck_assert(!tracked_get(b.entry, &v) || v.block != b.address);
    ck_assert_uint_eq(look().live, 0);
    gleaner_sample_free_semaphore = 0;
    b = born(&f);
    dies(&f, b, false);
    ck_assert(tracked_get(b.entry, &v) && v.block == b.address); /* again as without */
    ck_assert_uint_eq(look().live, 0);
}
END_TEST
#endif

/* While a thread runs, one look at its ring may meet an entry twice: its death is counted meanwhile, the entry used for another block, and that
   dies. A second ring with the same shows it standing still. */
START_TEST(an_entry_is_met_twice)
{
    static struct deaths twin;
    struct fake f = {{NULL}};
    start(8);
    warm_up(&f);
    struct block b[8];
    for (unsigned i = 0; i < 8; i++) b[i] = born(&f);
    for (unsigned i = 0; i < DEATHS; i++) dies(&f, b[i], false);
    const struct sampler_thread *thread = f.hook.sampler;
    for (unsigned i = 0; i < DEATHS; i++) {
        atomic_store(&twin.ring[i].what, atomic_load(&thread->deaths.ring[i].what));
        atomic_store(&twin.ring[i].block, atomic_load(&thread->deaths.ring[i].block));
    }
    deaths_of(&twin, SITE_SHARDS - 1);
    ck_assert_uint_eq(pending_now(), DEATHS);
    struct seen s = look();
    ck_assert_uint_eq(s.live, 8 - DEATHS);
    ck_assert_uint_eq(s.entries, 8 - DEATHS);
}
END_TEST

/* Sites that take each other's place at hand, in turn: of each the deaths are its own. */
#define SITES (3 * LIVES_AT_HAND + 5)

static void die_at_each(struct fake *f, unsigned rounds)
{
    for (unsigned round = 0; round < rounds; round++)
        for (unsigned at = 0; at < SITES; at++) { /* to and fro, so that the latest sites come first, too */
            unsigned k = round % 2 ? SITES - 1 - at : at;
            stack_now = k + 1;
            for (unsigned i = 0; i <= k % 3; i++) dies(f, born(f), k % 2);
        }
    stack_now = 1;
}

struct tally {
    unsigned rounds, right;
};

static void check_site(const struct site_view *v, void *user)
{
    struct tally *t = user;
    struct lifetime l;
    uint64_t of_time = 0, of_span = 0, deaths = t->rounds * ((v->stack - 1) % 3 + 1);
    if (!lives_of(v->site, &l)) return;
    for (unsigned i = 0; i < LIFETIME_TIMES; i++) of_time += l.time[i];
    for (unsigned i = 0; i < LIFETIME_SPANS; i++) of_span += l.span[i];
    t->right += of_time == deaths && of_span == deaths && l.old == ((v->stack - 1) % 2 ? deaths : 0) && v->live.blocks == 0 &&
                v->allocated.blocks == deaths;
}

static bool all_have_died(unsigned rounds)
{
    struct tally t = {rounds, 0};
    site_each(check_site, &t);
    return t.right == SITES;
}

START_TEST(sites_by_the_hundred)
{
    struct fake f = {{NULL}};
    start(8);
    die_at_each(&f, 3);
    ck_assert(all_have_died(3));
    die_at_each(&f, 4);
    ck_assert(all_have_died(7));
    sampler_fork_prepare();
    pid_t pid = fork();
    if (pid == 0) {
        sampler_fork_child();
        die_at_each(&f, 2);
        _exit(all_have_died(2) ? 0 : 1);
    }
    sampler_fork_parent();
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert(all_have_died(7));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("deaths");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, what_is_pending_is_dead);
    tcase_add_test(t, an_address_is_used_again);
    tcase_add_test(t, sites_by_the_hundred);
    tcase_add_test(t, threads);
    tcase_add_test(t, a_forked_child);
    tcase_add_test(t, an_entry_is_used_again);
    tcase_add_test(t, an_entry_is_met_twice);
    tcase_add_test(t, a_child_of_a_raw_clone);
#if __has_include(<sys/sdt.h>)
    tcase_add_test(t, a_tracer_listens);
#endif
    suite_add_tcase(suite, t);
    return suite_run(suite);
}
