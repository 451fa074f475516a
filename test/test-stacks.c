/* test-stacks.c: what of the threads' stacks counts: from the red zone up, all of a stack that is suspended, and both
   stacks of a thread in a handler on an alternate one; registers; and pointers that only the kernel holds.

   The roots are looked for in a signal handler, with its context as the thread's, as a parked thread's would be.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "heap/kernel_roots.h"
#include "heap/registers.h"
#include "test/roots_support.h"
#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static struct cut_range own; /* the thread's own stack; 0, 0: not said */
static struct roots roots;
static volatile int signals;
static uint64_t in_register; /* number of the word that a register holds, if any */
static size_t register_hits;
static enum root_kind register_kind;

static void on_signal(int sig, siginfo_t *info, void *context)
{
    struct cut_thread self = {.context = context, .stack_low = own.from, .stack_high = own.to};
    struct cut cut = {.thread = &self, .threads = 1};
    struct roots_options options = {.part = ROOTS_ALL};
    roots_free(&roots);
    roots_find(&roots, &cut, &options);
    if (in_register) register_hits = delivered(&roots, in_register, &register_kind);
    signals++;
}

/* raise is declared to leave our variables alone. */
static void send(int sig)
{
    raise(sig);
    __asm__ volatile("" : : : "memory");
}

static void listen(int flags)
{
    struct sigaction act = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | flags};
    ck_assert_int_eq(sigaction(SIGUSR1, &act, NULL), 0);
    signals = 0;
    own = (struct cut_range){0, 0};
}

static char *map(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(p, MAP_FAILED);
    return p;
}

static char *use_alternate_stack(void)
{
    char *memory = map(1 << 18);
    stack_t alternate = {.ss_sp = memory, .ss_size = 1 << 18};
    ck_assert_int_eq(sigaltstack(&alternate, NULL), 0);
    return memory;
}

/* Sends the signal with the stack pointer 16 KiB down; word 1 is in the red zone, word 2 below it, word 3 above. */
static uintptr_t *low; /* the stack pointer then */

static __attribute__((noinline)) void hide_around_sp(void)
{
    volatile uintptr_t area[2048 + 512];
    low = (uintptr_t *)&area[1024];
    for (size_t i = 0; i < sizeof area / sizeof *area; i++) area[i] = 0;
#if defined(__x86_64__)
    hide((char *)low - 64, 1);
#endif
    hide((char *)low - RED_ZONE - 64, 2);
    hide(low, 3);
    long nr = SYS_tgkill, pid = getpid(), tid = gettid();
#if defined(__x86_64__)
    __asm__ volatile("mov %%rsp, %%rbx\n\tmov %[low], %%rsp\n\tsyscall\n\tmov %%rbx, %%rsp"
                     : "+a"(nr)
                     : [low] "r"(low), "D"(pid), "S"(tid), "d"((long)SIGUSR1)
                     : "rbx", "rcx", "r11", "memory");
#else
    register long x8 __asm__("x8") = nr;
    register long x0 __asm__("x0") = pid;
    register long x1 __asm__("x1") = tid;
    register long x2 __asm__("x2") = SIGUSR1;
    __asm__ volatile("mov x20, sp\n\tmov sp, %[low]\n\tsvc 0\n\tmov sp, x20"
                     : "+r"(x0)
                     : [low] "r"(low), "r"(x8), "r"(x1), "r"(x2)
                     : "x20", "memory");
#endif
}

static void check_around_sp(void)
{
    ck_assert_int_eq(signals, 1);
    ck_assert(roots.complete);
#if defined(__x86_64__)
    ck_found(&roots, 1, (char *)low - 64, ROOT_STACK);
#endif
    ck_not_found(&roots, 2, (char *)low - RED_ZONE - 64);
    ck_found(&roots, 3, low, ROOT_STACK);
}

START_TEST(test_main_stack)
{
    use_alternate_stack(); /* lest our frame overwrites what is below */
    listen(SA_ONSTACK);
    uint64_t above[2];
    hide(above, 4);
    hide_around_sp();
    check_around_sp();
    ck_found(&roots, 4, above, ROOT_STACK);
}
END_TEST

static void *in_thread(void *unused)
{
    static _Thread_local uint64_t in_tls[2];
    pthread_attr_t attributes;
    void *stack;
    size_t bytes;
    ck_assert_int_eq(pthread_getattr_np(pthread_self(), &attributes), 0);
    pthread_attr_getstack(&attributes, &stack, &bytes);
    use_alternate_stack();
    listen(SA_ONSTACK);
    own = (struct cut_range){(uintptr_t)stack, (uintptr_t)stack + bytes};
    hide(in_tls, 4);
    hide_around_sp();
    check_around_sp();
    enum root_kind kind;
    ck_assert_uint_eq(delivered(&roots, 4, &kind), 1);
    return NULL;
}

