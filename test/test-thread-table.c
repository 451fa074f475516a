/* test-thread-table.c: the table of threads by tid, and what a fork leaves of it.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/process.h"
#include "preload/shut_in.h"
#include "preload/thread_table.h"
#include "suite.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* No filter here. */
bool shut_in_already(unsigned any_of) { return any_of == 0; }

START_TEST(test_find_what_was_entered)
{
    ck_assert_ptr_null(thread_find(77));
    struct thread_record *r = thread_enter(77);
    ck_assert_ptr_nonnull(r);
    ck_assert_ptr_eq(thread_enter(77), r);
    ck_assert_ptr_eq(thread_find(77), r);
    atomic_store(&r->ticket, 5);
    atomic_store(&r->tid, 0); /* freed */
    ck_assert_ptr_null(thread_find(77));
    ck_assert_uint_eq(atomic_load(&thread_enter(77)->ticket), 0);
}
END_TEST

/* Tids that share their low bits must share the same few records: 2048 is the size of the first
   segment, and each segment has 16 places for a tid. */
START_TEST(test_crowded_places)
{
    struct thread_record *r[200];
    int entered = 0;
    for (uint32_t i = 0; i < 200; i++) {
        r[i] = thread_enter(5 + i * 131072);
        entered += r[i] != NULL;
    }
    ck_assert_int_eq(entered, 4 * 16);
    for (uint32_t i = 0; i < 200; i++) ck_assert_ptr_eq(thread_find(5 + i * 131072), r[i]);
    for (int i = 0; i < 200; i++) {
        for (int k = 0; r[i] && k < i; k++) ck_assert_ptr_ne(r[i], r[k]);
    }
}
END_TEST

static void count(struct thread_record *r, void *n)
{
    ++*(int *)n;
}

START_TEST(test_each)
{
    int n = 0;
    for (uint32_t tid = 1; tid <= 5000; tid++) ck_assert_ptr_nonnull(thread_enter(tid));
    thread_each(count, &n);
    ck_assert_int_eq(n, 5000);
}
END_TEST

static void *enter_many(void *from)
{
    for (uint32_t i = 0; i < 500; i++) {
        if (!thread_enter((uint32_t)(uintptr_t)from + i * 4)) abort();
    }
    return NULL;
}

START_TEST(test_entered_at_once)
{
    pthread_t t[4];
    int n = 0;
    for (uintptr_t i = 0; i < 4; i++) {
        ck_assert_int_eq(pthread_create(&t[i], NULL, enter_many, (void *)(i + 1)), 0);
    }
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    thread_each(count, &n);
    ck_assert_int_eq(n, 2000);
    for (uint32_t tid = 1; tid <= 2000; tid++) ck_assert_ptr_nonnull(thread_find(tid));
}
END_TEST

START_TEST(test_fork_wipes)
{
    ck_assert(process_start());
    ck_assert_ptr_nonnull(thread_enter(9));
    atomic_store(&process->gate, 9);
    ck_assert(!process_is_borrowed());
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        if (thread_find(9) || atomic_load(&process->gate)) _exit(1);
        if (process_is_borrowed()) _exit(2);
        _exit(atomic_load(&process->pid) == (uint32_t)getpid() ? 0 : 3);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_eq(atomic_load(&process->gate), 9);
}
END_TEST

static volatile bool borrowed;

START_TEST(test_vfork_is_told)
{
    ck_assert(process_start());
    pid_t pid = vfork();
    if (pid == 0) {
        borrowed = process_is_borrowed();
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    ck_assert(borrowed);
    ck_assert(!process_is_borrowed());
}
END_TEST

int main(void)
{
    Suite *s = suite_create("threads");
    TCase *t = tcase_create("threads"); /* each test is a process of its own */
    tcase_set_timeout(t, 120);
    tcase_add_test(t, test_find_what_was_entered);
    tcase_add_test(t, test_crowded_places);
    tcase_add_test(t, test_each);
    tcase_add_test(t, test_entered_at_once);
    tcase_add_test(t, test_fork_wipes);
    tcase_add_test(t, test_vfork_is_told);
    suite_add_tcase(s, t);
    return suite_run(s);
}
