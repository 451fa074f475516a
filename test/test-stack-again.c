/* test-stack-again.c: stacks by the short ways (stack_find, stack_again) are those that a walk from nothing finds, and glibc's.

   Whatever a thread remembers of its stack may be out of date in each of the ways that there are: every check asks the
   short ways first, as the sampler does, and then a cache that has forgotten everything.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "sampler/stack_cache.h"
#include "sampler/unwind.h"

#include "relay_library.h"
#include "suite.h"
#include "wander.h"
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

/* AddressSanitizer's frames change their layout: then each stack is still held against a cold walk, but not by which way it was found. */
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED true
#else
#define SANITIZED false
#endif

static struct stack_cache *cache, *cold;
static unsigned found, again, walked; /* by which way the stacks came */
static uint32_t latest;               /* the id of the last one */
static bool only_ours;                /* glibc does not go the same way */

static void start(unsigned depth)
{
    struct sampler_options options = {.depth = depth};
    stack_start(&options);
}

/* The frame of the caller: its frame pointer and the address where this one returns to. */
#define check_here() check_frame(__builtin_frame_address(0))

static void compare_with_glibc(uint32_t id)
{
    void *theirs[256];
    uintptr_t ours[256];
    unsigned flags, n = stack_get(id, ours, 256, &flags), m = (unsigned)backtrace(theirs, 256), k = 0;
    ck_assert_uint_gt(n, 0);
    while (k < m && theirs[k] != (void *)ours[0]) k++;
    ck_assert_uint_lt(k, m);
    for (unsigned i = 0; i < n; i++) {
        ck_assert_uint_lt(k + i, m);
        ck_assert_uint_eq(ours[i], (uintptr_t)theirs[k + i]);
    }
    if (!(flags & STACK_CUT)) ck_assert_uint_eq(n, m - k);
}

NOINLINE static void check_frame(const uintptr_t *frame)
{
    uint32_t id = stack_find(cache, frame);
    if (id) {
        found++;
    } else if ((id = stack_again(cache, frame))) {
        again++;
    } else {
        id = stack_capture_frame(&cache, frame);
        walked++;
    }
    stack_cache_forget(cold);
    uint32_t right = stack_capture_frame(&cold, frame);
    ck_assert_uint_ne(right, 0);
    ck_assert_uint_eq(id, right);
    if (!only_ours) compare_with_glibc(id);
    latest = id;
}

/* A function that allocates: what is asked for is the stack of who calls it. */
NOINLINE static void allocate(void)
{
    check_here();
    __asm__ volatile("");
}

/* ---- nothing has changed, or everything in turn ---- */

NOINLINE static void two_places(void)
{
    allocate();
    __asm__ volatile("");
    allocate();
    __asm__ volatile("");
}

NOINLINE static void three_places(unsigned which)
{
    char room[200];
    __asm__ volatile("" : : "r"(room) : "memory");
    if (which == 0) allocate();
    else if (which == 1) two_places();
    else three_places(which - 2);
    __asm__ volatile("" : : "r"(room) : "memory");
}

NOINLINE static void many_places(void)
{
    for (unsigned i = 0; i < 5; i++) three_places(i);
    two_places();
}

/* Calls it from one place, which an unrolled loop does not, and counts the ways of the last two rounds. */
NOINLINE static void rounds(unsigned count, void (*what)(void))
{
    for (volatile unsigned i = 0; i < count; i++) {
        if (i == count - 2) found = again = walked = 0;
        __asm__ volatile("" : "+r"(what));
        what();
        __asm__ volatile("");
    }
}

/* More stacks than a set has places for may want the same ones, by their addresses: then elsewhere on the stack. */
NOINLINE static void repeat(unsigned count, void (*what)(void))
{
    for (volatile unsigned tries = 0; tries < 10; tries++) {
        char *room = __builtin_alloca(16 + tries * 272);
        __asm__ volatile("" : : "r"(room) : "memory");
        rounds(count, what);
        if (again + walked == 0) return;
        __asm__ volatile("" : : "r"(room) : "memory");
    }
}

/* As many as a set has places for: their innermost frames are one, and where they lie. */
NOINLINE static void callers_of_one_wrapper(void)
{
    two_places();
    __asm__ volatile("");
    two_places();
    __asm__ volatile("");
}
_Static_assert(STACK_WAYS >= 4, "two callers of two");

/* What a wrapper's callers allocate is found whoever has called it last. */
START_TEST(callers_come_again)
{
    start(64);
    repeat(6, callers_of_one_wrapper);
    ck_assert(SANITIZED || (again == 0 && walked == 0 && found == 8));
}
END_TEST

