/* test-stack.c: interning of stacks, and captures against what the compiler and glibc say.
   Built twice: with the sampler in the program, and with it in a shared object, as in real life.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "sampler/module.h"
#include "sampler/stack.h"
#include "sampler/unwind.h"
#include "suite.h"
#include "wander.h"

#include <check.h>
#include <errno.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct stack_cache *cache;

static void start(void)
{
    static const struct sampler_options options = {.depth = 64};
    stack_start(&options);
}

/* Equal frames are one id, whatever came between; the frames come back as they went in. */
START_TEST(interning)
{
    uintptr_t a[] = {0x101000, 0x102000, 0x103000}, b[] = {0x101000, 0x102001, 0x103000}, got[8];
    uint32_t first = stack_intern(a, 3, 0), second = stack_intern(b, 3, 0);
    unsigned flags;
    ck_assert_uint_ne(first, 0);
    ck_assert_uint_ne(first, second);
    ck_assert_uint_eq(stack_intern(a, 3, 0), first);
    ck_assert_uint_ne(stack_intern(a, 2, 0), first);
    ck_assert_uint_ne(stack_intern(a, 3, STACK_EARLY), first);
    ck_assert_uint_eq(stack_get(first, got, 8, &flags), 3);
    ck_assert_mem_eq(got, a, sizeof a);
    ck_assert_uint_eq(flags, 0);
    stack_get(stack_intern(a, 1, STACK_EARLY), got, 8, &flags);
    ck_assert_uint_eq(flags, STACK_EARLY);
    ck_assert_uint_eq(stack_get(0, got, 8, &flags), 0);
    ck_assert_uint_eq(stack_get(UINT32_MAX, got, 8, NULL), 0);
    ck_assert_uint_eq(stack_intern(a, 0, 0), 0);
}
END_TEST

#define RANDOM_STACKS 20000

static unsigned random_stack(unsigned seed, uintptr_t *frames)
{
    unsigned state = seed * 2654435761u + 1, depth = 1 + seed % 40;
    for (unsigned i = 0; i < depth; i++) {
        state = state * 1664525u + 1013904223u;
        /* few addresses near the outer end, many near the inner one: a tree as programs make it */
        frames[depth - 1 - i] = 0x10000000 + (uintptr_t)(state >> 16) % (2 + i * i) * 8;
    }
    return depth;
}

static void *intern_all(void *ids)
{
    uint32_t *to = ids;
    uintptr_t frames[64];
    for (unsigned i = 0; i < RANDOM_STACKS; i++) {
        unsigned which = i * 7919u % RANDOM_STACKS; /* prime to it: each once */
        to[which] = stack_intern(frames, random_stack(which, frames), 0);
    }
    return NULL;
}

/* Threads that intern the same stacks at once get the same ids; different stacks different ones. */
START_TEST(interning_threads)
{
    enum { THREADS = 4 };
    static uint32_t ids[THREADS][RANDOM_STACKS];
    pthread_t t[THREADS];
    uintptr_t frames[64], got[64];
    for (unsigned i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&t[i], NULL, intern_all, ids[i]), 0);
    for (unsigned i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    for (unsigned i = 1; i < THREADS; i++) ck_assert_mem_eq(ids[0], ids[i], sizeof ids[0]);
    for (unsigned i = 0; i < RANDOM_STACKS; i++) {
        unsigned depth = random_stack(i, frames);
        ck_assert_uint_ne(ids[0][i], 0);
        ck_assert_uint_eq(stack_get(ids[0][i], got, 64, NULL), depth);
        ck_assert_mem_eq(got, frames, depth * sizeof *frames);
    }
}
END_TEST

/* A full table says so, keeps what it has, and counts. */
START_TEST(full_table)
{
    uintptr_t frames[64];
    struct stack_stats before, after;
    unsigned made = 0, dropped = 0;
    stack_set_limit(256 * KIB);
    uint32_t first = stack_intern(frames, random_stack(0, frames), 0);
    stack_stats(&before);
    for (unsigned i = 1; i < RANDOM_STACKS; i++)
        if (stack_intern(frames, random_stack(i, frames), 0))
            made++;
        else
            dropped++;
    stack_stats(&after);
    ck_assert_uint_gt(made, 100);
    ck_assert_uint_gt(dropped, 100);
    ck_assert_uint_eq(after.dropped - before.dropped, dropped);
    ck_assert_uint_le(after.memory_bytes, 256 * KIB);
    ck_assert_uint_eq(stack_intern(frames, random_stack(0, frames), 0), first);
}
END_TEST

