/* test-vet-memory.c: which memory the vetting sweep looks at, and which it does not.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "vet_process.h"
#include "suite.h"

START_TEST(live_blocks_and_lost_ones)
{
    BY_WAY();
    struct block *row = begin_row(SIZE);
    static const size_t sizes[] = {48, 3000, 100000, 2 * MIB};
    for (unsigned i = 0; i < 4; i++) {
        struct block *holder = make(sizes[i], false);
        uint64_t value = row[2].start;
        for (size_t at = 1; at + 8 <= holder->bytes; at = at * 3 + 2) {
            memcpy((void *)(holder->start + at), &value, 8);
            holder->lost = false;
            check_only(&row[2], VET_MISALIGNED);
            holder->lost = true;
            check_only(&row[2], VET_NONE);
            memset((void *)(holder->start + at), 0, 8);
        }
        memcpy((void *)(holder->start + holder->bytes - 8), &value, 8);
        holder->lost = false;
        check_only(&row[2], VET_MISALIGNED);
        memset((void *)(holder->start + holder->bytes - 8), 0, 8);
    }
}
END_TEST

/* Windows over the border of two roots, of which the second begins where the first ends, or 8 bytes behind. */
START_TEST(windows_over_borders)
{
    vet_limit_filter((unsigned)_i);
    struct block *row = begin_row(64);
    for (unsigned gap = 0; gap <= 8; gap += 8)
        for (size_t at = 0; at <= 8; at++) {
            uintptr_t border = (uintptr_t)root + 8 * 1001;
            root_list[0] = (struct root){.from = (uintptr_t)root, .to = border};
            root_list[1] = (struct root){.from = border + gap, .to = (uintptr_t)root + root_bytes};
            roots.count = 2;
            memset(root, 0, root_bytes);
            plant(8 * 1001 - at, row[2].start + 13); /* 13: no 32-bit form */
            check_only(&row[2], gap == 0 || at == 8 ? VET_MISALIGNED : VET_NONE);
        }
}
END_TEST

/* What may not be loaded comes in copies of 256 KiB. */
START_TEST(copied_roots)
{
    vet_limit_filter((unsigned)_i);
    begin(MIB);
    struct block *row = make_row(3, 64);
    row[1].lost = true;
    root_list[0].by_file = true;
    for (size_t border = 0; border <= MIB; border += 256 * KIB)
        for (size_t at = 1; at <= 8; at += 3) {
            if (border == 0 || (border == MIB && at < 8)) continue;
            mprotect(root, root_bytes, PROT_READ | PROT_WRITE);
            memset(root, 0, root_bytes);
            plant(border - at, row[1].start);
            mprotect(root, root_bytes, PROT_NONE);
            check_only(&row[1], VET_MISALIGNED);
        }
    mprotect(root, root_bytes, PROT_READ | PROT_WRITE);
}
END_TEST

static void read_maps(void)
{
    maps_free(&roots.maps);
    ck_assert(maps_read(&roots.maps, "/proc/self/maps"));
}

/* Explained with freed memory, and not without it. */
static void check_freed(const struct block *b)
{
    read_maps();
    run(false);
    ck_assert_uint_eq(explained(), 0);
    run(true);
    ck_assert_int_eq(why_of(b), VET_MISALIGNED);
    ck_assert_uint_eq(explained(), 1);
}

START_TEST(free_slots)
{
    vet_limit_filter((unsigned)_i);
    struct block *row = begin_row(64);
    row[1].lost = row[3].lost = false;
    for (unsigned aligned = 0; aligned < 2; aligned++)
        for (unsigned medium = 0; medium < 2; medium++) {
            struct block *holder = make_row(3, medium ? 3000 : 200) + 1;
            uint64_t value = row[2].start;
            memcpy((void *)(holder->start + (aligned ? 24 : 21)), &value, 8);
            drop(holder);
            check_freed(&row[2]);
            memset((void *)(holder->start + (aligned ? 24 : 21)), 0, 8);
        }
}
END_TEST

START_TEST(free_pools)
{
    struct block *row = begin_row(64);
    row[1].lost = row[3].lost = false;
    unsigned first = blocks;
    for (unsigned i = 0; i < 3000; i++) make(1024, false);
    struct block *holder = &block[first + 1500];
    uint64_t value = row[2].start;
    memcpy((void *)(holder->start + 501), &value, 8);
    for (unsigned i = first; i < blocks; i++) drop(&block[i]);
    ck_assert_uint_eq(pool_of((void *)holder->start, false)->class, 0);
    ck_assert_int_eq(memcmp((void *)(holder->start + 501), &value, 8), 0);
    check_freed(&row[2]);
}
END_TEST

START_TEST(freed_large_blocks)
{
    struct block *row = begin_row(64);
    row[1].lost = row[3].lost = false;
    static const size_t sizes[] = {50000, 400000, 3 * MIB};
    uint64_t value = row[2].start;
    struct block *holder = make(sizes[_i], false);
    memcpy((void *)(holder->start + 10001), &value, 8);
    drop(holder);
    check_freed(&row[2]);
}
END_TEST

