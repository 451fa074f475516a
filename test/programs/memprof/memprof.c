/* memprof.c: the functions of gleaner.h for the program's own heap profile, used as a program uses them: memprof TEST.
   Prints "ok" at its end; test-memprof-programs.c runs each test under several configurations.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "programs/memprof/memprof.h"

#include <errno.h>
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- what callbacks do: they count, and hand out numbered data ---- */

struct seen {
    _Atomic long alloc_young, alloc_old, promote, dealloc_young, dealloc_old, lost, reclaimed;
    _Atomic long samples, bytes, wrong;
    struct gleaner_sample last;
    _Atomic int source[8];
};
static struct seen seen;
static char mark; /* data: anything but NULL */

static void *on_alloc(const struct gleaner_sample *s, void *user)
{
    struct seen *to = user;
    to->alloc_young++;
    to->samples += (long)s->n_samples;
    to->bytes += (long)s->given;
    to->source[s->source]++;
    to->last = *s;
    return &mark;
}
static void *on_alloc_old(const struct gleaner_sample *s, void *user)
{
    ((struct seen *)user)->alloc_old++;
    return &mark;
}
#define ON(event)                                                                                  \
    static void on_##event(const struct gleaner_sample *s, void *data, void *user)                 \
    {                                                                                              \
        struct seen *to = user;                                                                    \
        to->event++;                                                                               \
        to->last = *s;                                                                             \
        if (data != &mark) to->wrong++;                                                            \
    }
ON(promote)
ON(dealloc_young)
ON(dealloc_old)
ON(lost)
ON(reclaimed)

static const struct gleaner_tracker counting = {on_alloc, on_alloc_old, on_promote, on_dealloc_young, on_dealloc_old, on_lost,
                                                on_reclaimed};

static void stop(void) { need(gleaner_memprof_stop() == 0); }

/* With all its memory. */
static struct gleaner_memprof_counts whole(unsigned long p)
{
    struct gleaner_memprof_counts c = conserved(p);
    need_equal(c.dropped.blocks, 0);
    return c;
}

/* ---- the tests ---- */

static void errors(void)
{
    struct gleaner_memprof_options o = {.lambda = 1.5};
    unsigned long p;
    need_equal(gleaner_memprof_start(&o, &p), EINVAL);
    o.lambda = -0.1;
    need_equal(gleaner_memprof_start(&o, &p), EINVAL);
    o.lambda = NAN;
    need_equal(gleaner_memprof_start(&o, &p), EINVAL);
    need_equal(gleaner_memprof_start(NULL, &p), EINVAL);
    need_equal(gleaner_memprof_stop(), EINVAL);
    need_equal(gleaner_memprof_discard(1), EINVAL);
    o.lambda = 0.5;
    errno = 77;
    need_equal(gleaner_memprof_start(&o, &p), 0);
    need_equal(gleaner_memprof_start(&o, NULL), EALREADY);
    need_equal(gleaner_memprof_discard(p), EBUSY);
    need_equal(gleaner_memprof_discard(p + 1), EINVAL);
    need_equal(gleaner_memprof_stop(), 0);
    need_equal(gleaner_memprof_stop(), EINVAL);
    need_equal(gleaner_memprof_discard(p), 0);
    need_equal(gleaner_memprof_discard(p), EINVAL);
    struct gleaner_memprof_counts c;
    need_equal(gleaner_memprof_counts(p, &c), EINVAL);
    need_equal(errno, 77);
}

/* Of one block everything is told. */
NOINLINE void *allocate_here(size_t n)
{
    void *volatile b = malloc(n); /* no tail call */
    return b;
}

