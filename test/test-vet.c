/* test-vet.c: the vetting sweep: every form of a pointer by itself, with a neighbour that it must not explain; which memory is looked at;
   chance; and all 64-bit forms on random memory against a slow oracle.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "heap/heap.h"
#include "heap/os.h"
#include "heap/vet.h"
#include "heap/vet_filter.h"
#include "heap/vet_narrow.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define GUARD 0x5a5a1234cafe8765u
#define WAYS 3
#define BLOCKS_MOST 40000u
#define ROOT_BYTES (64 * KIB)

static uint64_t state = 88172645463325252u;

static uint64_t random_number(void) /* xorshift64 (G. Marsaglia 2003) */
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static uintptr_t mangled(uintptr_t address)
{
#if defined(__x86_64__)
    address ^= GUARD;
    return address << 17 | address >> 47;
#else
    return address ^ GUARD;
#endif
}

/* ---- a process: blocks, and one root ---- */

struct block {
    uintptr_t start;
    size_t bytes;
    bool live, lost;
};

static struct block block[BLOCKS_MOST];
static unsigned blocks;
static uint8_t *root;
static size_t root_bytes;
static struct root root_list[4];
static struct white w;
static struct groups g;
static struct roots roots;
static struct cut cut;
static struct vet_result r;

static void *map(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(p, MAP_FAILED);
    return p;
}

static void begin(size_t bytes)
{
    root_bytes = bytes;
    root = map(bytes);
    root_list[0] = (struct root){.from = (uintptr_t)root, .to = (uintptr_t)root + bytes};
    roots = (struct roots){.root = root_list, .count = 1, .bytes = bytes, .complete = true};
    cut = (struct cut){.pointer_guard = GUARD};
}

static struct block *make(size_t size, bool lost)
{
    ck_assert_uint_lt(blocks, BLOCKS_MOST);
    void *p = heap_calloc(1, size);
    block[blocks] = (struct block){(uintptr_t)p, heap_usable_size(p), true, lost};
    return &block[blocks++];
}