/* Once each of some stacks has been seen, all are found. */
START_TEST(stacks_that_come_again)
{
    start(64);
    repeat(6, many_places);
    ck_assert_uint_eq(again + walked, 0);
    ck_assert_uint_eq(found, 2 * (1 + 2 + 1 + 2 + 1 + 2));
}
END_TEST

/* An aligned frame. */
NOINLINE static void aligned_place(unsigned depth)
{
    _Alignas(64) char room[64];
    __asm__ volatile("" : : "r"(room) : "memory");
    if (depth > 0) aligned_place(depth - 1);
    allocate();
    __asm__ volatile("" : : "r"(room) : "memory");
}

NOINLINE static void aligned_places(void)
{
    aligned_place(0);
    __asm__ volatile("");
    aligned_place(3);
    __asm__ volatile("");
}

START_TEST(aligned_stacks_that_come_again)
{
    start(64);
    repeat(6, aligned_places);
    if (SANITIZED) return;
    ck_assert_uint_eq(again + walked, 0);
    ck_assert_uint_eq(found, 2 * 5);
}
END_TEST

/* Frames of many shapes come and go at the same places; all ways are taken. */
START_TEST(stacks_wander)
{
    unsigned state = 4711;
    start(64);
    wander(&state, 6, allocate);
    wander(&state, 6, allocate);
    ck_assert_uint_gt(found, 100);
    ck_assert_uint_gt(again, 100);
    if (!SANITIZED) ck_assert_uint_gt(walked, 10);
}
END_TEST

/* Deeper than the limit: what is kept ends elsewhere each time. */
START_TEST(stacks_are_cut)
{
    unsigned state = 42, flags;
    start(9);
    wander(&state, 7, allocate);
    start(9);
    wander(&state, 3, allocate);
    stack_get(latest, NULL, 0, &flags);
    ck_assert_uint_gt(found, 0);
}
END_TEST

/* ---- the innermost frames are the same, and one further out is another ---- */

NOINLINE static void relay(unsigned depth)
{
    if (depth > 0) relay(depth - 1);
    else allocate();
    __asm__ volatile("");
}

START_TEST(another_caller_far_out)
{
    start(64);
    for (unsigned i = 0; i < 4; i++)
        for (unsigned depth = 0; depth < 30; depth += 3) {
            relay(depth);
            uint32_t first = latest;
            __asm__ volatile("");
            relay(depth);
            ck_assert_uint_ne(first, latest);
            __asm__ volatile("");
        }
}
END_TEST

/* `inner` runs at one address under either caller: what one of them takes of the stack the other leaves to `between`.  The place where
   `between` kept its return address before lies in its array now, and holds it still. */
static uintptr_t inner_at[2];

NOINLINE static void inner(unsigned which)
{
    inner_at[which] = (uintptr_t)__builtin_frame_address(0);
    allocate();
    __asm__ volatile("");
}

NOINLINE static void between(unsigned which, size_t bytes)
{
    char *room = __builtin_alloca(bytes);
    __asm__ volatile("" : : "r"(room) : "memory");
    inner(which);
    __asm__ volatile("" : : "r"(room) : "memory");
}

NOINLINE static void caller_0(size_t bytes)
{
    char *room = __builtin_alloca(512 - bytes);
    __asm__ volatile("" : : "r"(room) : "memory");
    between(0, bytes);
    __asm__ volatile("" : : "r"(room) : "memory");
}

NOINLINE static void caller_1(size_t bytes)
{
    char *room = __builtin_alloca(512 - bytes);
    __asm__ volatile("" : : "r"(room) : "memory");
    between(1, bytes);
    __asm__ volatile("" : : "r"(room) : "memory");
}

NOINLINE static uint32_t call(void (*caller)(size_t), size_t bytes)
{
    caller(bytes);
    return latest;
}

START_TEST(another_frame_pointer)
{
    static void (*const caller[])(size_t) = {caller_0, caller_1, caller_1, caller_0};
    static const size_t bytes[] = {32, 256, 32, 256};
    uint32_t ids[4] = {0};
    start(64);
    for (volatile unsigned i = 0; i < 32; i++) { /* all from one place */
        uint32_t id = call(caller[i % 4], bytes[i % 4]);
        ck_assert(ids[i % 4] == 0 || ids[i % 4] == id);
        ids[i % 4] = id;
    }
    ck_assert_uint_eq(inner_at[0], inner_at[1]);
    ck_assert_uint_ne(ids[0], ids[1]);
    ck_assert_uint_eq(ids[0], ids[3]);
    ck_assert_uint_eq(ids[1], ids[2]);
}
END_TEST

