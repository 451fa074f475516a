/* test-vet-filter.c: what passes the filter of the vetting sweep, by each way the same, against one window after the other.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "random_number.h"
#include "heap/mark.h"
#include "heap/vet_filter.h"
#include "suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MOST 700u

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static bool in_ranges(const struct vet_filter_range *range, uintptr_t address)
{
    for (unsigned i = 0; i < VET_FILTER_RANGES; i++)
        if (address >= range[i].from && address < range[i].to) return true;
    return false;
}

static bool fits(const struct vet_filter_range *range, uintptr_t word)
{
    for (unsigned i = 0; i < VET_FILTER_RANGES; i++)
        for (uintptr_t high = range[i].from >> 32; range[i].to && high <= (range[i].to - 1) >> 32;
             high++)
            if ((high & 0xff) == (word >> 32 & 0xff)) return true;
    return false;
}

/* Four quarters of a window whose base is no multiple of 1 TiB, and of one that is. */
static const struct vet_filter_range ranges[2][VET_FILTER_RANGES] = {
    {{0x17f800000000, 0x17fa00000000},
     {0x183800000000, 0x183800010000},
     {0, 0},
     {0x18c000000000, 0x18f000000000}},
    {{0x1fffffffff00, 0x200300000000}, {0, 0}, {0x208000000000, 0x208000002000}, {0, 0}},
};

/* Bytes of which many are those that addresses in the ranges have. */
static uint8_t likely_byte(void)
{
    static const uint8_t of_addresses[] = {0x17, 0x18, 0x1f, 0x20, 0xf8, 0x38,
                                           0xc0, 0xef, 0xff, 0x00, 0x80, 0x03};
    uint64_t r = random_number();
    return r % 3 ? of_addresses[(r >> 8) % sizeof of_addresses] : (uint8_t)(r >> 16);
}

START_TEST(every_way_finds_the_same)
{
    const struct vet_filter_range *range = ranges[_i / 2];
    /* Half a guard in which the bytes that are compared are likely ones. */
    uintptr_t guard = _i % 2 ? 0x8b8b8b8b12345678 & ~(uintptr_t)0xff : 0;
    uint32_t found[3][2 * MOST];
    static uint8_t page[2 * OS_PAGE];
    random_state = 88172645463325252u + (unsigned)_i;
    for (unsigned round = 0; round < 3000; round++) {
        size_t bytes = random_number() % (round % 10 ? 100 : MOST), n[3];
        uint8_t *at = page + random_number() % 64;
        for (size_t i = 0; i < bytes; i++)
            at[i] = random_number() % 8 ? likely_byte()
                                        : (uint8_t)(guard >> (random_number() % 2 ? 47 : 55));
        for (unsigned way = 0; way < 3; way++) {
            struct vet_filter f;
            vet_filter_start(&f, range, guard, (enum vet_filter_way)way);
            n[way] = vet_filter(&f, at, bytes, found[way]);
            qsort(found[way], n[way], sizeof(uint32_t), by_number);
        }
        for (unsigned way = 1; way < 3; way++) {
            ck_assert_uint_eq(n[way], n[0]);
            ck_assert_int_eq(memcmp(found[way], found[0], n[0] * sizeof(uint32_t)), 0);
        }
        /* Nothing that is an address in a range is missed, and what passes has its bytes 5 and 4. */
        size_t next = 0;
        bool ok = true; /* an assertion a window takes too long */
        for (size_t i = 0; i + 8 <= bytes; i++) {
            uintptr_t word;
            memcpy(&word, at + i, 8);
            bool plain = next < n[0] && found[0][next] == i << 1;
            next += plain;
            ok &= plain ? fits(range, word) : !in_ranges(range, mark_plain(word));
            bool mangled = next < n[0] && found[0][next] == (i << 1 | VET_MANGLED);
            next += mangled;
            ok &= guard ? mangled || !in_ranges(range, mark_demangled(word, guard)) : !mangled;
        }
        ck_assert(ok);
        ck_assert_uint_eq(next, n[0]);
    }
}
END_TEST

/* Of bytes at the end of a page that nothing follows. */
START_TEST(reads_no_byte_too_many)
{
    uint8_t *at =
        mmap(NULL, 2 * OS_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_int_eq(mprotect(at + OS_PAGE, OS_PAGE, PROT_NONE), 0);
    uint32_t found[2 * MOST];
    struct vet_filter f;
    vet_filter_start(&f, ranges[0], 0x8b8b8b8b12345600, (enum vet_filter_way)_i);
    uintptr_t address = 0x17f900000123;
    for (size_t bytes = 8; bytes <= 200; bytes++) {
        memset(at, 0, OS_PAGE);
        memcpy(at + OS_PAGE - 8, &address, 8);
        ck_assert_uint_eq(vet_filter(&f, at + OS_PAGE - bytes, bytes, found), 1);
        ck_assert_uint_eq(found[0], (bytes - 8) << 1);
    }
    munmap(at, 2 * OS_PAGE);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("vet filter");
    TCase *c = tcase_create("vet filter");
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, every_way_finds_the_same, 0, 4);
    tcase_add_loop_test(c, reads_no_byte_too_many, 0, 3);
    suite_add_tcase(s, c);
    return suite_run(s);
}
