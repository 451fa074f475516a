/* test-output.c: the names of profile files.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "preload/output-name.h"
#include "suite.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

static const struct output_facts first = {4711,       true,           3,
                                          1700000000, "redis-server", "host.example"};
static const struct output_facts other = {4712, false, 1, 1700000001, "sh", "h"};

static const struct {
    const char *pattern;
    const struct output_facts *facts;
    const char *name;
} names[] = {
    {"p", &first, "p"},
    {"p", &other, "p.4712"},
    {"p.%p", &other, "p.4712"},
    {"p.%p", &first, "p.4711"},
    {"gleaner.%e.%p.%n.pb.gz", &first, "gleaner.redis-server.4711.3.pb.gz"},
    {"/d/%h-%t", &first, "/d/host.example-1700000000"},
    {"100%%", &first, "100%"},
    {"100%%p", &other, "100%p.4712"}, /* no directive: %% is itself */
    {"%", &first, "%"},
    {"%x", &first, "%x"},
    {"", &other, ".4712"},
};

START_TEST(expands)
{
    char to[128];
    size_t n = output_name(to, sizeof to, names[_i].pattern, names[_i].facts);
    ck_assert_str_eq(to, names[_i].name);
    ck_assert_uint_eq(n, strlen(names[_i].name));
}
END_TEST

START_TEST(stays_in_its_folder)
{
    struct output_facts facts = first;
    facts.executable = "../../etc/x\n";
    facts.host = "a/b";
    char to[128];
    output_name(to, sizeof to, "/d/%e.%h", &facts);
    ck_assert_str_eq(to, "/d/.._.._etc_x_.a_b");
}
END_TEST

START_TEST(stays_in_its_buffer)
{
    for (size_t bytes = 0; bytes < 24; bytes++) {
        char to[32];
        memset(to, '!', sizeof to);
        ck_assert_uint_eq(output_name(to, bytes, "abc%p.%e", &first), 3 + 4 + 1 + 12);
        for (size_t i = bytes; i < sizeof to; i++) ck_assert(to[i] == '!');
        if (bytes > 0)
            ck_assert_int_eq(strncmp(to, "abc4711.redis-server", bytes < 21 ? bytes - 1 : 21), 0);
        if (bytes > 0) ck_assert_ptr_nonnull(memchr(to, 0, bytes));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("output");
    TCase *tests = tcase_create("names");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, expands, 0, (int)(sizeof names / sizeof *names));
    tcase_add_test(tests, stays_in_its_folder);
    tcase_add_test(tests, stays_in_its_buffer);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