static void *return_addresses[3];
static uint32_t captured;
static bool captured_one;

/* A barrier after each call keeps it from being a tail call. */
NOINLINE static void inner(void)
{
    return_addresses[0] = __builtin_return_address(0);
    captured = stack_capture_cached(&cache, &captured_one);
    __asm__ volatile("");
}

NOINLINE static void middle(void)
{
    return_addresses[1] = __builtin_return_address(0);
    inner();
    __asm__ volatile("");
}

NOINLINE static void outer(void)
{
    return_addresses[2] = __builtin_return_address(0);
    middle();
    __asm__ volatile("");
}

static unsigned position(const uintptr_t *frames, unsigned n, const void *address)
{
    for (unsigned i = 0; i < n; i++)
        if (frames[i] == (uintptr_t)address) return i;
    return n;
}

/* The compiler's return addresses are in the stack, in order and next to each other. */
START_TEST(capture)
{
    uintptr_t frames[64];
    start();
    for (unsigned round = 0; round < 3; round++) {
        errno = 4711;
        outer();
        ck_assert_int_eq(errno, 4711);
        ck_assert(!captured_one);
        unsigned n = stack_get(captured, frames, 64, NULL);
        unsigned at = position(frames, n, return_addresses[0]);
        ck_assert_uint_lt(at + 2, n);
        ck_assert_uint_eq(frames[at + 1], (uintptr_t)return_addresses[1]);
        ck_assert_uint_eq(frames[at + 2], (uintptr_t)return_addresses[2]);
    }
}
END_TEST

static unsigned compared;

/* Frames from here outwards by glibc's backtrace(), which unwinds with libgcc. */
NOINLINE static void compare_with_glibc(void)
{
    void *theirs[128];
    uintptr_t ours[128];
    unsigned flags;
    void *anchor = __builtin_return_address(0);
    uint32_t id = stack_capture_cached(&cache, NULL);
    ck_assert_uint_eq(stack_capture(NULL) == 0, 0);
    unsigned n = stack_get(id, ours, 128, &flags);
    int m = backtrace(theirs, 128);
    unsigned i = position(ours, n, anchor), k = 0;
    while (k < (unsigned)m && theirs[k] != anchor) k++;
    ck_assert_uint_lt(i, n);
    ck_assert_uint_lt(k, (unsigned)m);
    for (; i < n && k < (unsigned)m; i++, k++) ck_assert_uint_eq(ours[i], (uintptr_t)theirs[k]);
    if (!(flags & STACK_CUT)) ck_assert_uint_eq((unsigned)m - k, n - i);
    compared++;
}

START_TEST(captures_wander)
{
    unsigned state = 42;
    start();
    wander(&state, 6, compare_with_glibc);
    ck_assert_uint_gt(compared, 100);
}
END_TEST

NOINLINE static void dig(unsigned depth)
{
    if (depth == 0)
        compare_with_glibc();
    else
        dig(depth - 1);
    __asm__ volatile("");
}

START_TEST(deep_recursion)
{
    start();
    for (unsigned depth = 50; depth < 90; depth++) dig(depth);
    for (unsigned depth = 90; depth > 50; depth -= 3) dig(depth);
}
END_TEST

START_TEST(depth_is_kept)
{
    static const struct sampler_options options = {.depth = 5};
    uintptr_t frames[64];
    unsigned flags;
    stack_start(&options);
    outer();
    ck_assert_uint_eq(stack_get(captured, frames, 64, &flags), 5);
    ck_assert_uint_eq(flags, STACK_CUT);
}
END_TEST

/* That no more is wanted does not mean that no more was found. */
START_TEST(one_frame_is_wanted)
{
    static const struct sampler_options options = {.depth = 1};
    uint32_t ids[2];
    bool one_frame[2] = {true, true};
    unsigned flags;
    struct stack_stats stats;
    stack_start(&options);
    ids[0] = stack_capture(&one_frame[0]);
    ids[1] = stack_capture_cached(&cache, &one_frame[1]);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_uint_eq(stack_get(ids[i], NULL, 0, &flags), 1);
        ck_assert_uint_eq(flags, STACK_CUT);
        ck_assert(!one_frame[i]);
    }
    stack_stats(&stats);
    ck_assert_uint_eq(stats.one_frame, 0);
}
END_TEST