static jmp_buf back;

static volatile unsigned goal;

NOINLINE static void dive(unsigned depth)
{
    char room[48];
    __asm__ volatile("" : : "r"(room) : "memory");
    allocate();
    if (depth == goal) longjmp(back, 1);
    if (depth < 100) dive(depth + 1);
    __asm__ volatile("" : : "r"(room) : "memory");
}

START_TEST(after_longjmp)
{
    start(64);
    for (volatile unsigned i = 0; i < 8; i++) {
        goal = 5 + i % 3;
        if (setjmp(back) == 0) dive(0);
        else relay(i);
        allocate();
    }
}
END_TEST

/* ---- other stacks ---- */

#define STACK_BYTES (64 * KIB)
static ucontext_t from_coroutine, coroutines[2];

static void run_0(void)
{
    for (;;) {
        relay(3);
        swapcontext(&coroutines[0], &from_coroutine);
        allocate();
    }
}

static void run_1(void)
{
    for (;;) {
        allocate();
        relay(2);
        swapcontext(&coroutines[1], &from_coroutine);
    }
}

static void *stack_at(void *at)
{
    void *p = mmap(at, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);
    ck_assert_ptr_ne(p, MAP_FAILED);
    return p;
}

static void make_coroutine(unsigned i, void *stack)
{
    getcontext(&coroutines[i]);
    coroutines[i].uc_stack.ss_sp = stack;
    coroutines[i].uc_stack.ss_size = STACK_BYTES;
    makecontext(&coroutines[i], i ? run_1 : run_0, 0);
}

/* In turn, and on a stack where another has been, which was unmapped in between. */
START_TEST(coroutines_switch)
{
    void *stack[2] = {stack_at(NULL), stack_at(NULL)};
    start(64);
    for (unsigned round = 0; round < 6; round++) {
        make_coroutine(0, stack[round & 1]);
        make_coroutine(1, stack[~round & 1]);
        for (unsigned i = 0; i < 6; i++) {
            swapcontext(&from_coroutine, &coroutines[i % 2]);
            relay(i);
        }
        munmap(stack[0], STACK_BYTES);
        munmap(stack[1], STACK_BYTES);
        for (unsigned i = 0; i < 6; i++) relay(i);
        stack_at(stack[0]);
        stack_at(stack[1]);
    }
}
END_TEST

/* glibc's backtrace has the interrupted instruction's address, ours the one after it. */
static void on_signal(int signal)
{
    (void)signal;
    only_ours = true;
    allocate();
    relay(2);
    only_ours = false;
}

NOINLINE static void raise_at(unsigned depth)
{
    if (depth > 0) raise_at(depth - 1);
    else raise(SIGUSR1);
    allocate();
}

START_TEST(handlers_on_either_stack)
{
    static char other[STACK_BYTES];
    stack_t alternate = {.ss_sp = other, .ss_size = sizeof other};
    ck_assert_int_eq(sigaltstack(&alternate, NULL), 0);
    start(64);
    for (unsigned flags = 0; flags < 2; flags++) {
        struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags ? SA_ONSTACK : 0};
        ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
        for (unsigned i = 0; i < 12; i++) raise_at(i % 4);
    }
}
END_TEST

/* ---- our own code in between ---- */

/* As operator new, which is ours and calls what takes the stack. */
#define OWN __attribute__((section("own_code"), noinline))
extern const char __start_own_code[], __stop_own_code[];

OWN static void own_inner(size_t bytes)
{
    char room[40];
    __asm__ volatile("" : : "r"(room), "r"(bytes) : "memory");
    allocate();
    __asm__ volatile("" : : "r"(room) : "memory");
}

OWN static void own_outer(void)
{
    own_inner(1);
    __asm__ volatile("");
}

NOINLINE static void by_own(unsigned depth)
{
    if (depth > 0) by_own(depth - 1);
    own_outer();
    __asm__ volatile("");
    own_inner(2);
    __asm__ volatile("");
}

NOINLINE static void by_own_4(void)
{
    by_own(4);
    __asm__ volatile("");
}

START_TEST(own_frames_are_left_out)
{
    start(64);
    stack_set_own_text((uintptr_t)__start_own_code, (uintptr_t)__stop_own_code);
    only_ours = true;
    repeat(8, by_own_4);
    uintptr_t frames[64];
    unsigned n = stack_get(latest, frames, 64, NULL);
    for (unsigned k = 0; k < n; k++)
        ck_assert(frames[k] - (uintptr_t)__start_own_code >= (uintptr_t)(__stop_own_code - __start_own_code));
    if (!SANITIZED) ck_assert_uint_eq(again + walked, 0);
    if (!SANITIZED) ck_assert_uint_eq(found, 20);
    stack_set_own_text(0, 0);
}
END_TEST

