/* test-present.c: the pages that a range has, by each of the three ways.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "heap/maps.h"
#include "heap/present.h"
#include "suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif
#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif

struct seen {
    uintptr_t base, last;
    size_t pages, runs;
    char page[4096]; /* 'x' in memory, 's' not */
    struct present *present;
};

static void see(uintptr_t from, uintptr_t to, void *user)
{
    struct seen *s = user;
    ck_assert_uint_ge(from, s->last);
    ck_assert_uint_lt(from, to);
    ck_assert_uint_eq(from % PAGE, 0);
    ck_assert_uint_eq(to % PAGE, 0);
    s->last = to;
    s->runs++;
    s->pages += (to - from) / PAGE;
    for (size_t i = (from - s->base) / PAGE; i < (to - s->base) / PAGE && i < sizeof s->page; i++) {
        s->page[i] = s->present->absent ? 's' : 'x';
    }
}

static struct seen look(enum present_way way, void *at, size_t bytes, enum present_what what)
{
    struct present p;
    present_start(&p, way);
    ck_assert_msg(p.way >= way, "way %d", p.way);
    struct seen s = {.base = (uintptr_t)at, .present = &p};
    if (p.way == way) {
        bool complete = present_each(&p, (uintptr_t)at, (uintptr_t)at + bytes, what, see, &s);
        ck_assert(complete || (way == PRESENT_MINCORE && !p.no_swap));
    } else {
        s.runs = SIZE_MAX; /* not to be had on this kernel */
    }
    present_end(&p);
    return s;
}

static void *map(size_t bytes, int flags)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | flags, -1, 0);
    ck_assert_ptr_ne(p, MAP_FAILED);
    return p;
}

static const int sharing[] = {MAP_PRIVATE, MAP_SHARED};

/* A pattern of pages, longer than any buffer of the module, in private and in shared memory. */
START_TEST(test_pattern)
{
    enum { PAGES = 40000 };
    for (int k = 0; k < 2; k++) {
        char *at = map(PAGES * PAGE, sharing[k]);
        madvise(at, PAGES * PAGE, MADV_NOHUGEPAGE);
        size_t expected = 0, runs = 0;
        for (size_t i = 0; i < PAGES; i++) {
            bool touch = i * i % 7 == 2 || i % 1000 == 999;
            bool before = i > 0 && ((i - 1) * (i - 1) % 7 == 2 || (i - 1) % 1000 == 999);
            if (touch) at[i * PAGE] = 1;
            expected += touch;
            runs += touch && !before;
        }
        struct seen s = look((enum present_way)_i, at, PAGES * PAGE, PRESENT_ALL);
        if (s.runs != SIZE_MAX) {
            ck_assert_uint_eq(s.pages, expected);
            ck_assert_uint_eq(s.runs, runs);
            for (size_t i = 0; i < sizeof s.page; i++) {
                ck_assert_int_eq(s.page[i] == 'x', i * i % 7 == 2 || i % 1000 == 999);
            }
        }
        munmap(at, PAGES * PAGE);
    }
}
END_TEST

START_TEST(test_nothing)
{
    char *at = map(64 * PAGE, MAP_PRIVATE);
    ck_assert_uint_eq(look((enum present_way)_i, at, 64 * PAGE, PRESENT_ALL).pages, 0);
    ck_assert_uint_eq(look((enum present_way)_i, at, 0, PRESENT_ALL).pages, 0);
    at[0] = 1;
    madvise(at, PAGE, MADV_DONTNEED);
    ck_assert_uint_eq(look((enum present_way)_i, at, 64 * PAGE, PRESENT_ALL).pages, 0);
    munmap(at, 64 * PAGE);
}
END_TEST

/* Protection does not matter, and nothing is touched: pages stay absent. */
START_TEST(test_unreadable)
{
    char *at = map(8 * PAGE, MAP_PRIVATE);
    memset(at + 2 * PAGE, 1, 2 * PAGE);
    mprotect(at, 8 * PAGE, PROT_NONE);
    for (int twice = 0; twice < 2; twice++) {
        struct seen s = look((enum present_way)_i, at, 8 * PAGE, PRESENT_ANONYMOUS);
        if (s.runs != SIZE_MAX) ck_assert_mem_eq(s.page, "\0\0xx\0\0\0", 8);
    }
    munmap(at, 8 * PAGE);
}
END_TEST

