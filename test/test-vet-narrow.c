/* test-vet-narrow.c: pointers kept in 32 bits, and what is chance.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/vet_narrow.h"
#include "vet_process.h"
#include "suite.h"

/* A lost block and a lost neighbour, both in the same 64 KiB. */
static struct block *begin_narrow(void)
{
    begin(ROOT_BYTES);
    for (;;) {
        struct block *row = make_row(3, 400);
        if (!is_beyond_numbers(&row[1]) ||
            (uint32_t)row[1].start >> 16 != (uint32_t)row[2].start >> 16)
            continue;
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

static void count_found(uint32_t number, void *user)
{
    *(unsigned *)user += 1 + number;
}

/* Of a block far from the window's start, whose low half or shifted form is one. */
START_TEST(small_numbers_are_none)
{
    static const struct {
        uintptr_t start;
        uint32_t value;
        unsigned found;
    } is[] = {
        {0x123400008a40, 0x8a40, 0},
        {0x123400018a40, 0x18a40, 1},
        {0x120000008a40, 0x1148, 0},
        {0x123400008a40, 0x80001148, 1},
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
    plant(1000,
          b->start + (b->start < window_base + WINDOW_MEDIUM_OFFSET ? WINDOW_MEDIUM_OFFSET : 0));
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

/* Found in a memory of `values`, and the block's own. */
static unsigned found_among(const uint32_t *values, unsigned count, uintptr_t start, uint32_t own)
{
    struct group_block one = {.block = {.start = start, .bytes = 64 * KIB}};
    struct groups groups = {.block = &one, .count = 1};
    struct vet_narrow n;
    unsigned found = 0;
    ck_assert(vet_narrow_start(&n, &groups, 8));
    for (unsigned i = 0; i <= count; i++) {
        uint64_t word = (uint64_t)(i < count ? values[i] : own) << 32 | 0xffffffff;
        vet_narrow_look(&n, (const uint8_t *)&word, 8);
    }
    vet_narrow_found(&n, &groups, count_found, &found);
    vet_narrow_end(&n);
    return found;
}

/* Twelve round numbers of some 800 say that another one is no evidence; what is not round still is, and so is one alone. */
START_TEST(round_values_are_no_evidence)
{
    static const uint32_t round[] = {0x40000000, 0x10000000, 0x03000000, 0x00100000, 0x00003000, 0xc0000000,
                                     0x3f800000, 0xbf800000, 0x41200000, 0x42480000, 0x40240000, 0x3ff00000};
    ck_assert_uint_eq(found_among(round, 12, 0x123480000000, 0x80000000), 0);
    ck_assert_uint_eq(found_among(round, 12, 0x123405000000, 0x05000000), 0);
    ck_assert_uint_eq(found_among(round, 12, 0x123440800000, 0x40800000), 0); /* 4, or 512 */
    ck_assert_uint_eq(found_among(round, 12, 0x1234c0580000, 0xc0580000), 0); /* -96 */
    ck_assert_uint_eq(found_among(round, 12, 0x123440810000, 0x40810000), 1);
    ck_assert_uint_eq(found_among(round, 2, 0x123440800000, 0x40800000), 1);
    ck_assert_uint_eq(found_among(round, 12, 0x12340000f000, 0x80001e00), 1); /* the shifted form, of a small number */
    ck_assert_uint_eq(found_among(round, 12, 0x123480010000, 0x80010000), 1);
    ck_assert_uint_eq(found_among(round, 12, 0x123454000000, 0x54000000), 1);
    ck_assert_uint_eq(found_among(NULL, 0, 0x123480000000, 0x80000000), 1);
    /* The shifted form. */
    ck_assert_uint_eq(found_among(round, 12, 0x123480000000, 0x90000000), 0);
    ck_assert_uint_eq(found_among(NULL, 0, 0x123480000000, 0x90000000), 1);
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

int main(void)
{
    Suite *s = suite_create("vet narrow");
    TCase *c = tcase_create("vet narrow");
    tcase_set_timeout(c, 240);
    tcase_add_loop_test(c, halves, 0, WAYS);
    tcase_add_test(c, small_numbers_are_none);
    tcase_add_test(c, halves_of_pointers_are_none);
    tcase_add_test(c, dense_values_are_no_evidence);
    tcase_add_test(c, equal_values_count_once);
    tcase_add_test(c, round_values_are_no_evidence);
    tcase_add_test(c, too_much_memory_for_halves);
    suite_add_tcase(s, c);
    return suite_run(s);
}
