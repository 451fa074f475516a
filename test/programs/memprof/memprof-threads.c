/* memprof-threads.c: the program's own heap profile in many threads and across forks: memprof-threads TEST.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "programs/memprof/memprof.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4

/* ---- a tracker that checks the order of what it is told of each block ---- */

struct data {
    uint64_t magic;
    void *block;
    _Atomic int state; /* 1: allocated, 2: promoted, 3: ended */
};
#define MAGIC 0x6d656d70726f66ull

static _Atomic long allocs, deaths, promotions, losses;
static _Atomic long alloc_samples, death_samples;

static void *on_alloc(const struct gleaner_sample *s, void *user)
{
    struct data *d = malloc(sizeof *d);
    *d = (struct data){MAGIC, s->block, 1};
    allocs++;
    alloc_samples += (long)s->n_samples;
    return d;
}
static void *on_alloc_old(const struct gleaner_sample *s, void *user)
{
    struct data *d = on_alloc(s, user);
    d->state = 2;
    return d;
}
static void check(const struct gleaner_sample *s, struct data *d)
{
    if (d->magic != MAGIC || d->block != s->block) fail("the data are another block's");
}
static void on_promote(const struct gleaner_sample *s, void *data, void *user)
{
    struct data *d = data;
    check(s, d);
    promotions++;
    if (d->state++ != 1) fail("promoted in state %d", d->state - 1);
}
static void end(const struct gleaner_sample *s, void *data, int from)
{
    struct data *d = data;
    check(s, d);
    if (d->state != from) fail("ended in state %d, not %d", d->state, from);
    d->state = 3;
    d->magic = 0;
    deaths++;
    death_samples += (long)s->n_samples;
    free(d);
}
static void on_dealloc_young(const struct gleaner_sample *s, void *data, void *user) { end(s, data, 1); }
static void on_dealloc_old(const struct gleaner_sample *s, void *data, void *user) { end(s, data, 2); }
static void on_lost(const struct gleaner_sample *s, void *data, void *user)
{
    check(s, data);
    losses++;
}

static const struct gleaner_tracker checking = {.alloc_young = on_alloc, .alloc_old = on_alloc_old, .promote = on_promote,
                                                .dealloc_young = on_dealloc_young, .dealloc_old = on_dealloc_old,
                                                .lost = on_lost};

/* ---- a random program: every thread allocates, resizes, frees its own and others' blocks ---- */

#define SLOTS 4096
static void *_Atomic slots[SLOTS];
static unsigned steps = 20000;
static _Atomic long mallocs, frees; /* of the program; a realloc that makes another block is both */

static size_t size(void)
{
    unsigned r = draw() % 100;
    return r < 80 ? draw() % 300 : r < 98 ? draw() % 10000 : draw() % 300000;
}

static void step(void)
{
    void *_Atomic *slot = &slots[draw() % SLOTS];
    void *b = atomic_exchange(slot, NULL);
    if (!b) {
        b = draw() % 2 ? malloc(size()) : draw() % 2 ? calloc(1, size()) : aligned_alloc(256, size());
        mallocs++;
    } else if (draw() % 4 == 0) {
        size_t before = malloc_usable_size(b);
        void *was = b;
        b = realloc(b, size() + 1);
        if (b != was || malloc_usable_size(b) != before) {
            mallocs++;
            frees++;
        }
    } else {
        free(b);
        frees++;
        return;
    }
    b = atomic_exchange(slot, b);
    if (!b) return;
    free(b);
    frees++;
}

static void empty(void)
{
    for (unsigned i = 0; i < SLOTS; i++) {
        void *b = atomic_exchange(&slots[i], NULL);
        if (!b) continue;
        free(b);
        frees++;
    }
}

static void *work(void *seed)
{
    draw_state = (uintptr_t)seed * 77 + 5;
    for (unsigned i = 0; i < steps; i++) step();
    return NULL;
}