/* A page that was read, and never written, holds zeroes: with PAGEMAP_SCAN it is known not to be worth a look. */
START_TEST(test_zero_page)
{
    volatile char *at = map(4 * PAGE, MAP_PRIVATE);
    ck_assert_int_eq(at[PAGE], 0);
    at[2 * PAGE] = 1;
    struct seen s = look(PRESENT_SCAN, (void *)at, 4 * PAGE, PRESENT_ANONYMOUS);
    if (s.runs != SIZE_MAX) ck_assert_mem_eq(s.page, "\0\0x", 4);
    munmap((void *)at, 4 * PAGE);
}
END_TEST

/* A private mapping of a file: only what was copied.  mincore cannot tell, and must not miss any. */
START_TEST(test_copied)
{
    char name[] = "/tmp/gleaner-present-XXXXXX", text[PAGE];
    int fd = mkstemp(name);
    unlink(name);
    memset(text, 'f', sizeof text);
    for (int i = 0; i < 8; i++)
        ck_assert_int_eq(write(fd, text, sizeof text), (ssize_t)sizeof text);
    volatile char *at = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    for (int i = 0; i < 8; i++) ck_assert_int_eq(at[i * PAGE], 'f');
    at[PAGE] = 'c';
    at[5 * PAGE] = 'c';
    mprotect((void *)(at + 5 * PAGE), PAGE, PROT_READ);
    struct seen s = look((enum present_way)_i, (void *)at, 8 * PAGE, PRESENT_COPIED);
    if (_i != PRESENT_MINCORE && s.runs != SIZE_MAX) ck_assert_mem_eq(s.page, "\0x\0\0\0x\0", 8);
    if (_i == PRESENT_MINCORE) ck_assert(s.page[1] == 'x' && s.page[5] == 'x');
    s = look((enum present_way)_i, (void *)at, 8 * PAGE, PRESENT_ALL);
    if (s.runs != SIZE_MAX) ck_assert_mem_eq(s.page, "xxxxxxxx", 9);
    munmap((void *)at, 8 * PAGE);
    close(fd);
}
END_TEST

