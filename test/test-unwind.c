/* test-unwind.c: the ways to take a stack: tables, frame pointers, libunwind, and across forks.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "sampler/module.h"
#include "sampler/sampler.h"
#include "sampler/stack.h"
#include "sampler/unwind.h"
#include "sampler/walk.h"
#include "suite.h"

#include <check.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

static uintptr_t frames[256];
static unsigned depth;
static char warning[256];
static unsigned warnings;

static void warn(const char *line)
{
    snprintf(warning, sizeof warning, "%s", line);
    warnings++;
}

static void start(enum sampler_unwinder unwinder)
{
    struct sampler_options options = {.depth = 64, .unwinder = unwinder, .warn = warn};
    stack_start(&options);
}

NOINLINE static void take(void)
{
    depth = unwind_here(frames, 256);
}

static bool on_stack(const void *address)
{
    for (unsigned i = 0; i < depth; i++)
        if (frames[i] == (uintptr_t)address) return true;
    return false;
}

/* A coroutine's stack: the walk stays on it and ends at its first function. */
static ucontext_t here, there;
static void *called_from;

NOINLINE static void coroutine_work(void)
{
    called_from = __builtin_return_address(0);
    take();
    __asm__ volatile("");
}

static void coroutine(void)
{
    coroutine_work(), __atomic_signal_fence(5);
}

START_TEST(coroutines)
{
    size_t bytes = 32 * KIB;
    char *stack = mmap(NULL, bytes + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_int_eq(mprotect(stack + 4096, bytes, PROT_READ | PROT_WRITE), 0);
    getcontext(&there);
    there.uc_stack.ss_sp = stack + 4096; /* with guards on both sides: a step too far is fatal */
    there.uc_stack.ss_size = bytes;
    there.uc_link = &here;
    makecontext(&there, coroutine, 0);
    start(SAMPLER_LIBUNWIND);
    ck_assert_int_eq(swapcontext(&here, &there), 0);
    ck_assert(on_stack(called_from));
    ck_assert_uint_ge(depth, 3);
    ck_assert_uint_le(depth, 8);
}
END_TEST

/* Garbage in the frame pointer never faults and never goes down. */
START_TEST(bad_frame_pointers)
{
    uintptr_t got[16];
    char *pages = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_int_eq(mprotect(pages + 4096, 4096, PROT_NONE), 0);
    uintptr_t low = (uintptr_t)pages;
    const uintptr_t bad[] = {
        0,          1,           low + 1,         low + 4096 - 8,     low + 4096,
        low - 4096, UINTPTR_MAX, UINTPTR_MAX - 7, (uintptr_t)1 << 47, 16};
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct walk_state s = {.pc = 0x401000, .sp = low, .fp = bad[i]};
        ck_assert_uint_eq(walk_frame_pointers(&s, got, 16), 0);
    }
    /* A chain of two records, the second of which points to itself, then one down. */
    uintptr_t *words = (uintptr_t *)pages;
    words[0] = low + 32, words[1] = 0x401111;
    words[4] = low + 32, words[5] = 0x402222;
    struct walk_state s = {.pc = 0x401000, .sp = low, .fp = low};
    ck_assert_uint_eq(walk_frame_pointers(&s, got, 16), 2);
    ck_assert_uint_eq(got[0], 0x401111);
    ck_assert_uint_eq(got[1], 0x402222);
    ck_assert(walk_readable(low) && !walk_readable(low + 4096) && !walk_readable(8));
}
END_TEST

#if defined(__x86_64__)
/* Code that no table describes, as a just-in-time compiler makes it, with a frame pointer:
   push rbp; mov rbp, rsp; call rdi; pop rbp; ret */