static int by_address(const void *a, const void *b)
{
    const struct block *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* `n` live blocks side by side in one pool: the first of them. */
static struct block *make_row(unsigned n, size_t size)
{
    unsigned first = blocks;
    for (unsigned i = 0; i < 8 * n; i++) make(size, false);
    qsort(block + first, 8 * n, sizeof *block, by_address);
    for (unsigned i = first, start = first; i < blocks; i++) {
        if (i > start && block[i].start != block[i - 1].start + block[i - 1].bytes) start = i;
        if (i - start + 1 == n) return &block[start];
    }
    ck_abort_msg("no row of blocks");
}

static void drop(struct block *b)
{
    heap_free((void *)b->start);
    b->live = b->lost = false;
}

static void plant(size_t offset, uint64_t value) { memcpy(root + offset, &value, 8); }

static void plant_half(size_t offset, uint32_t value) { memcpy(root + offset, &value, 4); }

static void run(bool freed_too)
{
    vet_free(&r);
    groups_free(&g);
    white_free(&w);
    ck_assert(white_make(&w, WHITE_LIVE));
    uint64_t lost = 0;
    for (unsigned i = 0; i < blocks; i++) {
        struct white_block b;
        if (!block[i].live) continue;
        ck_assert(white_find(&w, block[i].start, &b) && white_is(&w, &b));
        if (!block[i].lost) white_take(&w, &b);
        lost += block[i].lost;
    }
    ck_assert(groups_find(&g, &w, cut.pointer_guard));
    ck_assert_uint_eq(g.count, lost);
    ck_assert(vet(&r, &w, &g, &roots, &cut, freed_too));
    ck_assert_uint_eq(r.count, lost);
}

static enum vet_why why_of(const struct block *b)
{
    for (size_t i = 0; i < g.count; i++)
        if (g.block[i].block.start == b->start) return (enum vet_why)r.why[i];
    ck_abort_msg("not lost");
}

static unsigned explained(void)
{
    unsigned n = 0;
    for (size_t i = 0; i < r.count; i++) n += r.why[i] != VET_NONE;
    return n;
}

/* Exactly these two are explained, so; everybody else is not. */
static void check_only(const struct block *b, enum vet_why why)
{
    run(false);
    ck_assert_int_eq(why_of(b), why);
    ck_assert_uint_eq(explained(), why != VET_NONE);
}

/* A row of five of which the middle three are lost. */
static struct block *begin_row(size_t size)
{
    begin(ROOT_BYTES);
    struct block *row = make_row(5, size);
    for (unsigned i = 1; i < 4; i++) row[i].lost = true;
    return row;
}

static const size_t row_size[] = {16, 64, 1008, 5000};
#define SIZES (sizeof row_size / sizeof *row_size)

/* Loops over all sizes and ways. */
#define SIZE row_size[_i % SIZES]
#define BY_WAY() vet_limit_filter((unsigned)_i / SIZES)
#define LOOPS ((int)SIZES * WAYS)

/* ---- 64-bit forms ---- */

START_TEST(nothing_points_there)
{
    BY_WAY();
    struct block *row = begin_row(SIZE);
    run(false);
    ck_assert_uint_eq(explained(), 0);
    ck_assert_uint_eq(why_of(&row[1]), VET_NONE);
}
END_TEST

START_TEST(misaligned)
{
    BY_WAY();
    struct block *row = begin_row(SIZE);
    for (unsigned at = 0; at < 8; at++)
        for (unsigned inside = 0; inside < 3; inside++) {
            memset(root, 0, root_bytes);
            plant(1000 + at, row[2].start + (inside == 0 ? 0 : inside == 1 ? row[2].bytes / 2 : row[2].bytes - 1));
            check_only(&row[2], VET_MISALIGNED);
        }
}
END_TEST

START_TEST(at_the_root_s_ends)
{
    BY_WAY();
    struct block *row = begin_row(SIZE);
    plant(0, row[1].start);
    plant(root_bytes - 8, row[3].start);
    run(false);
    ck_assert_int_eq(why_of(&row[1]), VET_MISALIGNED);
    ck_assert_int_eq(why_of(&row[2]), VET_NONE);
    ck_assert_int_eq(why_of(&row[3]), VET_MISALIGNED);
}
END_TEST

START_TEST(misaligned_with_a_tag)
{
    BY_WAY();
    struct block *row = begin_row(SIZE);
    plant(1003, row[2].start | 0xfedc000000000000);
    check_only(&row[2], VET_MISALIGNED);
    /* A tag below the 48 bits makes it another address. */
    memset(root, 0, root_bytes);
    plant(1003, row[2].start ^ (uintptr_t)1 << 47);
    check_only(&row[2], VET_NONE);
}
END_TEST

START_TEST(misaligned_and_mangled)
{
    BY_WAY();
    struct block *row = begin_row(SIZE);
    plant(1005, mangled(row[2].start + 5));
    check_only(&row[2], VET_MISALIGNED);
    /* All 64 bits count. */
    memset(root, 0, root_bytes);
    plant(1005, mangled(row[2].start | (uintptr_t)1 << 60));
    check_only(&row[2], VET_NONE);
    /* Without a guard there is no such form. */
    memset(root, 0, root_bytes);
    plant(1005, mangled(row[2].start));
    cut.pointer_guard = 0;
    check_only(&row[2], VET_NONE);
}
END_TEST

START_TEST(one_past_the_end)
{
    BY_WAY();
    struct block *row = begin_row(SIZE);
    /* The next block starts there: it is meant. */
    plant(1001, row[1].start + row[1].bytes);
    check_only(&row[2], VET_MISALIGNED);
    memset(root, 0, root_bytes);
    plant(1001, row[3].start + row[3].bytes); /* that of a live one */
    check_only(&row[3], VET_NONE);
    /* The start of a free slot is a pointer to what was freed. */
    drop(&row[2]);
    memset(root, 0, root_bytes);
    plant(1001, row[1].start + row[1].bytes);
    run(false);
    ck_assert_uint_eq(explained(), 0);
}
END_TEST

#define POOL ((uintptr_t)1 << SMALL_POOL_SHIFT)

/* A lost block in the last slot of its pool, behind which a few bytes are left over. */
static struct block *make_last(size_t size)
{
    for (;;) {
        struct block *b = make(size, false);
        uintptr_t left = POOL - (b->start + b->bytes) % POOL;
        if (left >= b->bytes || left == POOL) continue;
        b->lost = true;
        return b;
    }
}

static const size_t last_size[] = {48, 144, 400};

START_TEST(one_past_the_end_of_the_last)
{
    vet_limit_filter((unsigned)_i / 3);
    begin(ROOT_BYTES);
    struct block *b = make_last(last_size[_i % 3]);
    plant(1001, b->start + b->bytes);
    check_only(b, VET_PAST_END);
    memset(root, 0, root_bytes);
    plant(1001, b->start + b->bytes + 1);
    check_only(b, VET_NONE);
}
END_TEST

START_TEST(past_the_end_of_a_large_block)
{
    BY_WAY();
    begin(ROOT_BYTES);
    struct block *a = make(100000, true), *b = make(3 * MIB, true);
    plant(1003, b->start + b->bytes);
    run(false);
    ck_assert_int_eq(why_of(b), VET_PAST_END);
    ck_assert(a->start == b->start + b->bytes || why_of(a) == VET_NONE);
    memset(root, 0, root_bytes);
    plant(1003, b->start - 256);
    run(false);
    ck_assert_int_eq(why_of(b), a->start + a->bytes > b->start - 256 && a->start < b->start ? VET_NONE : VET_BEFORE);
}
END_TEST

START_TEST(before_the_start)
{
    BY_WAY();
    struct block *row = begin_row(SIZE);
    /* In a live block, and in a lost one. */
    plant(1001, row[1].start - 1);
    check_only(&row[1], VET_NONE);
    memset(root, 0, root_bytes);
    plant(1001, row[2].start - 1);
    check_only(&row[1], VET_MISALIGNED);
    /* In a free slot. */
    drop(&row[1]);
    for (unsigned distance = 1; distance < 600; distance += 15) {
        if (distance > row[1].bytes) break;
        memset(root, 0, root_bytes);
        plant(1001, row[2].start - distance);
        run(false);
        bool slot = distance == row[1].bytes; /* where one starts, see one_past_the_end */
        ck_assert_int_eq(why_of(&row[2]), distance <= 256 && !slot ? VET_BEFORE : VET_NONE);
        ck_assert_int_eq(why_of(&row[3]), distance + row[2].bytes <= 256 && !slot ? VET_BEFORE : VET_NONE);
    }
    memset(root, 0, root_bytes);
    plant(1001, row[2].start - 256);
    run(false);
    if (row[1].bytes >= 257) ck_assert_int_eq(why_of(&row[2]), VET_BEFORE);
    memset(root, 0, root_bytes);
    plant(1001, row[2].start - 257);
    run(false);
    ck_assert_int_eq(why_of(&row[2]), VET_NONE);
}
END_TEST

/* The first slot of all: what lies before it is not in the window. */
START_TEST(before_the_window)
{
    BY_WAY();
    begin(ROOT_BYTES);
    struct block *first = NULL;
    for (unsigned i = 0; i < 600; i++) make(64, false);
    for (unsigned i = 0; i < blocks; i++)
        if (block[i].start == window_base) first = &block[i];
    ck_assert_ptr_nonnull(first);
    first->lost = true;
    plant(1001, window_base - 200);
    check_only(first, VET_BEFORE);
    memset(root, 0, root_bytes);
    plant(1001, window_base - 257);
    check_only(first, VET_NONE);
}
END_TEST

START_TEST(the_strongest_reason_is_kept)
{
    BY_WAY();
    begin(ROOT_BYTES);
    struct block *b = make_last(400);
    for (unsigned i = 0; i < blocks; i++)
        if (block[i].live && block[i].start + block[i].bytes == b->start) drop(&block[i]);
    plant(1001, b->start - 8);
    check_only(b, VET_BEFORE);
    plant(1101, b->start + b->bytes);
    check_only(b, VET_PAST_END);
    plant(1201, b->start + 8);
    check_only(b, VET_MISALIGNED);
}
END_TEST

/* ---- 32-bit forms ---- */

/* No form of it is a small number. */
static bool is_beyond_numbers(const struct block *b)
{
    return (uint32_t)b->start >> 16 != 0 && (uint32_t)(b->start >> 3) >> 16 != 0;
}

/* A lost block and a lost neighbour, both in the same 64 KiB. */
static struct block *begin_narrow(void)
{
    begin(ROOT_BYTES);
    for (;;) {
        struct block *row = make_row(3, 400);
        if (!is_beyond_numbers(&row[1]) || (uint32_t)row[1].start >> 16 != (uint32_t)row[2].start >> 16) continue;
        row[1].lost = row[2].lost = true;
        return &row[1];
    }
}

START_TEST(halves)
{
    vet_limit_filter((unsigned)_i);
    struct block *b = begin_narrow();
    for (unsigned form = 0; form < 2; form++) {
        uint32_t value = (uint32_t)(form == 0 ? b->start : b->start >> 3);
        for (unsigned at = 0; at < 8; at++) {
            memset(root, 0, root_bytes);
            plant_half(1000 + at, value);
            check_only(b, at % 4 == 0 ? VET_NARROW : VET_NONE);
            ck_assert(r.chance < 0.01);
        }
        memset(root, 0, root_bytes);
        plant_half(1000, value + (form == 0 ? 8 : 1)); /* inside of it */
        check_only(b, VET_NONE);
    }
}
END_TEST

static void count_found(uint32_t number, void *user) { *(unsigned *)user += 1 + number; }

/* Of a block far from the window's start, whose low half or shifted form is one. */
START_TEST(small_numbers_are_none)
{
    static const struct {
        uintptr_t start;
        uint32_t value;
        unsigned found;
    } is[] = {
        {0x123400008a40, 0x8a40, 0}, {0x123400018a40, 0x18a40, 1}, {0x120000008a40, 0x1148, 0}, {0x123400008a40, 0x80001148, 1},
    };
    for (unsigned i = 0; i < sizeof is / sizeof *is; i++) {
        struct group_block one = {.block = {.start = is[i].start, .bytes = 64}};
        struct groups groups = {.block = &one, .count = 1};
        struct vet_narrow n;
        uint64_t word = (uint64_t)is[i].value << 32 | 0xffffffff;
        unsigned found = 0;
        ck_assert(vet_narrow_start(&n, &groups, 8));
        vet_narrow_look(&n, (const uint8_t *)&word, 8);
        vet_narrow_found(&n, &groups, count_found, &found);
        ck_assert_uint_eq(found, is[i].found);
        vet_narrow_end(&n);
    }
}
END_TEST

/* An aligned word that points into the window is a pointer, to whatever; the low half of a block's address is that of others',
   too, since areas lie whole multiples of 4 GiB apart. */
START_TEST(halves_of_pointers_are_none)
{
    struct block *b = begin_narrow();
    plant(1000, b->start + (b->start < window_base + WINDOW_MEDIUM_OFFSET ? WINDOW_MEDIUM_OFFSET : 0));
    check_only(b, VET_NONE);
    plant(1000, (uint64_t)0x7fff << 32 | (uint32_t)b->start);
    check_only(b, VET_NARROW);
}
END_TEST

START_TEST(dense_values_are_no_evidence)
{
    struct block *b = begin_narrow();
    uint32_t bucket = (uint32_t)b->start & 0xffff0000;
    unsigned planted = 0;
    /* Distinct multiples of 16 beside it: 10, 30 and 50 of 4096. */
    for (uint32_t i = 0; planted < 50; i++) {
        uint32_t value = bucket | ((i * 37 % 4096) << 4);
        if (value == (uint32_t)b[0].start || value == (uint32_t)b[1].start) continue;
        plant_half(2000 + 4 * planted++, value);
        if (planted == 10) {
            plant_half(1000, (uint32_t)b->start);
            check_only(b, VET_NARROW);
            /* Both blocks' low halves, at 10 of 4094 places each. */
            ck_assert_double_eq_tol(r.chance, 20.0 / 4094, 0.0005);
        }
        if (planted == 30) check_only(b, VET_NONE); /* 60 in 4094 are over a hundredth together */
    }
    check_only(b, VET_NONE);
    /* Its shifted form lies elsewhere. */
    plant_half(1004, (uint32_t)(b->start >> 3));
    check_only(b, VET_NARROW);
}
END_TEST

/* Ordinary values are repeated: many equal ones near are as good as one. */
START_TEST(equal_values_count_once)
{
    struct block *b = begin_narrow();
    uint32_t near = ((uint32_t)b->start & 0xffff0000) | ((uint32_t)b->start ^ 0x8000) % 65536;
    if (near == (uint32_t)b[1].start) near ^= 0x4000;
    for (unsigned i = 0; i < 1000; i++) plant_half(2000 + 4 * i, near);
    plant_half(1000, (uint32_t)b->start);
    check_only(b, VET_NARROW);
}
END_TEST

START_TEST(too_much_memory_for_halves)
{
    begin(24 * MIB);
    /* 6 Mi values, 16 forms: 0.023 of them by chance; 4 forms: 0.006. */
    struct block *row = make_row(8, 400), *b = row + 7;
    while (!is_beyond_numbers(row)) row = make_row(8, 400), b = row + 7;
    for (unsigned i = 0; i < 8; i++) row[i].lost = true;
    plant_half(1000, (uint32_t)b->start);
    plant_half(1004, (uint32_t)(b->start >> 3));
    check_only(b, VET_NONE);
    ck_assert_double_eq_tol(r.chance, (double)r.looked_at / 4 / 4294967296.0 * 16, 1e-9);
    ck_assert(r.chance > 0.01);
    for (unsigned i = 0; i < 6; i++) row[i].lost = false;
    check_only(b, VET_NARROW);
    ck_assert(r.chance < 0.01 && r.chance > 0.005);
}
END_TEST

/* ---- which memory ---- */

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
    const struct cut_thread thread = {
        .sp = (uintptr_t)stack + STACK / 2, .stack_low = (uintptr_t)stack, .stack_high = (uintptr_t)stack + STACK};
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
            if (block[k].live && !block[k].lost && white_find(&w, block[k].start, &b)) white_take(&w, &b);
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

/* ---- groups ---- */

START_TEST(what_an_explained_block_reaches)
{
    begin(ROOT_BYTES);
    struct block *row = make_row(9, 64);
    while (!is_beyond_numbers(row)) row = make_row(9, 64);
    for (unsigned i = 0; i < 9; i++) row[i].lost = true;
    /* 0 -> 1 -> 2 -> 3, 3 -> 1; 2 -> 4 mangled; 5 -> 6; 7 alone; 8 -> 5. */
    ((uintptr_t *)row[0].start)[1] = row[1].start;
    ((uintptr_t *)row[1].start)[7] = row[2].start + 13;
    ((uintptr_t *)row[2].start)[0] = row[3].start;
    ((uintptr_t *)row[2].start)[3] = mangled(row[4].start);
    ((uintptr_t *)row[3].start)[0] = row[1].start | (uintptr_t)7 << 60;
    ((uintptr_t *)row[5].start)[2] = row[6].start;
    ((uintptr_t *)row[8].start)[2] = row[5].start;
    plant(1001, row[2].start);
    plant_half(2000, (uint32_t)row[5].start);
    plant_half(2008, (uint32_t)(row[5].start >> 3));
    run(false);
    static const enum vet_why expected[9] = {VET_NONE,       VET_MISALIGNED, VET_MISALIGNED, VET_MISALIGNED, VET_MISALIGNED,
                                             VET_NARROW,     VET_NARROW,     VET_NONE,       VET_NONE};
    for (unsigned i = 0; i < 9; i++) ck_assert_msg(why_of(&row[i]) == expected[i], "block %u: %d", i, why_of(&row[i]));
    /* The stronger reason wins, whoever is looked at first. */
    ((uintptr_t *)row[5].start)[4] = row[2].start;
    ((uintptr_t *)row[2].start)[5] = row[5].start;
    run(false);
    for (unsigned i = 0; i < 9; i++)
        ck_assert_int_eq(why_of(&row[i]), i == 5 || i == 6 ? VET_MISALIGNED : expected[i]);
}
END_TEST

/* ---- everything at once ---- */

static const struct block *block_around(uintptr_t address)
{
    for (unsigned i = 0; i < blocks; i++)
        if (block[i].live && address - block[i].start < block[i].bytes) return &block[i];
    return NULL;
}

/* Does a slot start there?  Pools are known by the blocks that were made in them. */
static bool is_slot(uintptr_t address)
{
    for (unsigned i = 0; i < blocks; i++) {
        if (block[i].bytes > MEDIUM_MAX) continue;
        uintptr_t pool = (uintptr_t)1 << (block[i].bytes > SMALL_MAX ? MEDIUM_POOL_SHIFT : SMALL_POOL_SHIFT);
        uintptr_t in_pool = address % pool;
        if (address / pool != block[i].start / pool || in_pool % block[i].bytes != 0) continue;
        if (in_pool + block[i].bytes <= pool) return true;
    }
    return false;
}

static enum vet_why expected[BLOCKS_MOST];

static void expect(unsigned i, enum vet_why why)
{
    if (block[i].lost && expected[i] < why) expected[i] = why;
}

static void expect_address(uintptr_t address)
{
    const struct block *around = block_around(address);
    if (around) {
        expect((unsigned)(around - block), VET_MISALIGNED);
        return;
    }
    if (is_slot(address)) return;
    for (unsigned i = 0; i < blocks; i++) {
        if (!block[i].live) continue;
        if (address == block[i].start + block[i].bytes) expect(i, VET_PAST_END);
        if (address < block[i].start && block[i].start - address <= 256) expect(i, VET_BEFORE);
    }
}

static void expect_bytes(const uint8_t *at, size_t bytes)
{
    for (size_t i = 0; i + 8 <= bytes; i++) {
        uint64_t v;
        memcpy(&v, at + i, 8);
        if (v == 0) continue;
        expect_address(v & 0xffffffffffff);
#if defined(__x86_64__)
        v = v >> 17 | v << 47;
#endif
        expect_address(v ^ GUARD);
    }
}

/* A value that leads to the block, or nearly. */
static uint64_t value_for(const struct block *b)
{
    uintptr_t p = b->start;
    switch (random_number() % 8) {
    case 0: p += b->bytes; break;
    case 1: p += b->bytes + 1; break;
    case 2: p -= 1 + random_number() % 300; break;
    case 3: p -= 256 + random_number() % 2; break;
    case 4: p += random_number() % b->bytes; break;
    case 5: p += b->bytes - 1; break;
    }
    switch (random_number() % 4) {
    case 0: return p | random_number() << 48;
    case 1: return mangled(p);
    default: return p;
    }
}

START_TEST(agrees_with_the_oracle)
{
    state = (uint64_t)(_i + 1) * 0x9e3779b97f4a7c15u;
    vet_limit_filter((unsigned)_i % WAYS);
    begin(2 * MIB);
    for (unsigned i = 0; i < 500; i++) {
        uint64_t size = random_number() % 40;
        make(size == 0 ? 40000 + random_number() % 300000 : size == 1 ? 2000 : 16 + random_number() % 400, random_number() % 3 == 0);
    }
    for (unsigned i = 0; i < blocks; i++)
        if (random_number() % 4 == 0) drop(&block[i]);
    for (size_t i = 0; i < ROOT_BYTES; i++) root[i] = (uint8_t)random_number();
    for (unsigned i = 0; i < blocks; i++) /* lost ones stay empty: they point to none */
        for (size_t k = 0; block[i].live && !block[i].lost && k < 300 && k < block[i].bytes; k++)
            ((uint8_t *)block[i].start)[k] = (uint8_t)random_number();
    for (unsigned i = 0; i < 120; i++) {
        const struct block *holder = &block[random_number() % blocks], *to = &block[random_number() % blocks];
        uint64_t value = value_for(to);
        if (i % 2 && holder->live && !holder->lost) memcpy((void *)(holder->start + random_number() % (holder->bytes - 7)), &value, 8);
        else plant(random_number() % (ROOT_BYTES - 8), value);
    }
    memset(expected, 0, sizeof expected);
    expect_bytes(root, ROOT_BYTES);
    for (unsigned i = 0; i < blocks; i++)
        if (block[i].live && !block[i].lost) expect_bytes((const uint8_t *)block[i].start, block[i].bytes);
    /* So much is looked at that no 32-bit form counts, which this oracle does not know. */
    run(false);
    ck_assert(r.chance > 0.01);
    unsigned reasons[VET_WHYS] = {0};
    for (unsigned i = 0; i < blocks; i++) {
        if (!block[i].lost) continue;
        ck_assert_msg(why_of(&block[i]) == expected[i], "block %u of %zu bytes: %d, expected %d", i, block[i].bytes,
                      why_of(&block[i]), expected[i]);
        reasons[expected[i]]++;
    }
    ck_assert_uint_gt(reasons[VET_NONE], 5);
    ck_assert_uint_gt(reasons[VET_MISALIGNED], 5);
}
END_TEST

/* In 64 MiB there are 2^26 windows, each of which points into one of 2^48 addresses.  2000 blocks with what lies before
   them are 2000 * (64 + 1 + 256) of these: 0.15 windows hit one by chance, and over four with a probability of
   (e * 0.15 / 5)^5, about 4e-6 (Chernoff); the mangled form asks for 16 bits more. */
START_TEST(random_bytes_explain_nothing)
{
    vet_limit_filter((unsigned)_i);
    begin(64 * MIB);
    for (unsigned i = 0; i < 2000; i++) make(64, true);
    for (size_t i = 0; i < root_bytes; i += 8) {
        uint64_t x = random_number();
        memcpy(root + i, &x, 8);
    }
    run(false);
    ck_assert_uint_le(explained(), 4);
    ck_assert_uint_ge(r.looked_at, root_bytes);
}
END_TEST

/* ---- without memory ---- */

START_TEST(memory_is_refused)
{
    struct block *row = begin_row(64);
    make(100000, true);
    make(3000, true);
    plant(1001, row[2].start);
    run(false);
    unsigned refusals = 0;
    for (bool ok = false; !ok; refusals++) {
        vet_free(&r);
        os_fail_mappings(refusals, 1);
        ok = vet(&r, &w, &g, &roots, &cut, false);
        os_fail_mappings(0, 0);
        if (!ok) ck_assert(r.why == NULL && r.count == 0);
        else ck_assert_int_eq(why_of(&row[2]), VET_MISALIGNED);
        ck_assert_uint_lt(refusals, 100);
    }
    ck_assert_uint_gt(refusals, 8);
}
END_TEST

START_TEST(nothing_is_lost)
{
    begin(ROOT_BYTES);
    make(64, false);
    run(true);
    ck_assert_uint_eq(r.count, 0);
    ck_assert_uint_eq(r.looked_at, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("vet");
    TCase *c = tcase_create("vet");
    tcase_set_timeout(c, 240);
    tcase_add_loop_test(c, nothing_points_there, 0, LOOPS);
    tcase_add_loop_test(c, misaligned, 0, LOOPS);
    tcase_add_loop_test(c, at_the_root_s_ends, 0, LOOPS);
    tcase_add_loop_test(c, misaligned_with_a_tag, 0, LOOPS);
    tcase_add_loop_test(c, misaligned_and_mangled, 0, LOOPS);
    tcase_add_loop_test(c, one_past_the_end, 0, LOOPS);
    tcase_add_loop_test(c, one_past_the_end_of_the_last, 0, 3 * WAYS);
    tcase_add_loop_test(c, past_the_end_of_a_large_block, 0, LOOPS);
    tcase_add_loop_test(c, before_the_start, 0, LOOPS);
    tcase_add_loop_test(c, before_the_window, 0, LOOPS);
    tcase_add_loop_test(c, the_strongest_reason_is_kept, 0, LOOPS);
    tcase_add_loop_test(c, halves, 0, WAYS);
    tcase_add_test(c, small_numbers_are_none);
    tcase_add_test(c, halves_of_pointers_are_none);
    tcase_add_test(c, dense_values_are_no_evidence);
    tcase_add_test(c, equal_values_count_once);
    tcase_add_test(c, too_much_memory_for_halves);
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
    tcase_add_test(c, what_an_explained_block_reaches);
    tcase_add_loop_test(c, agrees_with_the_oracle, 0, 12);
    tcase_add_loop_test(c, random_bytes_explain_nothing, 0, WAYS);
    tcase_add_test(c, memory_is_refused);
    tcase_add_test(c, nothing_is_lost);
    suite_add_tcase(s, c);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