START_TEST(test_thread_stack)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, in_thread, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
END_TEST

/* A stack that nobody has described counts as a whole. */
START_TEST(test_unknown_stack)
{
    use_alternate_stack();
    listen(SA_ONSTACK);
    char *elsewhere = map(PAGE);
    hide(elsewhere, 5);
    struct cut_thread threads[] = {
        {.sp = (uintptr_t)elsewhere + 512},
        {.sp = 0, .stack_low = (uintptr_t)elsewhere, .stack_high = (uintptr_t)elsewhere + PAGE}};
    for (int i = 0; i < 2; i++) {
        struct cut cut = {.thread = &threads[i], .threads = 1};
        struct roots_options options = {.part = ROOTS_ALL};
        struct roots r;
        roots_find(&r, &cut, &options);
        ck_found(&r, 5, elsewhere, i ? ROOT_STACK : ROOT_PRIVATE);
        roots_free(&r);
    }
}
END_TEST

/* Without a context: from the stack pointer that the cut knows. */
START_TEST(test_without_context)
{
    char *stack = map(16 * PAGE);
    for (size_t i = 0; i < 16; i++) hide(stack + i * PAGE, i);
    struct cut_thread t = {.sp = (uintptr_t)stack + 7 * PAGE + 256,
                           .stack_low = (uintptr_t)stack,
                           .stack_high = (uintptr_t)stack + 16 * PAGE};
    struct cut cut = {.thread = &t, .threads = 1};
    struct roots_options options = {.part = ROOTS_ALL};
    struct roots r;
    roots_find(&r, &cut, &options);
    for (size_t i = 0; i < 16; i++) {
        if (i < 8) ck_assert_ptr_null(root_at(&r, stack + i * PAGE));
        if (i >= 8) ck_found(&r, i, stack + i * PAGE, ROOT_STACK);
    }
    ck_assert_ptr_nonnull(root_at(&r, stack + 7 * PAGE + 256 - RED_ZONE));
    ck_assert_ptr_null(root_at(&r, stack + 7 * PAGE + 256 - RED_ZONE - 8));
    roots_free(&r);
}
END_TEST

/* Of two threads on one stack the lower counts. */
START_TEST(test_shared_stack)
{
    char *stack = map(16 * PAGE);
    for (size_t i = 0; i < 16; i++) hide(stack + i * PAGE, i);
    struct cut_thread threads[] = {
        {.sp = (uintptr_t)stack + 12 * PAGE,
         .stack_low = (uintptr_t)stack,
         .stack_high = (uintptr_t)stack + 16 * PAGE},
        {.sp = (uintptr_t)stack + 5 * PAGE},
    };
    struct cut cut = {.thread = threads, .threads = 2};
    struct roots_options options = {.part = ROOTS_ALL};
    struct roots r;
    roots_find(&r, &cut, &options);
    ck_assert_ptr_null(root_at(&r, stack + 4 * PAGE));
    ck_found(&r, 5, stack + 5 * PAGE, ROOT_STACK);
    ck_found(&r, 12, stack + 12 * PAGE, ROOT_STACK);
    roots_free(&r);
}
END_TEST

static ucontext_t of_main, of_coroutine;

static void coroutine(void)
{
    uint64_t here[2];
    hide(here, 6);
    send(SIGUSR1);
    ck_assert_int_eq(signals, 1);
    ck_found(&roots, 6, here, ROOT_PRIVATE);
}

/* While a coroutine runs, all of the thread's own stack is suspended: also what lies below the frame that switched. */
START_TEST(test_coroutine)
{
    use_alternate_stack();
    listen(SA_ONSTACK);
    hide_around_sp(); /* leaves word 2 behind, far below */
    uintptr_t *below = low;
    signals = 0;
    uint64_t here[2];
    hide(here, 7);
    ck_assert_int_eq(getcontext(&of_coroutine), 0);
    of_coroutine.uc_stack.ss_sp = map(1 << 16);
    of_coroutine.uc_stack.ss_size = 1 << 16;
    of_coroutine.uc_link = &of_main;
    makecontext(&of_coroutine, coroutine, 0);
    ck_assert_int_eq(swapcontext(&of_main, &of_coroutine), 0);
    ck_found(&roots, 7, here, ROOT_PRIVATE);
    ck_assert_ptr_nonnull(root_at(&roots, (char *)below - RED_ZONE - 64));
}
END_TEST

