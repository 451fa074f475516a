/* test-lsan-options.c: LeakSanitizer's flags: those that are taken, every kind of mistake, and junk.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "preload/lsan_options.h"
#include "suite.h"

#include <check.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static struct lsan_options o;
static unsigned lines;
static char last[512];

static void note(const char *line)
{
    lines++;
    snprintf(last, sizeof last, "%s", line);
    bool printable = true;
    for (const char *s = line; *s; s++) printable &= *s >= 0x20 && *s < 0x7f;
    if (!printable) ck_abort_msg("not printable: %s", line);
}

static void read_text(const char *text)
{
    lines = 0;
    lsan_options_default(&o);
    lsan_options_parse(&o, text, strlen(text), "here", note);
}

START_TEST(defaults)
{
    read_text("");
    ck_assert(o.detect_leaks && o.print_suppressions && !o.report_objects && !o.has_exitcode);
    ck_assert_uint_eq(o.max_leaks, 0);
    ck_assert_str_eq(o.suppressions, "");
    ck_assert_uint_eq(lines, 0);
}
END_TEST

START_TEST(every_flag)
{
    read_text("suppressions=/a/b.supp:exitcode=42 "
              "report_objects=1,max_leaks=4294967295\nprint_suppressions=false\tdetect_leaks=0");
    ck_assert_str_eq(o.suppressions, "/a/b.supp");
    ck_assert(o.has_exitcode && o.exitcode == 42 && o.report_objects && !o.print_suppressions &&
              !o.detect_leaks);
    ck_assert_uint_eq(o.max_leaks, UINT32_MAX);
    ck_assert_uint_eq(lines, 0);
    /* Later ones win; quotations keep what separates; others' flags are none of our business. */
    read_text("exitcode=1:exitcode=0:suppressions=\"C:/x "
              "y,z\":use_stacks=0:verbosity=3:log_path=/tmp/x:suppressions_of=9");
    ck_assert(o.has_exitcode && o.exitcode == 0);
    ck_assert_str_eq(o.suppressions, "C:/x y,z");
    ck_assert_uint_eq(lines, 0);
    read_text("suppressions='a'exitcode=7"); /* a quotation ends its value */
    ck_assert_str_eq(o.suppressions, "a");
    ck_assert_int_eq(o.exitcode, 7);
}
END_TEST

START_TEST(mistakes_are_named)
{
    static const char *const wrong[] = {"exitcode=256",
                                        "exitcode=",
                                        "exitcode=-1",
                                        "exitcode=1x",
                                        "detect_leaks=2",
                                        "detect_leaks=maybe",
                                        "max_leaks=4294967296",
                                        "max_leaks=99999999999999999999",
                                        "report_objects=",
                                        "exitcode",
                                        "=",
                                        "exitcode ",
                                        "x",
                                        "suppressions='open"};
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        read_text(wrong[i]);
        unsigned right = strcmp(wrong[i], "=") != 0;
        if (lines != right) ck_abort_msg("'%s': %u complaints", wrong[i], lines);
        ck_assert(!o.has_exitcode && o.detect_leaks && o.max_leaks == 0 && !o.report_objects);
    }
    read_text("exitcode=\x1b[1m9");
    ck_assert_str_eq(last, "gleaner: here: bad value: 'exitcode=?[1m9'; skipped");
    read_text("exitcode=no:max_leaks=3");
    ck_assert_uint_eq(o.max_leaks, 3);
    char path[2 * CONFIG_PATH] = "suppressions=";
    memset(path + 13, 'p', CONFIG_PATH - 1);
    read_text(path);
    ck_assert_uint_eq(strlen(o.suppressions), CONFIG_PATH - 1);
    path[13 + CONFIG_PATH - 1] = 'p';
    read_text(path);
    ck_assert_str_eq(o.suppressions, "");
    ck_assert_uint_eq(lines, 1);
    read_text("a b c d e f g h i j k l");
    ck_assert_uint_eq(lines, 9);
    ck_assert_str_eq(last, "gleaner: here: more of this is not shown");
}
END_TEST

START_TEST(junk)
{
    static const char letters[] = "=:'\", \n\texitcodedetect_leaks=suppressions019\0\x80";
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(page, MAP_FAILED);
    ck_assert_int_eq(mprotect(page + 4096, 4096, PROT_NONE), 0);
    unsigned state = 3, taken = 0;
    for (unsigned round = 0; round < 20000; round++) {
        state = state * 1664525 + 1013904223;
        size_t n = (state >> 8) % 120;
        char *text = page + 4096 - n;
        for (size_t i = 0; i < n; i++) {
            state = state * 1664525 + 1013904223;
            text[i] = letters[(state >> 16) % (sizeof letters - 1)];
        }
        if (n > 20 && round % 2) memcpy(text + round % (n - 14), " exitcode=255 ", 14);
        lsan_options_default(&o);
        lsan_options_parse(&o, text, n, "here", note);
        ck_assert(o.exitcode >= 0 && o.exitcode <= 255);
        ck_assert_ptr_nonnull(memchr(o.suppressions, 0, sizeof o.suppressions));
        taken += o.has_exitcode;
    }
    ck_assert_uint_gt(taken, 1000);
    munmap(page, 8192);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("LeakSanitizer's flags");
    TCase *c = tcase_create("flags");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, defaults);
    tcase_add_test(c, every_flag);
    tcase_add_test(c, mistakes_are_named);
    tcase_add_test(c, junk);
    suite_add_tcase(suite, c);
    return suite_run(suite);
}