static uintptr_t interrupted_frames[64];
static unsigned interrupted_depth;

static void on_signal(int signal)
{
    (void)signal;
    uint32_t id = stack_capture_cached(&cache, NULL);
    interrupted_depth = stack_get(id, interrupted_frames, 64, NULL);
}

static int by_signal(const void *a, const void *b)
{
    raise(SIGUSR1);
    return *(const int *)a - *(const int *)b;
}

/* Through a handler on its own stack, and through libc's qsort, to the test itself. */
START_TEST(signal_handler)
{
    start();
    stack_t other = {.ss_sp = malloc(64 * KIB), .ss_size = 64 * KIB};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    ck_assert_int_eq(sigaltstack(&other, NULL), 0);
    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
    int numbers[] = {3, 1, 2};
    void *theirs[64];
    qsort(numbers, 3, sizeof *numbers, by_signal);
    int m = backtrace(theirs, 64);
    ck_assert_uint_gt(interrupted_depth, (unsigned)m);
    /* From this function's caller on, both agree. */
    for (int i = 1; i < m - 1; i++)
        ck_assert_uint_eq(interrupted_frames[interrupted_depth - (unsigned)i],
                          (uintptr_t)theirs[m - i]);
    struct stack_frame f;
    bool sorted_by_libc = false;
    for (unsigned i = 0; i < interrupted_depth; i++) {
        const struct module *m1 = module_get(module_of(interrupted_frames[i] - 1));
        if (m1 && strstr(m1->path, "libc.so")) sorted_by_libc = true;
    }
    ck_assert(sorted_by_libc);
    ck_assert(!stack_frame(0, &f));
    void *stack = other.ss_sp;
    other = (stack_t){.ss_flags = SS_DISABLE};
    ck_assert_int_eq(sigaltstack(&other, NULL), 0);
    free(stack);
}
END_TEST

/* Our own frames at the top are left out: here "our text" is set to what holds the sampler. */
START_TEST(own_frames)
{
    uintptr_t frames[64];
    start();
    outer();
    unsigned n = stack_get(captured, frames, 64, NULL);
    unsigned at = position(frames, n, return_addresses[0]);
#ifdef SAMPLER_IS_SHARED
    ck_assert_uint_eq(at,
                      1); /* `inner` first: stack_start has found the library's text by itself */
    return;
#endif
    ck_assert_uint_gt(at, 0);
    uintptr_t low = UINTPTR_MAX, high = 0;
    for (unsigned i = 0; i < at; i++) {
        if (frames[i] < low) low = frames[i];
        if (frames[i] > high) high = frames[i];
    }
    stack_set_own_text(low - 1, high);
    if ((uintptr_t)return_addresses[0] - low < high - low) return; /* laid out in between */
    outer();
    n = stack_get(captured, frames, 64, NULL);
    ck_assert_uint_eq(frames[0], (uintptr_t)return_addresses[0]);
}
END_TEST

START_TEST(print)
{
    char text[4096];
    int ends[2];
    start();
    outer();
    ck_assert_int_eq(pipe(ends), 0);
    stack_print(ends[1], captured);
    close(ends[1]);
    ssize_t bytes = read(ends[0], text, sizeof text - 1);
    ck_assert_int_gt(bytes, 0);
    text[bytes] = 0;
    uintptr_t frames[64];
    ck_assert_uint_gt(stack_get(captured, frames, 64, NULL), 2);
    char line[64];
    snprintf(line, sizeof line, "    #0 0x%lx (/", (unsigned long)frames[0] - 1);
    ck_assert_ptr_eq(strstr(text, line), text);
    ck_assert_ptr_nonnull(strstr(text, "\n    #1 0x"));
    ck_assert_ptr_nonnull(strstr(text, "+0x"));
}
END_TEST

int main(void)
{
    void *first[2];
    backtrace(first, 2); /* loads libgcc */
    Suite *s = suite_create("stack");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, interning);
    tcase_add_test(t, interning_threads);
    tcase_add_test(t, full_table);
    tcase_add_test(t, capture);
    tcase_add_test(t, captures_wander);
    tcase_add_test(t, deep_recursion);
    tcase_add_test(t, depth_is_kept);
    tcase_add_test(t, one_frame_is_wanted);
    tcase_add_test(t, signal_handler);
    tcase_add_test(t, own_frames);
    tcase_add_test(t, print);
    suite_add_tcase(s, t);
    return suite_run(s);
}