/* The same where it is said which stack is the thread's. */
START_TEST(test_coroutine_of_thread)
{
    char *stack = map(16 * PAGE), *elsewhere = map(PAGE);
    for (size_t i = 0; i < 16; i++) hide(stack + i * PAGE, i);
    struct cut_thread t = {.sp = (uintptr_t)elsewhere + 2048,
                           .stack_low = (uintptr_t)stack,
                           .stack_high = (uintptr_t)stack + 16 * PAGE};
    struct cut cut = {.thread = &t, .threads = 1};
    struct roots_options options = {.part = ROOTS_ALL};
    struct roots r;
    roots_find(&r, &cut, &options);
    for (size_t i = 0; i < 16; i++) ck_found(&r, i, stack + i * PAGE, ROOT_STACK);
    roots_free(&r);
}
END_TEST

static uint64_t *on_alternate_stack;

static void handler_of_program(int sig)
{
    uint64_t here[2];
    hide(here, 8);
    on_alternate_stack = here;
    send(SIGUSR1);
    ck_found(&roots, 8, here, ROOT_PRIVATE);
}

START_TEST(test_handler_on_alternate_stack)
{
    char *alternate = use_alternate_stack();
    struct sigaction act = {.sa_handler = handler_of_program, .sa_flags = SA_ONSTACK};
    ck_assert_int_eq(sigaction(SIGUSR2, &act, NULL), 0);
    listen(SA_ONSTACK);
    uint64_t here[2];
    hide(here, 9);
    send(SIGUSR2);
    ck_assert_int_eq(signals, 1);
    ck_assert((char *)on_alternate_stack > alternate &&
              (char *)on_alternate_stack < alternate + (1 << 18));
    ck_found(&roots, 9, here, ROOT_PRIVATE);
}
END_TEST

/* An alternate stack in an array on the normal one: the stack pointer in it says nothing of the normal one. */
static __attribute__((noinline)) void with_alternate_within(void)
{
    char array[1 << 16];
    stack_t alternate = {.ss_sp = array, .ss_size = sizeof array}, none = {.ss_flags = SS_DISABLE};
    ck_assert_int_eq(sigaltstack(&alternate, NULL), 0);
    struct cut_thread self = {.stack_low = (uintptr_t)__builtin_frame_address(0) - (3 << 15),
                              .stack_high = (uintptr_t)array + sizeof array};
    ucontext_t uc;
    ck_assert_int_eq(getcontext(&uc), 0);
    uc.uc_stack = alternate;
#if defined(__x86_64__)
    uc.uc_mcontext.gregs[REG_RSP] = (greg_t)(uintptr_t)(array + sizeof array / 2);
#else
    uc.uc_mcontext.sp = (uintptr_t)(array + sizeof array / 2);
#endif
    self.context = &uc;
    struct cut cut = {.thread = &self, .threads = 1};
    struct roots_options options = {.part = ROOTS_ALL};
    struct roots r;
    memset(array, 0, sizeof array);
    roots_find(&r, &cut, &options);
    ck_assert_ptr_nonnull(root_at(&r, array));
    volatile uintptr_t end = (uintptr_t)array;
    ck_assert_ptr_nonnull(root_at(&r, (void *)(end - 64))); /* where our callees were */
    roots_free(&r);
    ck_assert_int_eq(sigaltstack(&none, NULL), 0);
}

START_TEST(test_alternate_within_normal)
{
    with_alternate_within();
}
END_TEST

/* Words that only registers hold, and the frame that the kernel saved them in, below the stack pointer. */
START_TEST(test_register_roots)
{
    listen(0);
    own = (struct cut_range){0, 0};
    long nr = SYS_tgkill, pid = getpid(), tid = gettid();
    in_register = 11;
    uint64_t complement = complement_of_0 + in_register;
#if defined(__x86_64__)
    __asm__ volatile("mov %[from], %%r13\n\tnot %%r13\n\tsyscall"
                     : "+a"(nr)
                     : [from] "m"(complement), "D"(pid), "S"(tid), "d"((long)SIGUSR1)
                     : "r13", "rcx", "r11", "memory");
#else
    register long x8 __asm__("x8") = nr;
    register long x0 __asm__("x0") = pid;
    register long x1 __asm__("x1") = tid;
    register long x2 __asm__("x2") = SIGUSR1;
    __asm__ volatile("ldr x21, %[from]\n\tmvn x21, x21\n\tsvc 0"
                     : "+r"(x0)
                     : [from] "m"(complement), "r"(x8), "r"(x1), "r"(x2)
                     : "x21", "memory");
#endif
    ck_assert_uint_eq(register_hits, 1);
    ck_assert_int_eq(register_kind, ROOT_REGISTERS);
}
END_TEST

static bool holds(const struct words *w, uintptr_t word)
{
    for (size_t i = 0; i < w->count; i++) {
        if (w->word[i] == word) return true;
    }
    return false;
}

/* By the thread itself, or (`other`) by one that has a table of its own, as the stopper's helper has. */
static uint32_t asked_thread;

static void *ask_for_other(void *words)
{
    ck_assert_int_eq(unshare(CLONE_FILES), 0);
    close_range(0, ~0u, 0);
    kernel_roots(words, asked_thread);
    return NULL;
}

