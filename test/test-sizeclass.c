/* The tables of sizeclass.c, derived again from the list of sizes.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "heap/sizeclass.h"
#include "suite.h"
#include <check.h>
#include <stdlib.h>

/* Every request gets the smallest slot that holds it. */
START_TEST(test_smallest_slot)
{
    for (size_t size = 0; size <= MEDIUM_MAX; size++) {
        unsigned want = 1;
        while (class_size[want] < size) want++;
        ck_assert_msg(class_for(size) == want, "size %zu: class %u, not %u", size, class_for(size), want);
    }
}
END_TEST

/* At most an eighth of a slot is wasted by a request over 128 bytes. */
START_TEST(test_waste)
{
    for (size_t size = 129; size <= MEDIUM_MAX; size++) {
        size_t slot = class_size[class_for(size)];
        ck_assert_msg((slot - size) * 8 <= slot, "size %zu in a slot of %zu", size, slot);
    }
}
END_TEST

START_TEST(test_granules)
{
    for (unsigned c = 1; c <= POOL_CLASSES; c++) {
        ck_assert_uint_gt(class_size[c], class_size[c - 1]);
        ck_assert_uint_eq(class_size[c] % (class_is_medium(c) ? 128 : 16), 0);
    }
    ck_assert_uint_eq(class_size[SMALL_CLASSES], SMALL_MAX);
    ck_assert_uint_eq(class_size[POOL_CLASSES], MEDIUM_MAX);
}
END_TEST

/* The multiplication is a division for every offset of a pool. */
START_TEST(test_reciprocal)
{
    for (unsigned c = 1; c <= POOL_CLASSES; c++)
        for (size_t offset = 0; offset < (class_is_medium(c) ? 256 * KIB : 32 * KIB); offset++)
            if (slot_of_offset(c, offset) != offset / class_size[c])
                ck_abort_msg("class %u offset %zu", c, offset);
}
END_TEST

START_TEST(test_aligned)
{
    for (size_t align = 16; align <= MEDIUM_MAX; align *= 2)
        for (size_t size = 1; size <= MEDIUM_MAX; size = size * 5 / 4 + 1) {
            unsigned c = class_for_aligned(align, size);
            ck_assert_uint_ne(c, 0); /* MEDIUM_MAX itself always fits */
            ck_assert_uint_eq(class_size[c] % align, 0);
            ck_assert_uint_ge(class_size[c], size);
        }
    ck_assert_uint_eq(class_for_aligned(65536, 16), 0);
    ck_assert_uint_eq(class_for_aligned(32, MEDIUM_MAX + 1), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("sizeclass");
    TCase *t = tcase_create("tables");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, test_smallest_slot);
    tcase_add_test(t, test_waste);
    tcase_add_test(t, test_granules);
    tcase_add_test(t, test_reciprocal);
    tcase_add_test(t, test_aligned);
    suite_add_tcase(s, t);
    return suite_run(s);
}
