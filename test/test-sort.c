/* test-sort.c: sorting in place, against qsort.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "heap/sort.h"
#include "suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

struct element {
    unsigned key, serial;
    char ballast[SORT_MOST - 8];
};

static bool less(const void *one, const void *other)
{
    const struct element *a = one, *b = other;
    return a->key != b->key ? a->key < b->key : a->serial < b->serial;
}
static int compare(const void *a, const void *b)
{
    return less(a, b) ? -1 : less(b, a);
}

static bool less_byte(const void *a, const void *b)
{
    return *(const unsigned char *)a < *(const unsigned char *)b;
}

START_TEST(as_qsort)
{
    static struct element a[700], b[700];
    unsigned state = 1;
    for (size_t n = 0; n < 700; n += n < 40 ? 1 : 33)
        for (unsigned keys = 1; keys < 2000; keys *= 11) {
            for (unsigned i = 0; i < n; i++) {
                state = state * 1664525 + 1013904223;
                a[i] = (struct element){.key = (state >> 8) % keys, .serial = i};
                memset(a[i].ballast, (int)i, sizeof a[i].ballast);
            }
            memcpy(b, a, sizeof a);
            sort_in_place(a, n, sizeof *a, less);
            qsort(b, n, sizeof *b, compare);
            ck_assert_int_eq(memcmp(a, b, sizeof a), 0);
        }
}
END_TEST

START_TEST(small_elements)
{
    unsigned char text[] = "the quick brown fox";
    sort_in_place(text, sizeof text - 1, 1, less_byte);
    ck_assert_str_eq((char *)text, "   bcefhiknooqrtuwx");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sort");
    TCase *c = tcase_create("sort");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, as_qsort);
    tcase_add_test(c, small_elements);
    suite_add_tcase(suite, c);
    return suite_run(suite);
}