static void events(void)
{
    unsigned long p = start_for(&seen, 1, &counting, 0);
    char *b = allocate_here(100);
    need_equal(seen.alloc_young, 1);
    need(seen.last.block == b);
    need_equal(seen.last.asked, 100);
    need_equal(seen.last.given, malloc_usable_size(b));
    need_equal(seen.last.n_samples, seen.last.given / 8);
    need_equal(seen.last.source, GLEANER_MALLOC);
    need_equal(seen.last.thread, gettid());
    need(seen.last.n_frames >= 2);
    void *frames[4];
    char name[200];
    need(gleaner_stack_get(seen.last.stack, frames, 4) >= seen.last.n_frames);
    gleaner_stack_name(frames[0], name, sizeof name);
    need(strstr(name, "allocate_here+") == name);
    need(strstr(name, "(memprof)"));
    gleaner_stack_name((void *)1000, name, sizeof name);
    need(strcmp(name, "0x3e7") == 0);
    free(b);
    need_equal(seen.dealloc_young, 1);
    need(seen.last.block == b);
    b = calloc(10, 10);
    need_equal(seen.source[GLEANER_CALLOC], 1);
    need_equal(seen.last.asked, 100);
    b = realloc(b, 90); /* stays as it is */
    need_equal(seen.alloc_young, 2);
    b = realloc(b, 5000); /* moves: another block */
    need_equal(seen.alloc_young, 3);
    need_equal(seen.dealloc_young, 2);
    need_equal(seen.source[GLEANER_REALLOC], 1);
    free(b);
    free(aligned_alloc(64, 640));
    need_equal(seen.source[GLEANER_ALIGNED], 1);
    b = malloc(1 << 20);
    need_equal(seen.last.n_samples, malloc_usable_size(b) / 8);
    long allocs = seen.alloc_young, deaths = seen.dealloc_young;
    size_t before = malloc_usable_size(b);
    b = realloc(b, 3 << 20); /* in place, by its pages or by a copy: another block */
    need(malloc_usable_size(b) != before);
    need_equal(seen.alloc_young, allocs + 1);
    need_equal(seen.dealloc_young, deaths + 1);
    need_equal(seen.last.n_samples, seen.last.given / 8);
    free(b);
    need_equal(seen.alloc_young, seen.dealloc_young);
    need_equal(seen.wrong, 0);
    stop();
    free(malloc(100));
    struct gleaner_memprof_counts c = whole(p);
    need_equal(c.allocated.blocks, seen.alloc_young);
    need_equal(c.freed_young.blocks, seen.dealloc_young);
    need_equal(c.allocated.samples, seen.samples);
    need_equal(gleaner_memprof_discard(p), 0);
}

/* Blocks of a stopped profile are heard of until it is discarded; profiles follow each other. */
static void several(void)
{
    for (int i = 0; i < 300; i++) {
        memset(&seen, 0, sizeof seen);
        void *b[10];
        unsigned long p = start_for(&seen, 1, &counting, 0);
        for (int k = 0; k < 10; k++) b[k] = malloc(50);
        stop();
        unsigned long q = start_for(&seen, 1, &(struct gleaner_tracker){0}, 0);
        void *other = malloc(50);
        for (int k = 0; k < 4; k++) free(b[k]);
        need_equal(seen.dealloc_young, 4);
        need_equal(whole(p).live.blocks, 6);
        need_equal(whole(q).live.blocks, 1);
        need_equal(gleaner_memprof_discard(p), 0);
        for (int k = 4; k < 10; k++) free(b[k]);
        need_equal(seen.dealloc_young, 4);
        free(other);
        struct gleaner_memprof_counts c = whole(q);
        need_equal(c.freed_young.blocks, 1);
        stop();
        need_equal(gleaner_memprof_discard(q), 0);
    }
}

/* What the alloc callback does not want is not heard of again. */
static void *on_alloc_large(const struct gleaner_sample *s, void *user)
{
    seen.alloc_young++;
    return s->asked > 100 ? &mark : NULL;
}

static void declined(void)
{
    struct gleaner_tracker t = counting;
    t.alloc_young = on_alloc_large;
    unsigned long p = start_for(&seen, 1, &t, 0);
    void *b[100];
    for (int i = 0; i < 100; i++) b[i] = malloc(i % 2 ? 64 : 200);
    struct gleaner_memprof_counts c = whole(p);
    need_equal(c.allocated.blocks, 100);
    need_equal(c.declined.blocks, 50);
    need_equal(c.live.blocks, 50);
    for (int i = 0; i < 100; i++) free(b[i]);
    need_equal(seen.dealloc_young, 50);
    need_equal(whole(p).freed_young.blocks, 50);
    stop();
}

/* Nothing that a callback allocates is sampled, and what it frees is told of after it. */
static void *kept[16];
static int depth, deepest;
static void *on_alloc_busy(const struct gleaner_sample *s, void *user)
{
    if (++depth > deepest) deepest = depth;
    seen.alloc_young++;
    for (int i = 0; i < 100; i++) free(malloc((size_t)i * 20));
    for (int i = 0; i < 16; i++)
        if (kept[i] && kept[i] != s->block) {
            free(kept[i]);
            kept[i] = NULL;
        }
    depth--;
    return &mark;
}
static void on_dealloc_busy(const struct gleaner_sample *s, void *data, void *user)
{
    if (++depth > deepest) deepest = depth;
    seen.dealloc_young++;
    if (data != &mark) seen.wrong++;
    free(strdup("hello"));
    depth--;
}