static void ask(struct words *to, int other)
{
    asked_thread = (uint32_t)gettid();
    pthread_t thread;
    if (!other) {
        kernel_roots(to, asked_thread);
        return;
    }
    ck_assert_int_eq(pthread_create(&thread, NULL, ask_for_other, to), 0);
    pthread_join(thread, NULL);
}

START_TEST(test_epoll)
{
    int a = epoll_create1(0), b = epoll_create1(0), p[2], q[2];
    ck_assert(a >= 0 && b >= 0 && pipe(p) == 0 && pipe(q) == 0);
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = (void *)0x7f12345678a0};
    ck_assert_int_eq(epoll_ctl(a, EPOLL_CTL_ADD, p[0], &e), 0);
    e.data.u64 = 0xfedcba9876543210;
    ck_assert_int_eq(epoll_ctl(b, EPOLL_CTL_ADD, p[0], &e), 0);
    e.data.u64 = 7;
    ck_assert_int_eq(epoll_ctl(b, EPOLL_CTL_ADD, q[1], &e), 0);
    struct words w = {0};
    ask(&w, _i);
    ck_assert(!w.incomplete);
    ck_assert(holds(&w, 0x7f12345678a0) && holds(&w, 0xfedcba9876543210) && holds(&w, 7));
    ck_assert_uint_eq(w.count, 3);
    words_free(&w);
    ck_assert_ptr_null(w.word);
}
END_TEST

/* More registrations than a buffer holds, and more descriptors than a listing. */
START_TEST(test_very_many_registrations)
{
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max < 12000 ? limit.rlim_max : 12000;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    int e = epoll_create1(0), p[2];
    ck_assert_int_eq(pipe(p), 0);
    size_t n = 0;
    for (int fd; n < 10000 && (fd = dup(p[0])) >= 0; n++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0x7f0000000000 + n * 16};
        if (epoll_ctl(e, EPOLL_CTL_ADD, fd, &event) != 0) break;
    }
    ck_assert_uint_gt(n, 500);
    struct words w = {0};
    ask(&w, _i);
    ck_assert(!w.incomplete);
    ck_assert_uint_eq(w.count, n);
    uintptr_t sum = 0;
    for (size_t i = 0; i < w.count; i++) sum += (w.word[i] - 0x7f0000000000) / 16;
    ck_assert_uint_eq(sum, n * (n - 1) / 2);
    words_free(&w);
}
END_TEST

START_TEST(test_timers)
{
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL,
                             .sigev_signo = SIGUSR2,
                             .sigev_value.sival_ptr = (void *)0x7fabcdef0120};
    ck_assert_int_eq(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
    struct words w = {0};
    kernel_roots(&w, (uint32_t)gettid());
    ck_assert(!w.incomplete);
    /* Where the kernel shows timers at all (CONFIG_CHECKPOINT_RESTORE). */
    if (access("/proc/self/timers", R_OK) == 0) ck_assert(holds(&w, 0x7fabcdef0120));
    words_free(&w);
    timer_delete(timer);
}
END_TEST

START_TEST(test_no_such_thread)
{
    struct words w = {0};
    kernel_roots(&w, 0x7ffffff0);
    ck_assert(w.incomplete);
    words_free(&w);
}
END_TEST

/* What is only read leaves no descriptor behind. */
START_TEST(test_descriptors)
{
    int before = dup(0);
    close(before);
    struct words w = {0};
    kernel_roots(&w, (uint32_t)gettid());
    find_all(&roots, ROOTS_ALL, PRESENT_SCAN);
    delivered(&roots, 1, NULL);
    int after = dup(0);
    close(after);
    ck_assert_int_eq(before, after);
    words_free(&w);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("stacks");
    TCase *t = tcase_create("stacks");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, test_main_stack);
    tcase_add_test(t, test_thread_stack);
    tcase_add_test(t, test_unknown_stack);
    tcase_add_test(t, test_without_context);
    tcase_add_test(t, test_shared_stack);
    tcase_add_test(t, test_coroutine);
    tcase_add_test(t, test_coroutine_of_thread);
    tcase_add_test(t, test_handler_on_alternate_stack);
    tcase_add_test(t, test_alternate_within_normal);
    tcase_add_test(t, test_register_roots);
    suite_add_tcase(s, t);
    TCase *k = tcase_create("kernel");
    tcase_set_timeout(k, 120);
    tcase_add_loop_test(k, test_epoll, 0, 2);
    tcase_add_loop_test(k, test_very_many_registrations, 0, 2);
    tcase_add_test(k, test_timers);
    tcase_add_test(k, test_no_such_thread);
    tcase_add_test(k, test_descriptors);
    suite_add_tcase(s, k);
    return suite_run(s);
}
