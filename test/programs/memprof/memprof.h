/* memprof.h: what the programs in this folder share.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gleaner.h"

#include <malloc.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOINLINE __attribute__((noinline, noclone))

static void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
static void fail(const char *format, ...)
{
    va_list a;
    va_start(a, format);
    vprintf(format, a);
    va_end(a);
    printf("\n");
    fflush(stdout);
    _Exit(1);
}

#define need(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) fail("%s:%d: not %s", __FILE__, __LINE__, #condition);                   \
    } while (0)

#define need_equal(a, b)                                                                           \
    do {                                                                                           \
        long long a_ = (long long)(a), b_ = (long long)(b);                                        \
        if (a_ != b_) fail("%s:%d: %s is %lld, not %lld", __FILE__, __LINE__, #a, a_, b_);         \
    } while (0)

/* Numbers that are the same in every run. */
static __thread uint64_t draw_state = 1;
static inline unsigned draw(void)
{
    draw_state = draw_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(draw_state >> 33);
}

/* Starts a profile; its number. */
static inline unsigned long start_for(void *user, double lambda, const struct gleaner_tracker *tracker, int postponed)
{
    unsigned long p = 0;
    struct gleaner_memprof_options o = {.lambda = lambda, .tracker = *tracker, .user = user, .postponed = postponed};
    need_equal(gleaner_memprof_start(&o, &p), 0);
    need(p != 0);
    return p;
}

static inline unsigned long start(double lambda, const struct gleaner_tracker *tracker, int postponed)
{
    return start_for(NULL, lambda, tracker, postponed);
}

/* Its counts: allocated = freed young + freed old + reclaimed + live + lost + declined, in blocks and in samples. */
static inline struct gleaner_memprof_counts conserved(unsigned long p)
{
    struct gleaner_memprof_counts c;
    need_equal(gleaner_memprof_counts(p, &c), 0);
    need_equal(c.allocated.blocks, c.freed_young.blocks + c.freed_old.blocks + c.reclaimed.blocks + c.live.blocks +
                                       c.lost.blocks + c.declined.blocks);
    need_equal(c.allocated.samples, c.freed_young.samples + c.freed_old.samples + c.reclaimed.samples + c.live.samples +
                                        c.lost.samples + c.declined.samples);
    return c;
}

struct test {
    const char *name;
    void (*run)(void);
};

static int run_test(const struct test *t, int count, char **arguments)
{
    if (!gleaner_memprof_start) fail("Gleaner is not here");
    for (; t->name && count > 1; t++)
        if (strcmp(t->name, arguments[1]) == 0) {
            t->run();
            puts("ok");
            return 0;
        }
    fail("which test?");
}
