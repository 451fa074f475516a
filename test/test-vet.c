/* test-vet.c: the vetting sweep: every 64-bit form of a pointer by itself, with a neighbour that it must not explain; what hangs on
   explained blocks; all forms at once on random memory against a slow oracle; and random bytes.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "vet_process.h"
#include "suite.h"

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
            plant(1000 + at, row[2].start + (inside == 0   ? 0
                                             : inside == 1 ? row[2].bytes / 2
                                                           : row[2].bytes - 1));
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
    ck_assert_int_eq(why_of(b), a->start + a->bytes > b->start - 256 && a->start < b->start
                                    ? VET_NONE
                                    : VET_BEFORE);
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
        ck_assert_int_eq(why_of(&row[3]),
                         distance + row[2].bytes <= 256 && !slot ? VET_BEFORE : VET_NONE);
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
    static const enum vet_why expected[9] = {VET_NONE,       VET_MISALIGNED, VET_MISALIGNED,
                                             VET_MISALIGNED, VET_MISALIGNED, VET_NARROW,
                                             VET_NARROW,     VET_NONE,       VET_NONE};
    for (unsigned i = 0; i < 9; i++)
        ck_assert_msg(why_of(&row[i]) == expected[i], "block %u: %d", i, why_of(&row[i]));
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
        uintptr_t pool = (uintptr_t)1
                         << (block[i].bytes > SMALL_MAX ? MEDIUM_POOL_SHIFT : SMALL_POOL_SHIFT);
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
    case 0:
        p += b->bytes;
        break;
    case 1:
        p += b->bytes + 1;
        break;
    case 2:
        p -= 1 + random_number() % 300;
        break;
    case 3:
        p -= 256 + random_number() % 2;
        break;
    case 4:
        p += random_number() % b->bytes;
        break;
    case 5:
        p += b->bytes - 1;
        break;
    }
    switch (random_number() % 4) {
    case 0:
        return p | random_number() << 48;
    case 1:
        return mangled(p);
    default:
        return p;
    }
}

START_TEST(agrees_with_the_oracle)
{
    random_state = (uint64_t)(_i + 1) * 0x9e3779b97f4a7c15u;
    vet_limit_filter((unsigned)_i % WAYS);
    begin(2 * MIB);
    for (unsigned i = 0; i < 500; i++) {
        uint64_t size = random_number() % 40;
        make(size == 0   ? 40000 + random_number() % 300000
             : size == 1 ? 2000
                         : 16 + random_number() % 400,
             random_number() % 3 == 0);
    }
    for (unsigned i = 0; i < blocks; i++)
        if (random_number() % 4 == 0) drop(&block[i]);
    for (size_t i = 0; i < ROOT_BYTES; i++) root[i] = (uint8_t)random_number();
    for (unsigned i = 0; i < blocks; i++) /* lost ones stay empty: they point to none */
        for (size_t k = 0; block[i].live && !block[i].lost && k < 300 && k < block[i].bytes; k++)
            ((uint8_t *)block[i].start)[k] = (uint8_t)random_number();
    for (unsigned i = 0; i < 120; i++) {
        const struct block *holder = &block[random_number() % blocks],
                           *to = &block[random_number() % blocks];
        uint64_t value = value_for(to);
        if (i % 2 && holder->live && !holder->lost)
            memcpy((void *)(holder->start + random_number() % (holder->bytes - 7)), &value, 8);
        else
            plant(random_number() % (ROOT_BYTES - 8), value);
    }
    memset(expected, 0, sizeof expected);
    expect_bytes(root, ROOT_BYTES);
    for (unsigned i = 0; i < blocks; i++)
        if (block[i].live && !block[i].lost)
            expect_bytes((const uint8_t *)block[i].start, block[i].bytes);
    /* So much is looked at that no 32-bit form counts, which this oracle does not know. */
    run(false);
    ck_assert(r.chance > 0.01);
    unsigned reasons[VET_WHYS] = {0};
    for (unsigned i = 0; i < blocks; i++) {
        if (!block[i].lost) continue;
        ck_assert_msg(why_of(&block[i]) == expected[i], "block %u of %zu bytes: %d, expected %d", i,
                      block[i].bytes, why_of(&block[i]), expected[i]);
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

/* ---- cuts through pointers ---- */

#define LIBRARY ((uintptr_t)0x7f1234000000)

static struct map library = {.from = LIBRARY, .to = LIBRARY + GIB, .kind = MAP_KIND_FILE, .readable = true};

/* The end of one word and the beginning of the next have the block's address; the second is a pointer to a library, or only looks like
   one.  At four a half is left that is the block's low half. */
START_TEST(cut_out_of_the_second_word)
{
    BY_WAY();
    struct block *row = begin_row(SIZE);
    for (unsigned mapped = 0; mapped < 2; mapped++)
        for (unsigned at = 3; at < 6; at++) {
            /* What is left of the address when `8 - at` bytes of it lie in the first word. */
            uint64_t rest = row[2].start >> 8 * (8 - at), mask = ((uint64_t)1 << 8 * (at - 2)) - 1;
            memset(root, 0, root_bytes);
            plant(1000, row[2].start << 8 * at);
            plant(1008, (LIBRARY & ~mask) | rest);
            library.from = LIBRARY & ~mask;
            library.to = library.from + mask + 1;
            roots.maps = (struct maps){.map = &library, .count = mapped};
            check_only(&row[2], !mapped ? VET_MISALIGNED : at == 4 ? VET_NARROW : VET_NONE);
        }
}
END_TEST

/* Of the first word it takes the bytes from the second to the sixth on. */
START_TEST(cut_out_of_the_first_word)
{
    BY_WAY();
    struct block *row = begin_row(SIZE);
    for (unsigned at = 1; at < 6; at++)
        for (unsigned mapped = 0; mapped < 2; mapped++) {
            uint64_t first = row[2].start << 8 * at | 0x7f;
            if (first >> 40 == 0 || first >> 48 != 0) continue; /* no address of user memory: found by chance only */
            library.from = first & ~(OS_PAGE - 1);
            library.to = library.from + OS_PAGE;
            roots.maps = (struct maps){.map = &library, .count = mapped};
            memset(root, 0, root_bytes);
            plant(1000, first);
            plant(1008, row[2].start >> 8 * (8 - at));
            check_only(&row[2], mapped ? VET_NONE : VET_MISALIGNED);
        }
}
END_TEST

/* Two addresses of six bytes each: of the second, a large block's, the first two bytes are zero, so that the first word is a pointer. */
START_TEST(packed_behind_a_pointer)
{
    BY_WAY();
    begin(ROOT_BYTES);
    struct block *b = NULL;
    for (unsigned i = 0; i < 64 && (!b || b->start % (64 * KIB)); i++) b = make(64 * KIB, false);
    ck_assert_uint_eq(b->start % (64 * KIB), 0);
    b->lost = true;
    library.from = LIBRARY;
    library.to = LIBRARY + GIB;
    roots.maps = (struct maps){.map = &library, .count = 1};
    plant(1006, b->start);
    plant(1000, LIBRARY + 1000);
    plant(1008, b->start >> 16);
    check_only(b, VET_MISALIGNED);
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
        if (!ok)
            ck_assert(r.why == NULL && r.count == 0);
        else
            ck_assert_int_eq(why_of(&row[2]), VET_MISALIGNED);
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
    tcase_add_test(c, what_an_explained_block_reaches);
    tcase_add_loop_test(c, agrees_with_the_oracle, 0, 12);
    tcase_add_loop_test(c, random_bytes_explain_nothing, 0, WAYS);
    tcase_add_loop_test(c, cut_out_of_the_second_word, 0, LOOPS);
    tcase_add_loop_test(c, cut_out_of_the_first_word, 0, LOOPS);
    tcase_add_loop_test(c, packed_behind_a_pointer, 0, WAYS);
    tcase_add_test(c, memory_is_refused);
    tcase_add_test(c, nothing_is_lost);
    suite_add_tcase(s, c);
    return suite_run(s);
}
