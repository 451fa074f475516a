/* test-withheld.c: what the allocator does without the calls that a filter of the program's would kill for (heap/os.h).  No filter is put up: every
   call would succeed here, so what tells is that it was not made.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/os.h"
#include "suite.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Each test is a process of its own, so what is withheld for good stays in it. */
static void withhold(unsigned what)
{
    os_withhold_begin();
    os_withhold_end(what);
}

START_TEST(nothing_at_first)
{
    ck_assert(!os_withheld(~0u));
    ck_assert(!os_withhold_is_under_way());
    withhold(0);
    ck_assert(!os_withheld(~0u));
}
END_TEST

/* Two filters on their way: what one of them was refused for goes with the last. */
START_TEST(meanwhile)
{
    os_withhold_begin();
    os_withhold_meanwhile(OS_ADVICE | OS_WITHHELD_ABOVE(1));
    os_withhold_begin();
    os_withhold_meanwhile(OS_MOVING);
    ck_assert(os_withheld(OS_ADVICE));
    ck_assert(os_withheld(OS_WITHHELD_ABOVE(1)));
    ck_assert(!os_withheld(OS_WITHHELD_ABOVE(2)));
    os_withhold_end(0);
    ck_assert(os_withhold_is_under_way());
    ck_assert(os_withheld(OS_ADVICE));
    ck_assert(os_withheld(OS_MOVING));
    os_withhold_end(OS_MOVING);
    ck_assert(!os_withhold_is_under_way());
    ck_assert(!os_withheld(OS_ADVICE | OS_WITHHELD_ABOVE(1)));
    ck_assert(os_withheld(OS_MOVING));
}
END_TEST

START_TEST(not_in_a_forked_child)
{
    withhold(OS_MOVING);
    os_withhold_begin();
    os_withhold_meanwhile(OS_ADVICE);
    pid_t child = fork();
    if (child == 0) {
        os_withhold_forked();
        _exit(os_withheld(OS_ADVICE) || os_withhold_is_under_way() || !os_withheld(OS_MOVING));
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}
END_TEST

static void *number_here(void *to)
{
    *(uint32_t *)to = os_thread_id();
    return NULL;
}

START_TEST(numbers)
{
    uint32_t before = os_thread_id(), other = 0;
    ck_assert_uint_eq(before, (uint32_t)gettid());
    ck_assert(!os_thread_exists(0x3fffffff));
    withhold(OS_NUMBERS);
    ck_assert_uint_eq(os_thread_id(), before);
    pthread_t t;
    ck_assert_int_eq(pthread_create(&t, NULL, number_here, &other), 0);
    pthread_join(t, NULL);
    ck_assert_uint_eq(other, OS_SOMEBODY);
    ck_assert(os_thread_exists(OS_SOMEBODY));
    ck_assert(os_thread_exists(0x3fffffff)); /* not asked */
    os_fork_child();
    ck_assert_uint_eq(os_thread_id(), OS_SOMEBODY);
}
END_TEST

/* Discarded pages read as zero all the same. */
START_TEST(discards)
{
    char *p = os_map(4 * OS_PAGE);
    ck_assert_ptr_nonnull(p);
    for (int way = 0; way < 3; way++) {
        if (way == 1) withhold(OS_ADVICE);
        if (way == 2) withhold(OS_UNMAPPING);
        for (size_t i = 0; i < 4; i++) p[i * OS_PAGE] = 1;
        if (way == 2) os_unmap(p + OS_PAGE, OS_PAGE);
        else os_discard(p + OS_PAGE, OS_PAGE);
        ck_assert_int_eq(p[OS_PAGE], 0);
        ck_assert_int_eq(p[0] + p[2 * OS_PAGE] + p[3 * OS_PAGE], 3);
    }
    ck_assert_int_eq(os_advise(p, OS_PAGE, MADV_NORMAL), -EPERM);
}
END_TEST

START_TEST(mappings)
{
    char *p = os_map(4 * OS_PAGE);
    bool occupied;
    ck_assert_ptr_nonnull(p);
    withhold(OS_PLACING | OS_MOVING);
    ck_assert(!os_map_at(p, OS_PAGE, &occupied)); /* a hint, and not what lies there */
    ck_assert(occupied);
    p[0] = 1;
    ck_assert_int_eq(os_move(p, OS_PAGE, 8 * OS_PAGE, MREMAP_MAYMOVE, NULL), -EPERM);
    os_unmap(p, 4 * OS_PAGE);
    ck_assert(os_map_at(p, 4 * OS_PAGE, &occupied));
    withhold(OS_MAPPING);
    ck_assert_ptr_null(os_map(OS_PAGE));
    withhold(OS_REPLACING);
    ck_assert(!os_replace(p, OS_PAGE));
}
END_TEST

static int asked;

static int counted(clockid_t clock, struct timespec *to)
{
    asked += clock != CLOCK_MONOTONIC_COARSE && clock != CLOCK_REALTIME_COARSE;
    return clock_gettime(clock, to);
}

/* Without vDSO it stands still; with one only the clocks are read that never take a system call. */
START_TEST(clocks)
{
    struct timespec a, b, real;
    ck_assert_int_eq(os_clock(CLOCK_MONOTONIC, &a), 0);
    ck_assert_int_eq(os_clock(CLOCK_REALTIME, &real), 0);
    withhold(OS_CLOCK);
    usleep(2000);
    ck_assert_int_eq(os_clock(CLOCK_MONOTONIC, &b), 0);
    ck_assert(a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec);
    ck_assert_int_eq(os_clock(CLOCK_REALTIME, &b), 0);
    ck_assert(real.tv_sec == b.tv_sec && real.tv_nsec == b.tv_nsec);
    os_clock_is(counted);
    withhold(OS_CLOCK);
    ck_assert_int_eq(os_clock(CLOCK_MONOTONIC, &b), 0);
    ck_assert_uint_ge(os_realtime(), (uint64_t)real.tv_sec * 1000000000u);
    ck_assert_int_eq(asked, 0);
}
END_TEST

START_TEST(waits)
{
    _Atomic uint32_t word = 1;
    withhold(OS_WAITING);
    uint64_t before = os_now_coarse();
    for (int i = 0; i < 10; i++) os_wait_changed(&word, 1, 900000000); /* spins for a moment, where it would sleep for nine seconds */
    ck_assert_uint_lt(os_now_coarse() - before, 3000000000u);
    os_wake_one(&word);
}
END_TEST

START_TEST(looks)
{
    static uint64_t here;
    ck_assert(os_can_read((uintptr_t)&here));
    ck_assert(!os_can_read(8));
    withhold(OS_LOOKING);
    ck_assert(!os_can_read((uintptr_t)&here));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("withheld");
    TCase *tests = tcase_create("os");
    tcase_add_test(tests, nothing_at_first);
    tcase_add_test(tests, meanwhile);
    tcase_add_test(tests, not_in_a_forked_child);
    tcase_add_test(tests, numbers);
    tcase_add_test(tests, discards);
    tcase_add_test(tests, mappings);
    tcase_add_test(tests, clocks);
    tcase_add_test(tests, waits);
    tcase_add_test(tests, looks);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