/* jemalloc's records of large blocks lie in the window, and hold their addresses. */
START_TEST(tables_are_not_looked_at)
{
    begin(ROOT_BYTES);
    for (unsigned i = 0; i < 200; i++) make(40000 + 8192 * (size_t)random_number() % 3000000, true);
    for (unsigned i = 0; i < 200; i += 5) drop(&block[i]);
    read_maps();
    run(true);
    ck_assert_uint_eq(explained(), 0);
}
END_TEST

START_TEST(dead_stacks)
{
    struct block *row = begin_row(64);
    row[1].lost = row[3].lost = false;
    enum { STACK = 256 * 1024 };
    uint8_t *stack = map(STACK);
    madvise(stack, STACK, MADV_NOHUGEPAGE);
    const struct cut_thread thread = {.sp = (uintptr_t)stack + STACK / 2,
                                      .stack_low = (uintptr_t)stack,
                                      .stack_high = (uintptr_t)stack + STACK};
    cut.thread = &thread;
    cut.threads = 1;
    memcpy(stack + STACK / 2 - 1000, &row[2].start, 8);
    check_freed(&row[2]);
    /* What is in use of it is a root or none; here it is none. */
    memset(stack, 0, STACK);
    memcpy(stack + STACK / 2 + 8000, &row[2].start, 8);
    run(true);
    ck_assert_uint_eq(explained(), 0);
    munmap(stack, STACK);
}
END_TEST

/* A live block with a page that must not be loaded: its other pages are looked at. */
START_TEST(unreadable_pages)
{
    struct block *row = begin_row(64);
    struct ranges blind = {0};
    row[1].lost = row[3].lost = false;
    static const size_t sizes[] = {3 * OS_PAGE, 20 * OS_PAGE, MIB};
    uintptr_t holder = (uintptr_t)heap_aligned(OS_PAGE, sizes[_i]), inside = holder + OS_PAGE;
    memset((void *)holder, 0, 3 * OS_PAGE);
    block[blocks++] = (struct block){holder, sizes[_i], true, false};
    memcpy((void *)(inside + 17), &row[2].start, 8);
    mprotect((void *)inside, OS_PAGE, PROT_NONE);
    ranges_add(&blind, inside, inside + OS_PAGE);
    ranges_settle(&blind);
    for (unsigned i = 0; i < 2; i++) {
        white_free(&w);
        ck_assert(white_make(&w, WHITE_LIVE));
        w.blind = &blind;
        for (unsigned k = 0; k < blocks; k++) {
            struct white_block b;
            if (block[k].live && !block[k].lost && white_find(&w, block[k].start, &b))
                white_take(&w, &b);
        }
        ck_assert(groups_find(&g, &w, GUARD));
        ck_assert(vet(&r, &w, &g, &roots, &cut, false));
        ck_assert_int_eq(why_of(&row[2]), i == 0 ? VET_NONE : VET_MISALIGNED);
        memcpy((void *)(inside + OS_PAGE + 17), &row[2].start, 8);
    }
    mprotect((void *)inside, OS_PAGE, PROT_READ | PROT_WRITE);
    w.blind = NULL;
}
END_TEST

START_TEST(a_gigabyte_that_was_never_written)
{
    struct block *row = begin_row(64);
    static unsigned char page[GIB / OS_PAGE + 16];
    unsigned present[2] = {0};
    void *p = heap_malloc(GIB);
    block[blocks++] = (struct block){(uintptr_t)p, heap_usable_size(p), true, false};
    madvise(p, GIB, MADV_NOHUGEPAGE);
    memcpy((char *)p + GIB / 3, &row[2].start, 8);
    for (unsigned i = 0; i < 2; i++) {
        mincore(p, GIB, page);
        for (size_t k = 0; k < GIB / OS_PAGE; k++) present[i] += page[k] & 1;
        if (i == 0) check_only(&row[2], VET_MISALIGNED);
    }
    ck_assert_uint_eq(present[0], present[1]);
    ck_assert_uint_lt(r.looked_at, GIB / 100);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("vet memory");
    TCase *c = tcase_create("vet memory");
    tcase_set_timeout(c, 240);
    tcase_add_loop_test(c, live_blocks_and_lost_ones, 0, LOOPS);
    tcase_add_loop_test(c, windows_over_borders, 0, WAYS);
    tcase_add_loop_test(c, copied_roots, 0, WAYS);
    tcase_add_loop_test(c, free_slots, 0, WAYS);
    tcase_add_test(c, free_pools);
    tcase_add_loop_test(c, freed_large_blocks, 0, 3);
    tcase_add_test(c, tables_are_not_looked_at);
    tcase_add_test(c, dead_stacks);
    tcase_add_loop_test(c, unreadable_pages, 0, 3);
    tcase_add_test(c, a_gigabyte_that_was_never_written);
    suite_add_tcase(s, c);
    return suite_run(s);
}