/* A stretch with holes, and mappings of other kinds in it. */
START_TEST(test_holes)
{
    char *at = map(64 * PAGE, MAP_PRIVATE);
    memset(at, 1, 64 * PAGE);
    munmap(at + 3 * PAGE, PAGE);
    munmap(at + 7 * PAGE, 20 * PAGE);
    void *shared = mmap(at + 10 * PAGE, PAGE, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    memset(shared, 1, PAGE);
    struct seen s = look((enum present_way)_i, at, 64 * PAGE, PRESENT_COPIED);
    if (s.runs != SIZE_MAX) {
        ck_assert_uint_eq(s.pages, 64 - 21);
        ck_assert_uint_eq(s.runs, 3);
    }
    munmap(at, 64 * PAGE);
}
END_TEST

/* A page that was swapped out, where there is swap, is the process's still. */
START_TEST(test_swapped)
{
    char *at = map(8 * PAGE, MAP_PRIVATE);
    memset(at + 2 * PAGE, 1, 3 * PAGE);
    madvise(at, 8 * PAGE, MADV_PAGEOUT);
    struct seen s = look((enum present_way)_i, at, 8 * PAGE, PRESENT_ANONYMOUS);
    if (s.runs != SIZE_MAX) ck_assert_uint_eq(s.pages, 3);
    ck_assert(s.runs == SIZE_MAX || (s.page[2] && s.page[3] && s.page[4]));
    munmap(at, 8 * PAGE);
}
END_TEST

START_TEST(test_guard_regions)
{
    char *at = map(8 * PAGE, MAP_PRIVATE);
    memset(at, 1, 8 * PAGE);
    if (madvise(at + 3 * PAGE, 2 * PAGE, MADV_GUARD_INSTALL) != 0) return; /* before Linux 6.13 */
    struct seen s = look((enum present_way)_i, at, 8 * PAGE, PRESENT_ANONYMOUS);
    if (s.runs != SIZE_MAX) ck_assert_mem_eq(s.page + 5, "xxx", 4);
    /* Where the kernel cannot tell, they look swapped out, and are marked so. */
    struct present p;
    present_start(&p, PRESENT_SCAN);
    ck_assert(p.way != PRESENT_SCAN || p.knows_guards != p.may_be_guards);
    if (p.knows_guards) ck_assert(s.page[3] == 0 && s.page[4] == 0);
    ck_assert(s.page[3] != 'x' && s.page[4] != 'x');
    present_end(&p);
    munmap(at, 8 * PAGE);
}
END_TEST

START_TEST(test_huge_page)
{
    size_t huge = 2 * MIB;
    char *area = map(2 * huge, MAP_PRIVATE), *at = (char *)round_up((uintptr_t)area, huge);
    madvise(at, huge, MADV_HUGEPAGE);
    at[huge / 2] = 1;
    struct seen tables = look(PRESENT_MINCORE, at, huge, PRESENT_ALL),
                s = look((enum present_way)_i, at, huge, PRESENT_ANONYMOUS);
    if (s.runs != SIZE_MAX)
        ck_assert_uint_eq(s.pages, tables.pages); /* 512, or 1 where there are no huge pages */
    ck_assert_uint_ge(tables.pages, 1);
    munmap(area, 2 * huge);
}
END_TEST

/* Time must follow what is present, not what is reserved; in a way that does not, a second of it is enough. */
START_TEST(test_sparse)
{
    size_t bytes = _i == PRESENT_SCAN ? 16 * 1024 * GIB : 64 * GIB;
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return; /* strict overcommit */
    madvise(at, bytes, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < 16; i++) at[bytes / 16 * i + i * PAGE] = 1;
    at[bytes - 1] = 1;
    struct seen s = look((enum present_way)_i, at, bytes, PRESENT_ANONYMOUS);
    if (s.runs != SIZE_MAX) ck_assert_uint_eq(s.pages, 17);
    munmap(at, bytes);
}
END_TEST

/* Nobody answers for an address beyond all. */
START_TEST(test_refusals)
{
    struct present p;
    struct seen s = {0};
    present_start(&p, PRESENT_NONE);
    ck_assert_int_eq(p.way, PRESENT_NONE);
    ck_assert(!present_each(&p, 4096, 8192, PRESENT_ALL, see, &s));
    present_end(&p);
    present_start(&p, PRESENT_MINCORE);
    char *at = map(4 * PAGE, MAP_PRIVATE);
    munmap(at + PAGE, PAGE);
    s.present = &p;
    ck_assert(!present_each(&p, (uintptr_t)at, (uintptr_t)at + 4 * PAGE, PRESENT_ALL, see, &s));
    present_end(&p);
    munmap(at, 4 * PAGE);
}
END_TEST

/* Each descriptor is given back. */
START_TEST(test_descriptors)
{
    int before = open("/dev/null", O_RDONLY);
    close(before);
    char *at = map(PAGE, MAP_PRIVATE);
    look((enum present_way)_i, at, PAGE, PRESENT_ALL);
    int after = open("/dev/null", O_RDONLY);
    close(after);
    ck_assert_int_eq(before, after);
    munmap(at, PAGE);
}
END_TEST

/* A child asks for its own pages, not for its parent's. */
START_TEST(test_child)
{
    char *at = map(8 * PAGE, MAP_PRIVATE);
    at[0] = 1;
    pid_t child = fork();
    if (child == 0) {
        at[5 * PAGE] = 1;
        struct seen s = look((enum present_way)_i, at, 8 * PAGE, PRESENT_ANONYMOUS);
        _exit(s.runs == SIZE_MAX || (s.pages == 2 && s.page[5] == 'x') ? 0 : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    munmap(at, 8 * PAGE);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("present pages");
    TCase *t = tcase_create("present pages");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, test_pattern, PRESENT_SCAN, PRESENT_NONE);
    tcase_add_loop_test(t, test_nothing, PRESENT_SCAN, PRESENT_NONE);
    tcase_add_loop_test(t, test_unreadable, PRESENT_SCAN, PRESENT_NONE);
    tcase_add_test(t, test_zero_page);
    tcase_add_loop_test(t, test_copied, PRESENT_SCAN, PRESENT_NONE);
    tcase_add_loop_test(t, test_holes, PRESENT_SCAN, PRESENT_MINCORE);
    tcase_add_loop_test(t, test_swapped, PRESENT_SCAN, PRESENT_MINCORE);
    tcase_add_loop_test(t, test_guard_regions, PRESENT_SCAN, PRESENT_NONE);
    tcase_add_loop_test(t, test_huge_page, PRESENT_SCAN, PRESENT_NONE);
    tcase_add_loop_test(t, test_sparse, PRESENT_SCAN, PRESENT_MINCORE);
    tcase_add_test(t, test_refusals);
    tcase_add_loop_test(t, test_descriptors, PRESENT_SCAN, PRESENT_NONE);
    tcase_add_loop_test(t, test_child, PRESENT_SCAN, PRESENT_NONE);
    suite_add_tcase(s, t);
    return suite_run(s);
}