START_TEST(generated_code)
{
    static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
    unsigned char *page =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, code, sizeof code);
    ck_assert_int_eq(mprotect(page, 4096, PROT_READ | PROT_EXEC), 0);
    start(SAMPLER_LIBUNWIND);
    void (*call)(void (*)(void));
    memcpy(&call, &page, sizeof call);
    take();
    unsigned without = depth;
    call(take);
    ck_assert(on_stack(page + 6));
    ck_assert_uint_eq(depth, without + 1);
    uint32_t id = stack_intern(frames, depth, 0);
    ck_assert_uint_ne(id, 0);
    ck_assert_uint_eq(module_of((uintptr_t)page), 0);
}
END_TEST

/* A frame whose rule is an expression that needs more than fp and sp: the walker gives up there and
   libunwind takes over.  DW_CFA_def_cfa_expression, 4 bytes: breg7 (rsp) 16, lit0, plus. */
void odd_frame(void (*)(void));
__asm__(".text\n.type odd_frame, @function\n.globl odd_frame\n.hidden odd_frame\n"
        "odd_frame:\n.cfi_startproc\n"
        "sub $8, %rsp\n.cfi_escape 0x0f, 4, 0x77, 16, 0x30, 0x22\n"
        "call *%rdi\n"
        "add $8, %rsp\n.cfi_def_cfa rsp, 8\nret\n"
        ".cfi_endproc\n.size odd_frame, . - odd_frame\n");

START_TEST(libunwind_takes_over)
{
    struct unwind_stats stats;
    start(SAMPLER_LIBUNWIND);
    take();
    unsigned plain = depth;
    unwind_stats(&stats);
    ck_assert_uint_eq(stats.fallbacks, 0);
    ck_assert(!unwind_has_libunwind()); /* not before it is needed */
    odd_frame(take);
    unwind_stats(&stats);
    ck_assert_uint_eq(stats.fallbacks, 1);
    ck_assert(unwind_has_libunwind());
    ck_assert_uint_eq(stats.refused, 0);
    ck_assert_uint_ge(depth, plain);
    ck_assert_uint_eq(warnings, 0);
}
END_TEST

static void *in_thread(void *unused)
{
    (void)unused;
    odd_frame(take);
    return NULL;
}

/* Never opened in a process that has threads; the inner part of the stack is kept. */
START_TEST(libunwind_not_with_threads)
{
    struct unwind_stats stats;
    pthread_t t;
    start(SAMPLER_LIBUNWIND);
    sampler_prepare_threads(); /* not needed so far: not opened */
    pthread_create(&t, NULL, in_thread, NULL);
    pthread_join(t, NULL);
    unwind_stats(&stats);
    ck_assert_uint_eq(stats.refused, 1);
    ck_assert(!unwind_has_libunwind());
    ck_assert_uint_ge(depth, 2);
    ck_assert_uint_le(depth, 4);
}
END_TEST

/* Once open it serves threads, and after a dlclose (its caches keep rules of what is gone) no more.
 */
START_TEST(libunwind_and_dlclose)
{
    struct unwind_stats stats;
    pthread_t t;
    start(SAMPLER_LIBUNWIND);
    odd_frame(take);
    pthread_create(&t, NULL, in_thread, NULL);
    pthread_join(t, NULL);
    unwind_stats(&stats);
    ck_assert_uint_eq(stats.refused, 0);
    sampler_modules_changed();
    odd_frame(take);
    unwind_stats(&stats);
    ck_assert_uint_eq(stats.refused, 1);
}
END_TEST

/* A child of a process with one thread may go on with libunwind, one of a process with threads not.
 */
START_TEST(forked_child)
{
    struct unwind_stats stats;
    pthread_t t;
    start(SAMPLER_LIBUNWIND);
    odd_frame(take);
    for (unsigned threads = 0; threads < 2; threads++) {
        if (threads) {
            pthread_create(&t, NULL, in_thread, NULL);
            pthread_join(t, NULL);
        }
        unwind_fork_prepare();
        pid_t child = fork();
        if (child == 0) {
            unwind_fork_child();
            odd_frame(take);
            unwind_stats(&stats);
            _exit((int)stats.refused);
        }
        unwind_fork_parent();
        int status;
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_int_eq(status, threads ? 0x100 : 0);
    }
    odd_frame(take);
    unwind_stats(&stats);
    ck_assert_uint_eq(stats.refused, 0);
}
END_TEST