static void busy(void)
{
    struct gleaner_tracker t = {.alloc_young = on_alloc_busy, .dealloc_young = on_dealloc_busy};
    unsigned long p = start_for(&seen, 1, &t, 0);
    for (int round = 0; round < 100; round++)
        for (int i = 0; i < 16; i++)
            if (!kept[i]) kept[i] = malloc(32);
    for (int i = 0; i < 16; i++) {
        free(kept[i]);
        kept[i] = NULL;
    }
    stop();
    need_equal(deepest, 1);
    struct gleaner_memprof_counts c = whole(p);
    need_equal(c.allocated.blocks, seen.alloc_young);
    need_equal(c.freed_young.blocks, seen.dealloc_young);
    need_equal(seen.alloc_young, seen.dealloc_young);
    need_equal(seen.wrong, 0);
}

/* Profiles that are ended and begun by callbacks. */
static unsigned long current;
static int generations;
static void *on_alloc_restart(const struct gleaner_sample *s, void *user)
{
    seen.alloc_young++;
    if (seen.alloc_young % 10 == 0) {
        unsigned long old = current;
        stop();
        if (generations % 2) need_equal(gleaner_memprof_discard(old), 0);
        current = start_for(&seen, 1, &(struct gleaner_tracker){.alloc_young = on_alloc_restart, .dealloc_young = on_dealloc_young}, 0);
        generations++;
    }
    return &mark;
}

static void restart(void)
{
    current = start_for(&seen, 1, &(struct gleaner_tracker){.alloc_young = on_alloc_restart, .dealloc_young = on_dealloc_young}, 0);
    for (int i = 0; i < 1000; i++) free(malloc(48));
    need_equal(seen.alloc_young, 1000);
    need_equal(generations, 100);
    need(seen.dealloc_young >= 900 && seen.dealloc_young < 1000); /* those whose profile was discarded are not told of */
    need_equal(seen.wrong, 0);
    stop();
    whole(current);
}

/* Postponed callbacks wait for a poll, in order. */
static void poll_mode(void)
{
    unsigned long p = start_for(&seen, 1, &counting, 1);
    void *b[50];
    for (int i = 0; i < 50; i++) b[i] = malloc(64);
    for (int i = 0; i < 20; i++) free(b[i]);
    need_equal(seen.alloc_young, 0);
    need_equal(whole(p).freed_young.blocks, 20);
    need_equal(gleaner_memprof_poll(), 70);
    need_equal(seen.alloc_young, 50);
    need_equal(seen.dealloc_young, 20);
    need_equal(gleaner_memprof_poll(), 0);
    for (int i = 20; i < 50; i++) free(b[i]);
    stop();
    need_equal(gleaner_memprof_poll(), 30);
    need_equal(seen.wrong, 0);
    void *lost_with_it = malloc(64);
    free(lost_with_it);
    p = start_for(&seen, 1, &counting, 1);
    free(malloc(64));
    stop();
    need_equal(gleaner_memprof_discard(p), 0);
    need_equal(gleaner_memprof_poll(), 0);
    need_equal(seen.dealloc_young, 50);
}

/* The estimates are right, whatever the library's own profile does: of `words` words each is a sample point with the probability
   lambda, so their number is within 5 deviations but once in 1.7 million seeds. */
static void unbiased_for(double lambda, unsigned rounds)
{
    unsigned long p = start_for(&seen, lambda, &(struct gleaner_tracker){0}, 0);
    double words = 0;
    for (unsigned r = 0; r < rounds; r++) {
        void *b[200];
        for (int i = 0; i < 200; i++) {
            size_t n = draw() % 8 ? draw() % 600 : draw() % 9000;
            if (draw() % 500 == 0) n = draw() % 200000;
            b[i] = draw() % 3 ? malloc(n) : calloc(1, n);
            words += (double)(malloc_usable_size(b[i]) / 8);
        }
        for (int i = 0; i < 200; i++) {
            if (draw() % 10 == 0) {
                size_t before = malloc_usable_size(b[i]);
                void *was = b[i];
                b[i] = realloc(b[i], draw() % 100000 + 1);
                if (b[i] != was || malloc_usable_size(b[i]) != before) words += (double)(malloc_usable_size(b[i]) / 8);
            }
            free(b[i]);
        }
    }
    stop();
    struct gleaner_memprof_counts c = whole(p);
    double mean = lambda * words, deviation = sqrt(words * lambda * (1 - lambda)), n = (double)c.allocated.samples;
    if (fabs(n - mean) > 5 * deviation + 0.5) fail("lambda %g: %g samples, not %g (deviation %g)", lambda, n, mean, deviation);
    need_equal(gleaner_memprof_discard(p), 0);
}

