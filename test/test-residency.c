/* Resident bytes by the window's areas: pages that were touched count, mapped ones alone do not.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "heap/os.h"
#include "heap/window.h"
#include "sampler/residency.h"
#include "suite.h"
#include <check.h>
#include <stdlib.h>

static volatile char *map_area(size_t offset)
{
    window_start();
    char *at = (char *)window_base + offset;
    ck_assert(os_map_at(at, MIB, NULL));
    return at;
}

static void touch(volatile char *at, unsigned pages)
{
    for (unsigned i = 0; i < pages; i++) at[i * 2 * OS_PAGE] = 1;
}

START_TEST(test_areas)
{
    struct residency r;
    volatile char *small = map_area(WINDOW_SMALL_OFFSET), *medium = map_area(WINDOW_MEDIUM_OFFSET);
    volatile char *large = map_area(WINDOW_LARGE_OFFSET), *tables = map_area(WINDOW_TABLES_OFFSET);
    ck_assert(residency_read(&r));
    ck_assert_uint_eq(r.pools + r.large + r.metadata, 0);
    touch(small, 3);
    touch(medium, 4);
    touch(large, 7);
    touch(tables, 11);
    ck_assert(residency_read(&r));
    ck_assert_uint_eq(r.pools, (3 + 4) * OS_PAGE);
    ck_assert_uint_eq(r.large, 7 * OS_PAGE);
    ck_assert_uint_eq(r.metadata, 11 * OS_PAGE);
    os_discard((void *)large, MIB);
    ck_assert(residency_read(&r));
    ck_assert_uint_eq(r.large, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("residency");
    TCase *t = tcase_create("residency");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, test_areas);
    suite_add_tcase(s, t);
    return suite_run(s);
}