static atomic_bool stop;

static void *load_and_unload(void *unused)
{
    (void)unused;
    while (!atomic_load(&stop)) {
        void *library = dlopen("libunwind-ptrace.so.0", RTLD_NOW | RTLD_LOCAL);
        if (!library) library = dlopen("libresolv.so.2", RTLD_NOW | RTLD_LOCAL);
        if (library) dlclose(library);
    }
    return NULL;
}

static void *unwind_all_the_time(void *unused)
{
    (void)unused;
    while (!atomic_load(&stop)) {
        uintptr_t mine[64];
        (void)unwind_here(mine, 64);
    }
    return NULL;
}

/* Children forked while other threads are inside the loader or unwind: each takes stacks, also with
   the odd frame, under the watch of an alarm. */
START_TEST(fork_beside_loader)
{
    pthread_t loader, other;
    start(SAMPLER_LIBUNWIND);
    odd_frame(take);
    pthread_create(&loader, NULL, load_and_unload, NULL);
    pthread_create(&other, NULL, unwind_all_the_time, NULL);
    for (unsigned i = 0; i < 100; i++) {
        unwind_fork_prepare();
        pid_t child = fork();
        if (child == 0) {
            unwind_fork_child();
            alarm(20);
            take();
            if (depth < 4) _exit(1);
            odd_frame(take);
            if (stack_capture(NULL) == 0) _exit(2);
            _exit(0);
        }
        unwind_fork_parent();
        int status;
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_msg(status == 0, "child %u: status %x", i, (unsigned)status);
    }
    atomic_store(&stop, true);
    pthread_join(loader, NULL);
    pthread_join(other, NULL);
}
END_TEST
#endif

/* With frame pointers asked for, what has them is found; this file is compiled with them. */
NOINLINE static void fp_inner(void)
{
    called_from = __builtin_return_address(0);
    take();
    __asm__ volatile("");
}

NOINLINE static void fp_outer(void)
{
    fp_inner();
    __asm__ volatile("");
}

START_TEST(frame_pointer_mode)
{
    start(SAMPLER_FRAME_POINTERS);
    fp_outer();
    ck_assert(on_stack(called_from));
    ck_assert_uint_ge(depth, 3);
}
END_TEST

/* A thousand stacks of one frame give one line. */
START_TEST(warns_of_shallow_stacks)
{
    start(SAMPLER_FRAME_POINTERS);
    for (unsigned i = 0; i < 1000; i++) unwind_judge(1);
    ck_assert_uint_eq(warnings, 1);
    ck_assert_ptr_nonnull(strstr(warning, "one frame deep"));
}
END_TEST

START_TEST(does_not_warn_of_others)
{
    start(SAMPLER_FRAME_POINTERS);
    for (unsigned i = 0; i < 1000; i++) unwind_judge(i == 50 ? 7 : 1);
    ck_assert_uint_eq(warnings, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("unwind");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, coroutines);
    tcase_add_test(t, bad_frame_pointers);
#if defined(__x86_64__)
    tcase_add_test(t, generated_code);
    tcase_add_test(t, libunwind_takes_over);
    tcase_add_test(t, libunwind_not_with_threads);
    tcase_add_test(t, libunwind_and_dlclose);
    tcase_add_test(t, forked_child);
    tcase_add_test(t, fork_beside_loader);
#endif
    tcase_add_test(t, frame_pointer_mode);
    tcase_add_test(t, warns_of_shallow_stacks);
    tcase_add_test(t, does_not_warn_of_others);
    suite_add_tcase(s, t);
    return suite_run(s);
}
