/* test-unfrozen.c: what a snapshot child does not get of its parent, and what the pause must look at therefore.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "heap/os.h"
#include "heap/window.h"
#include "test/roots_support.h"
#include "suite.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

enum { ROOM = 16 };

/* What a child tells its parent. */
static struct answer {
    size_t count;
    struct cut_range range[ROOM];
    bool known;
    size_t hits[8];
    bool complete, blind;
} * answer;

static struct maps pause_maps;

static char *map(size_t pages)
{
    void *p = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(p, MAP_FAILED);
    for (size_t i = 0; i < pages; i++) hide((char *)p + i * PAGE, i);
    return p;
}

static void set_up(void)
{
    answer = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(answer, MAP_FAILED);
}

/* Forks a child that answers, as a snapshot would. */
static void ask_child(const struct cut *cut, size_t room)
{
    ck_assert(maps_read(&pause_maps, "/proc/self/maps"));
    pid_t child = fork();
    if (child == 0) {
        answer->count = roots_unfrozen(&pause_maps, cut, answer->range, room);
        _exit(0);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    maps_free(&pause_maps);
}

START_TEST(test_nothing)
{
    struct cut cut = {0};
    ask_child(&cut, ROOM);
    ck_assert_uint_eq(answer->count, 0);
}
END_TEST

START_TEST(test_both_kinds)
{
    char *wiped = map(4), *kept = map(4), *absent = map(8);
    ck_assert_int_eq(madvise(wiped + PAGE, 2 * PAGE, MADV_WIPEONFORK), 0);
    ck_assert_int_eq(madvise(absent, 2 * PAGE, MADV_DONTFORK), 0);
    ck_assert_int_eq(madvise(absent + 4 * PAGE, 3 * PAGE, MADV_DONTFORK), 0);
    struct cut_range expected[] = {
        {(uintptr_t)wiped + PAGE, (uintptr_t)wiped + 3 * PAGE},
        {(uintptr_t)absent, (uintptr_t)absent + 2 * PAGE},
        {(uintptr_t)absent + 4 * PAGE, (uintptr_t)absent + 7 * PAGE},
    };
    struct cut cut = {0};
    ask_child(&cut, ROOM);
    ck_assert_uint_eq(answer->count, 3);
    for (int i = 0; i < 3; i++) {
        bool found = false;
        for (int k = 0; k < 3; k++) {
            found = found || memcmp(&answer->range[k], &expected[i], sizeof expected[i]) == 0;
        }
        ck_assert_msg(found, "%d", i);
        if (i) ck_assert_uint_le(answer->range[i - 1].to, answer->range[i].from);
    }
    /* Less room: as many as fit, but all counted. */
    memset(answer, 0, sizeof *answer);
    ask_child(&cut, 2);
    ck_assert_uint_eq(answer->count, 3);
    ck_assert_uint_ne(answer->range[1].to, 0);
    ck_assert_uint_eq(answer->range[2].to, 0);
    munmap(kept, 4 * PAGE);
}
END_TEST

/* Pages of ours that a fork wipes are no matter. */
START_TEST(test_ours)
{
    char *ours = map(4);
    ck_assert_int_eq(madvise(ours, 4 * PAGE, MADV_WIPEONFORK), 0);
    struct cut_range range[] = {{(uintptr_t)ours, (uintptr_t)ours + 3 * PAGE}};
    struct cut cut = {.ours = range, .n_ours = 1};
    ask_child(&cut, ROOM);
    ck_assert_uint_eq(answer->count, 1);
    ck_assert_uint_eq(answer->range[0].from, (uintptr_t)ours + 3 * PAGE);
    ck_assert_uint_eq(answer->range[0].to, (uintptr_t)ours + 4 * PAGE);
    range[0].to += PAGE;
    ask_child(&cut, ROOM);
    ck_assert_uint_eq(answer->count, 0);
}
END_TEST

START_TEST(test_known)
{
    struct cut_range a[] = {{30, 40}, {10, 20}, {20, 25}}, b[] = {{12, 24}}, c[] = {{12, 26}},
                     d[] = {{12, 24}, {50, 60}};
    ck_assert(roots_unfrozen_known(a, 3, b, 1));
    ck_assert(!roots_unfrozen_known(a, 3, c, 1));
    ck_assert(!roots_unfrozen_known(a, 3, d, 2));
    ck_assert(roots_unfrozen_known(NULL, 0, NULL, 0));
    ck_assert(!roots_unfrozen_known(NULL, 0, b, 1));
    ck_assert(roots_unfrozen_known(a, 3, a, 3));
}
END_TEST

/* The pause scans what the child will not have, in the window too, where it must keep off; nothing is missed. */
START_TEST(test_pause)
{
    char *wiped = map(4), *absent = map(4);
    window_start();
    char *heap = (char *)window_base + WINDOW_LARGE_OFFSET;
    ck_assert(os_map_at(heap, 16 * PAGE, NULL));
    for (size_t i = 0; i < 16; i++) hide(heap + i * PAGE, 100 + i);
    hide(wiped, 50);
    hide(absent, 51);
    madvise(wiped, 4 * PAGE, MADV_WIPEONFORK);
    madvise(absent, 4 * PAGE, MADV_DONTFORK);
    madvise(heap + 4 * PAGE, 2 * PAGE, MADV_DONTFORK);
    struct cut_range unfrozen[] = {
        {(uintptr_t)wiped, (uintptr_t)wiped + 4 * PAGE},
        {(uintptr_t)absent, (uintptr_t)absent + 4 * PAGE},
        {(uintptr_t)heap + 4 * PAGE, (uintptr_t)heap + 6 * PAGE},
    };
    struct cut cut = {0};
    struct roots_options options = {
        .part = ROOTS_SHARED, .shared_most = SIZE_MAX, .unfrozen = unfrozen, .n_unfrozen = 3};
    struct roots r;
    find(&r, &cut, &options);
    ck_assert(r.complete);
    ck_found(&r, 50, wiped, ROOT_PRIVATE);
    ck_found(&r, 51, absent, ROOT_PRIVATE);
    ck_found(&r, 104, heap + 4 * PAGE, ROOT_PRIVATE);
    ck_found(&r, 105, heap + 5 * PAGE, ROOT_PRIVATE);
    ck_not_found(&r, 103, heap + 3 * PAGE);
    pid_t child = fork();
    if (child == 0) {
        answer->count = roots_unfrozen(&r.maps, &cut, answer->range, ROOM);
        answer->known = roots_unfrozen_known(unfrozen, 3, answer->range, answer->count);
        options.part = ROOTS_FROZEN;
        options.maps = &r.maps;
        struct roots frozen;
        find(&frozen, &cut, &options);
        answer->complete = frozen.complete;
        answer->hits[0] = delivered(&frozen, 50, NULL) + delivered(&frozen, 51, NULL) +
                          delivered(&frozen, 104, NULL);
        answer->blind =
            roots_is_blind(&frozen, (uintptr_t)heap + 4 * PAGE, (uintptr_t)heap + 4 * PAGE + 8) &&
            roots_is_blind(&frozen, (uintptr_t)heap + 5 * PAGE, (uintptr_t)heap + 9 * PAGE) &&
            !roots_is_blind(&frozen, (uintptr_t)heap + 6 * PAGE, (uintptr_t)heap + 9 * PAGE);
        _exit(0);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_le(answer->count, 3); /* neighbours are one range */
    size_t bytes = 0;
    for (size_t i = 0; i < answer->count; i++) bytes += answer->range[i].to - answer->range[i].from;
    ck_assert_uint_eq(bytes, 10 * PAGE);
    ck_assert(answer->known);
    ck_assert(answer->complete);
    ck_assert_uint_eq(answer->hits[0], 0);
    ck_assert(answer->blind);
    roots_free(&r);
}
END_TEST

/* Where there is no list of the child's, nobody knows. */
START_TEST(test_refusals)
{
    struct cut cut = {0};
    ck_assert(maps_read(&pause_maps, "/proc/self/maps"));
    struct rlimit none = {0, 0};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    ck_assert_uint_eq(roots_unfrozen(&pause_maps, &cut, answer->range, ROOM), SIZE_MAX);
    maps_free(&pause_maps);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("unfrozen");
    TCase *t = tcase_create("unfrozen");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, set_up, NULL);
    tcase_add_test(t, test_nothing);
    tcase_add_test(t, test_both_kinds);
    tcase_add_test(t, test_ours);
    tcase_add_test(t, test_known);
    tcase_add_test(t, test_pause);
    tcase_add_test(t, test_refusals);
    suite_add_tcase(s, t);
    return suite_run(s);
}