/* ---- other code at the same address ---- */

/* The libraries' frames differ in size, so the rules at one address do. */
START_TEST(another_library_at_its_place)
{
    uintptr_t first = 0, at;
    unsigned same_place = 0;
    start(64);
    for (unsigned i = 0; i < 8; i++) {
        void *library = open_library(i % 2 ? "libtest_module_b.so" : "libtest_module_a.so", &at);
        if (i == 0) first = at;
        same_place += at == first;
        relay_fn *through = (relay_fn *)(uintptr_t)dlsym(library, "relay");
        ck_assert_ptr_nonnull(through);
        for (unsigned k = 0; k < 3; k++) through(allocate);
        struct stack_frame f;
        bool in_it = false;
        for (uint32_t id = latest; stack_frame(id, &f); id = f.parent) {
            const struct module *m = module_get(f.module);
            in_it |= m && strstr(m->path, i % 2 ? "libtest_module_b" : "libtest_module_a");
        }
        ck_assert(in_it);
        dlclose(library);
        module_changed();
    }
    ck_assert_uint_gt(same_place, 1);
    ck_assert_uint_gt(found, 0);
}
END_TEST

/* ---- what is no use ---- */

NOINLINE static void find_nothing(void)
{
    const uintptr_t *frame = __builtin_frame_address(0);
    ck_assert_uint_eq(stack_find(NULL, frame), 0);
    ck_assert_uint_eq(stack_find(cache, NULL), 0);
    uint32_t id = stack_capture_frame(&cache, frame);
    ck_assert_uint_ne(id, 0);
    ck_assert_uint_eq(stack_find(cache, frame), id);
    stack_cache_forget(cache); /* a forked child */
    ck_assert_uint_eq(stack_find(cache, frame), 0);
    ck_assert_uint_eq(stack_again(cache, frame), 0);
    ck_assert_uint_eq(stack_capture_frame(&cache, frame), id);
    ck_assert_uint_eq(stack_find(cache, frame), id);
    module_changed();
    ck_assert_uint_eq(stack_find(cache, frame), 0);
    ck_assert_uint_eq(stack_again(cache, frame), 0);
}

START_TEST(nothing_is_found)
{
    start(64);
    find_nothing();
    ck_assert_uint_eq(stack_capture_frame(&cold, NULL) == 0, 0); /* where there is no such frame */
}
END_TEST

NOINLINE static void new_place(void)
{
    const uintptr_t *frame = __builtin_frame_address(0);
    ck_assert_uint_eq(stack_find(cache, frame), 0);
    ck_assert_uint_eq(stack_again(cache, frame), 0);
    ck_assert_uint_eq(stack_capture_frame(&cache, frame), 0);
    ck_assert_uint_eq(stack_find(cache, frame), 0);
}

/* With the tree full the short ways give none rather than a wrong one. */
START_TEST(full_tree)
{
    start(64);
    for (unsigned i = 0; i < 3; i++) two_places();
    stack_set_limit(1);
    uintptr_t frames[2] = {0x1000, 0x2000};
    /* One unit may be left that some other stack needs two of. */
    for (unsigned refused = 0; refused < 1000; frames[0]++, frames[1] += 3) refused += !stack_intern(frames, 2, 0);
    new_place();
    __asm__ volatile("");
}
END_TEST

int main(void)
{
    void *first[2];
    backtrace(first, 2); /* loads libgcc */
    Suite *s = suite_create("stack again");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, callers_come_again);
    tcase_add_test(t, stacks_that_come_again);
    tcase_add_test(t, aligned_stacks_that_come_again);
    tcase_add_test(t, stacks_wander);
    tcase_add_test(t, stacks_are_cut);
    tcase_add_test(t, another_caller_far_out);
    tcase_add_test(t, another_frame_pointer);
    tcase_add_test(t, after_longjmp);
    tcase_add_test(t, coroutines_switch);
    tcase_add_test(t, handlers_on_either_stack);
    tcase_add_test(t, own_frames_are_left_out);
    tcase_add_test(t, another_library_at_its_place);
    tcase_add_test(t, nothing_is_found);
    tcase_add_test(t, full_tree);
    suite_add_tcase(s, t);
    return suite_run(s);
}