static void work_in_threads(void)
{
    pthread_t t[THREADS];
    for (long i = 0; i < THREADS; i++) need_equal(pthread_create(&t[i], NULL, work, (void *)(i + 1)), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
}

/* At lambda 1 the counts are exact: they are those of the program's own calls (and pthread_create's few). */
static void random_program(double lambda, int postponed)
{
    unsigned long p = start(lambda, &checking, postponed);
    mallocs = frees = 0;
    for (int round = 0; round < 3; round++) {
        work_in_threads();
        gleaner_collect(round % 2 ? GLEANER_MAJOR : GLEANER_MINOR);
        gleaner_memprof_poll();
        struct gleaner_memprof_counts c = conserved(p);
        need_equal(c.lost.blocks, 0);
        need_equal(allocs, c.allocated.blocks);
        need_equal(deaths, c.freed_young.blocks + c.freed_old.blocks);
        need_equal(promotions, c.promoted.blocks);
        if (lambda == 1 && !postponed) {
            long other = (long)c.allocated.blocks - mallocs;
            if (other < 0 || other > 8 * THREADS * (round + 1)) fail("%ld blocks too many", other);
        }
    }
    empty();
    gleaner_memprof_poll();
    struct gleaner_memprof_counts c = conserved(p);
    if (c.live.blocks > 40) fail("%lld blocks live on", c.live.blocks);
    need_equal(gleaner_memprof_stop(), 0);
    gleaner_memprof_poll();
    c = conserved(p);
    need_equal(alloc_samples, c.allocated.samples);
    need_equal(death_samples, c.freed_young.samples + c.freed_old.samples);
    need_equal(gleaner_memprof_discard(p), 0);
    allocs = deaths = promotions = alloc_samples = death_samples = 0;
}

static void random_all(void) { random_program(1, 0); }
static void random_some(void)
{
    for (int i = 0; i < 3; i++) random_program(0.01, 0);
}
static void random_postponed(void)
{
    for (int i = 0; i < 3; i++) random_program(0.05, 1);
}

/* ---- unbiased in threads that were there before the profile began ---- */

static _Atomic long words, at_work;
static _Atomic int go;

static void *count_words(void *unused)
{
    draw_state = (uintptr_t)unused + 3;
    for (int i = 0; i < 5000; i++) free(malloc(draw() % 2000)); /* it has its counts by now */
    at_work++;
    while (!go) usleep(100);
    for (int i = 0; i < 100000; i++) free(malloc(draw() % 2000)); /* joins somewhere here */
    at_work++;
    while (go == 1) usleep(100);
    long sum = 0;
    for (int i = 0; i < 100000; i++) {
        void *b = malloc(draw() % 2000);
        sum += (long)(malloc_usable_size(b) / 8);
        free(b);
    }
    words += sum;
    return NULL;
}

static void older_threads(void)
{
    pthread_t t[THREADS];
    double lambda = 0.002;
    for (long i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, count_words, (void *)i);
    while (at_work < THREADS) usleep(100);
    unsigned long p = start(lambda, &(struct gleaner_tracker){0}, 0);
    go = 1;
    while (at_work < 2 * THREADS) usleep(100);
    double before = (double)conserved(p).allocated.samples;
    go = 2;
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    double n = (double)conserved(p).allocated.samples - before, mean = lambda * (double)words;
    if (before == 0) fail("no thread joined");
    if (fabs(n - mean) > 5 * sqrt(mean)) fail("%g samples, not %g", n, mean);
}

/* ---- profiles that start, stop and go while others allocate ---- */

static atomic_bool over;
static void *work_on(void *seed)
{
    draw_state = (uintptr_t)seed * 77 + 5;
    while (!over) step();
    return NULL;
}

static void *on_alloc_any(const struct gleaner_sample *s, void *user) { return s->block; }
static void on_end_any(const struct gleaner_sample *s, void *data, void *user)
{
    if (data != s->block) fail("the data are another block's");
}

static const struct gleaner_tracker any = {.alloc_young = on_alloc_any, .alloc_old = on_alloc_any, .dealloc_young = on_end_any};

static void coming_and_going(void)
{
    pthread_t t[THREADS];
    for (long i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, work_on, (void *)(i + 1));
    for (int i = 0; i < 300; i++) {
        unsigned long p = start(i % 3 ? 0.01 : 1, &any, i % 2);
        usleep(1000);
        if (i % 2) gleaner_memprof_poll();
        need_equal(gleaner_memprof_stop(), 0);
        if (i % 5) need_equal(gleaner_memprof_discard(p), 0);
    }
    over = 1;
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    unsigned long p = start(1, &checking, 0);
    work((void *)9);
    struct gleaner_memprof_counts c = conserved(p);
    need_equal(c.allocated.blocks, allocs);
    need_equal(c.freed_young.blocks + c.freed_old.blocks, deaths); /* collections come when they come */
}

/* ---- ends of threads ---- */

static void *on_alloc_exit(const struct gleaner_sample *s, void *user)
{
    if (s->asked == 123) pthread_exit(NULL); /* never comes back */
    return (void *)1;
}
static _Atomic long exits;
static void on_dealloc_exit(const struct gleaner_sample *s, void *data, void *user)
{
    exits++;
    if (s->asked == 234) pthread_exit(NULL);
}
static void *ends_in_callback(void *how)
{
    if (how) free(malloc(123));
    void *a = malloc(50), *b = malloc(234);
    free(a);
    free(b);
    fail("the thread goes on");
}
static pthread_key_t key;
static void late(void *block)
{
    static __thread int round;
    free(block);
    if (round++ < 3) pthread_setspecific(key, malloc(77)); /* in the last round the thread has no heap of its own any more */
}
static void *ends_late(void *unused)
{
    pthread_setspecific(key, malloc(66));
    return NULL;
}

static void thread_ends(void)
{
    struct gleaner_tracker tracker = {.alloc_young = on_alloc_exit, .dealloc_young = on_dealloc_exit};
    unsigned long p = start(1, &tracker, 0);
    pthread_t t;
    for (long i = 0; i < 20; i++) {
        need_equal(pthread_create(&t, NULL, ends_in_callback, (void *)(i % 2)), 0);
        pthread_join(t, NULL);
    }
    gleaner_memprof_poll();
    struct gleaner_memprof_counts c = conserved(p);
    need(c.declined.blocks >= 10 && c.freed_young.blocks >= 20);
    pthread_key_create(&key, late);
    for (int i = 0; i < 20; i++) {
        need_equal(pthread_create(&t, NULL, ends_late, NULL), 0);
        pthread_join(t, NULL);
    }
    gleaner_memprof_poll();
    conserved(p);
    gleaner_memprof_stop();
    gleaner_memprof_discard(p);
}

/* ---- forks ---- */

static void wait_for(pid_t child)
{
    int status;
    need(child > 0);
    need_equal(waitpid(child, &status, 0), child);
    if (status != 0) fail("the child ended with status %x", (unsigned)status);
}

static void child_goes_on(unsigned long p)
{
    conserved(p);
    work((void *)(intptr_t)getpid());
    empty();
    gleaner_memprof_poll();
    struct gleaner_memprof_counts c = conserved(p);
    if (c.live.blocks > 2000) fail("%lld blocks live on in the child", c.live.blocks);
    need_equal(gleaner_memprof_stop(), 0);
    need_equal(gleaner_memprof_discard(p), 0);
    p = start(1, &checking, 0);
    void *b = malloc(100);
    need_equal(conserved(p).allocated.blocks, 1);
    free(b);
    need_equal(conserved(p).freed_young.blocks, 1);
    _exit(0);
}

static void fork_alone(void)
{
    steps = 3000;
    for (int i = 0; i < 10; i++) {
        unsigned long p = start(i % 2 ? 1 : 0.05, &checking, i % 3 == 0);
        work((void *)1);
        pid_t child = fork();
        if (child == 0) child_goes_on(p);
        wait_for(child);
        conserved(p);
        gleaner_memprof_stop();
        gleaner_memprof_discard(p);
    }
}

static void fork_among_threads(void)
{
    pthread_t t[THREADS];
    steps = 3000;
    unsigned long p = start(0.3, &any, 0);
    for (long i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, work_on, (void *)(i + 1));
    for (int i = 0; i < 60; i++) {
        pid_t child = fork();
        if (child == 0) child_goes_on(p);
        wait_for(child);
    }
    over = 1;
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    gleaner_memprof_poll();
    conserved(p);
}

static _Atomic int forked;
static void *on_alloc_fork(const struct gleaner_sample *s, void *user)
{
    if (s->asked == 321 && (pid_t)s->thread == getpid() && forked++ < 5) {
        pid_t child = fork();
        if (child == 0) {
            forked = 1000;
            return (void *)1; /* and on in the child */
        }
        wait_for(child);
    }
    return (void *)1;
}
static void on_dealloc_fork(const struct gleaner_sample *s, void *data, void *user)
{
    if (data != (void *)1) fail("not our data");
    deaths++;
}

static const struct gleaner_tracker forking = {.alloc_young = on_alloc_fork, .alloc_old = on_alloc_fork,
                                               .dealloc_young = on_dealloc_fork, .dealloc_old = on_dealloc_fork};

static void fork_in_callback(void)
{
    pthread_t t[THREADS];
    for (long i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, work_on, (void *)(i + 1));
    unsigned long p = start(1, &forking, 0);
    pid_t before = getpid();
    long seen = 0;
    for (int i = 0; i < 10; i++) {
        void *b = malloc(321);
        if (getpid() != before) { /* we are the child of its callback */
            seen = deaths;
            free(b);
            need(deaths > seen);
            conserved(p);
            _exit(0);
        }
        free(b);
    }
    over = 1;
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    conserved(p);
}

static const struct test tests[] = {
    {"random-all", random_all},       {"random-some", random_some},
    {"random-postponed", random_postponed}, {"older-threads", older_threads},
    {"coming-and-going", coming_and_going}, {"thread-ends", thread_ends},
    {"fork-alone", fork_alone},       {"fork-among-threads", fork_among_threads},
    {"fork-in-callback", fork_in_callback}, {NULL, NULL},
};

int main(int count, char **arguments) { return run_test(tests, count, arguments); }