static void unbiased(void)
{
    for (int i = 0; i < 5; i++) {
        unbiased_for(0.5, 10);
        unbiased_for(0.01, 100);
        unbiased_for(0.001, 300);
        unbiased_for(1, 10);
        unbiased_for(0, 10);
        unbiased_for(0.0001, 300);
    }
}

/* A block that is given another size in its place keeps the points in the words that stay, and gets new ones in those that
   are new. */
static void *on_alloc_resized(const struct gleaner_sample *s, void *user)
{
    if (s->source == GLEANER_REALLOC) seen.samples += (long)s->n_samples;
    return NULL;
}

static int in_place;

static void resizing_for(double lambda, size_t from, size_t to)
{
    enum { N = 2000 };
    struct gleaner_tracker t = {.alloc_young = on_alloc_resized, .alloc_old = on_alloc_resized};
    double words = 0;
    seen.samples = 0;
    unsigned long p = start_for(&seen, lambda, &t, 0);
    for (int i = 0; i < N; i++) {
        char *b = malloc(from);
        size_t before = malloc_usable_size(b);
        char *now = realloc(b, to);
        bool changed = now != b || malloc_usable_size(now) != before;
        in_place += now == b && changed;
        if (changed) words += (double)(malloc_usable_size(now) / 8);
        free(now);
    }
    stop();
    need_equal(gleaner_memprof_discard(p), 0);
    double deviation = sqrt(words * lambda * (1 - lambda)), n = (double)seen.samples;
    if (fabs(n - lambda * words) > 5 * deviation + 0.5)
        fail("%zu to %zu: %g samples, not %g (deviation %g)", from, to, n, lambda * words, deviation);
}

static void resizing(void)
{
    static const size_t sizes[] = {100000, 130000, 250000, 5 << 20, 7 << 20, 300 << 10};
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 6; k++)
            if (i != k) resizing_for(0.0005, sizes[i], sizes[k]);
    resizing_for(1, 5 << 20, 7 << 20);
    if (in_place == 0) fail("no block stayed where it was");
}

/* Many short profiles: no thread's first blocks are more or less likely than others to be sampled. */
static void short_profiles(void)
{
    double words = 0, n = 0, lambda = 0.01;
    for (int i = 0; i < 20000; i++) {
        unsigned long p = start_for(&seen, lambda, &(struct gleaner_tracker){0}, 0);
        for (int k = 0; k < 5; k++) {
            void *b = malloc(draw() % 100);
            words += (double)(malloc_usable_size(b) / 8);
            free(b);
        }
        stop();
        n += (double)whole(p).allocated.samples;
        need_equal(gleaner_memprof_discard(p), 0);
    }
    if (fabs(n - lambda * words) > 5 * sqrt(lambda * words)) fail("%g samples, not %g", n, lambda * words);
}

/* The library's own counts are not disturbed by profiles that come and go: test-memprof-programs.c looks at its report. */
static void disturb(void)
{
    for (int i = 0; i < 3000; i++) {
        unsigned long p = start_for(&seen, 0.2, &counting, 0);
        for (int k = 0; k < 50; k++) {
            void *b = malloc(100);
            if (k % 2) free(b); /* 25 of 112 bytes stay each time */
        }
        stop();
        gleaner_memprof_discard(p);
        free(malloc(3000));
    }
}

static const struct test tests[] = {
    {"errors", errors},     {"events", events},         {"several", several}, {"declined", declined},
    {"busy", busy},         {"restart", restart},       {"poll", poll_mode},  {"unbiased", unbiased},
    {"short", short_profiles}, {"resizing", resizing}, {"disturb", disturb},    {NULL, NULL},
};

int main(int count, char **arguments) { return run_test(tests, count, arguments); }
