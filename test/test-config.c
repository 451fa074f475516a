/* test-config.c: the configuration's reader: every key, every kind of mistake, and junk.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "preload/config.h"
#include "suite.h"
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECOND 1000000000ull

static struct config c;
static unsigned lines;
static char last[1024];

static void note(const char *line)
{
    lines++;
    snprintf(last, sizeof last, "%s", line);
    bool printable = true;
    for (const char *s = line; *s; s++) printable &= *s >= 0x20 && *s < 0x7f;
    if (!printable) ck_abort_msg("not printable: %s", line);
}

static void fresh(void)
{
    config_default(&c);
    lines = 0;
    last[0] = 0;
}

static void read_text(const char *text)
{
    config_parse(&c, text, strlen(text), "here", note);
}

START_TEST(defaults)
{
    fresh();
    ck_assert_uint_eq(c.sample_bytes, 524288);
    ck_assert(!c.sample_all && c.follow && c.abort && !c.verify && !c.frame_pointers &&
              !c.fixed_seed);
    ck_assert_uint_eq(c.depth, 64);
    ck_assert(c.leaks == LEAKS_OFF && c.collect == COLLECT_UNSET && c.log == LOG_NONE);
    ck_assert_uint_eq(c.nursery_bytes, 0);
    ck_assert_uint_eq(c.reclaim_delay_ns, 60 * SECOND);
    ck_assert(c.reclaim_age_ns == UINT64_MAX && c.reclaim_confirmations == 3 && c.reclaim_trial == 1 && c.reclaim_share == 10);
    ck_assert(c.reclaim_stacks && c.reclaim_contents && !c.reclaim_libraries && !c.reclaim_anyway);
    ck_assert_uint_eq(c.interval_ns, 0);
    ck_assert(!c.exit_report && !c.exit_profile && c.exit_code == 0 && c.signal == 0);
    ck_assert_str_eq(c.output, "gleaner.%e.%p.%n.pb.gz");
    ck_assert_str_eq(c.suppressions, "");
}
END_TEST

START_TEST(every_key)
{
    fresh();
    read_text("sample:64K,depth:12,leaks:every=30s,collect:reclaim,nursery:4M,reclaim_delay:500ms,"
              "interval:2m,output:/tmp/%p,exit:both,exit_code:23,signal:USR2,suppressions:/a/b,"
              "follow:no,log:debug=/tmp/log,verify:yes,abort:no,unwind:fp,seed:42");
    ck_assert_uint_eq(lines, 0);
    ck_assert_uint_eq(c.sample_bytes, 65536);
    ck_assert_uint_eq(c.depth, 12);
    ck_assert(c.leaks == LEAKS_EVERY && c.leaks_every_ns == 30 * SECOND);
    ck_assert(c.collect == COLLECT_RECLAIM);
    ck_assert_uint_eq(c.nursery_bytes, 4194304);
    ck_assert_uint_eq(c.reclaim_delay_ns, SECOND / 2);
    ck_assert_uint_eq(c.interval_ns, 120 * SECOND);
    ck_assert_str_eq(c.output, "/tmp/%p");
    ck_assert(c.exit_report && c.exit_profile && c.exit_code == 23 && c.signal == 12);
    ck_assert_str_eq(c.suppressions, "/a/b");
    ck_assert(!c.follow && c.verify && !c.abort && c.frame_pointers && c.fixed_seed);
    ck_assert_uint_eq(c.seed, 42);
    ck_assert(c.log == LOG_DEBUG);
    ck_assert_str_eq(c.log_file, "/tmp/log");
}
END_TEST

START_TEST(rules_of_reclaim)
{
    fresh();
    read_text("reclaim_age:5m,reclaim_confirmations:7,reclaim_trial:32,reclaim_share:25,reclaim_stacks:no,reclaim_contents:no,"
              "reclaim_libraries:yes,reclaim_anyway:yes");
    ck_assert_uint_eq(lines, 0);
    ck_assert_uint_eq(c.reclaim_age_ns, 300 * SECOND);
    ck_assert(c.reclaim_confirmations == 7 && c.reclaim_trial == 32 && c.reclaim_share == 25);
    ck_assert(!c.reclaim_stacks && !c.reclaim_contents && c.reclaim_libraries && c.reclaim_anyway);
}
END_TEST

START_TEST(later_wins)
{
    fresh();
    read_text("sample:all,sample:1K");
    ck_assert(!c.sample_all && c.sample_bytes == 1024);
    read_text("sample:all");
    ck_assert(c.sample_all);
    read_text(
        "sample:off,leaks:exit,leaks:off,signal:12,signal:none,seed:1,seed:random,exit:report,"
        "exit:none,log:gc=/x,log:none,suppressions:/x,suppressions:none");
    ck_assert(!c.sample_all && c.sample_bytes == 0 && c.leaks == LEAKS_OFF && c.signal == 0);
    ck_assert(!c.fixed_seed && !c.exit_report && c.log == LOG_NONE && c.log_file[0] == 0);
    ck_assert_str_eq(c.suppressions, "");
    ck_assert_uint_eq(lines, 0);
}
END_TEST

START_TEST(forms)
{
    fresh();
    read_text(
        "  depth = 3 ,\n# depth:9\n\tsample: 2MiB\r\n,,,follow=off # not a comment: part of it");
    ck_assert_uint_eq(c.depth, 3);
    ck_assert_uint_eq(c.sample_bytes, 2097152);
    ck_assert(c.follow); /* the value was "off # not a comment: part of it" */
    ck_assert_uint_eq(lines, 1);
    fresh();
    config_parse(&c, "depth:7\0depth:8", 15, "here", note); /* a text ends at its zero */
    ck_assert_uint_eq(c.depth, 7);
    config_parse(&c, "depth:99", 7, "here", note); /* and at its length */
    ck_assert_uint_eq(c.depth, 9);
    config_parse(&c, "", 0, "here", note);
    ck_assert_uint_eq(lines, 0);
}
END_TEST

static const struct {
    const char *text;
    uint64_t bytes;
} sizes[] = {{"0", 0},
             {"1", 1},
             {"4096", 4096},
             {"1K", 1024},
             {"3k", 3072},
             {"1M", 1 << 20},
             {"2G", 2ull << 30},
             {"3T", 3ull << 40},
             {"1KiB", 1024},
             {"1MB", 1 << 20},
             {"9223372036854775807", INT64_MAX}};

START_TEST(bytes)
{
    char text[64];
    fresh();
    snprintf(text, sizeof text, "sample:%s", sizes[_i].text);
    read_text(text);
    ck_assert_uint_eq(lines, 0);
    ck_assert_uint_eq(c.sample_bytes, sizes[_i].bytes);
}
END_TEST

/* Each is one line that names the value and what would be right, and changes nothing. */
static const struct {
    const char *text, *says;
} wrong[] = {
    {"sample:", "for sample; skipped (right: bytes"},
    {"sample:-1", "'-1' for sample"},
    {"sample:1P", "'1P' for sample"},
    {"sample:1Kx", "'1Kx'"},
    {"sample:9223372036854775808", "for sample"},
    {"sample:99999999999999999999999", "for sample"},
    {"sample:17179869184G", "for sample"},
    {"depth:0", "right: 1 to 256"},
    {"depth:257", "right: 1 to 256"},
    {"depth:8 9", "for depth"},
    {"leaks:every=0", "for leaks"},
    {"leaks:every=30", "for leaks"},
    {"leaks:yes", "off, exit or every=30s"},
    {"collect:on", "off, report or reclaim"},
    {"nursery:0", "for nursery"},
    {"reclaim_delay:5", "a duration"},
    {"reclaim_age:1", "a duration"},
    {"reclaim_confirmations:0", "1 to 255"},
    {"reclaim_confirmations:256", "1 to 255"},
    {"reclaim_trial:1000001", "0 to 1000000"},
    {"reclaim_share:0", "1 to 100"},
    {"reclaim_share:101", "1 to 100"},
    {"reclaim_stacks:2", "yes or no"},
    {"reclaim_anyway:", "yes or no"},
    {"interval:5 s", "for interval"},
    {"interval:9999999999999999h", "for interval"},
    {"exit:always", "none, report, profile or both"},
    {"exit_code:256", "0 to 255"},
    {"signal:33", "for signal"},
    {"signal:KILL", "for signal"},
    {"signal:SEGV", "for signal"},
    {"signal:0", "for signal"},
    {"signal:65", "for signal"},
    {"signal:NOSUCH", "for signal"},
    {"follow:maybe", "yes or no"},
    {"log:loud", "for log"},
    {"log:gc=", "for log"},
    {"abort:", "yes or no"},
    {"unwind:magic", "libunwind or fp"},
    {"seed:1.5", "a number or random"},
    {"seed:18446744073709551616", "for seed"},
    {"output:", "for output"},
    {"nokey", "'nokey' is not key:value"},
    {"Sample:1K", "unknown key 'Sample'"},
    {":5", "unknown key ''"},
    {"colour:blue", "known: sample depth leaks"},
};

START_TEST(mistakes)
{
    struct config before;
    fresh();
    before = c;
    read_text(wrong[_i].text);
    ck_assert_uint_eq(lines, 1);
    ck_assert_msg(strncmp(last, "gleaner: here: ", 15) == 0 && strstr(last, wrong[_i].says), "%s",
                  last);
    ck_assert_mem_eq(&c, &before, sizeof c);
}
END_TEST

START_TEST(skips_and_goes_on)
{
    fresh();
    read_text("nonsense,depth:5,x:y,follow:no");
    ck_assert_uint_eq(lines, 2);
    ck_assert(c.depth == 5 && !c.follow);
}
END_TEST

START_TEST(long_values)
{
    static char text[8192];
    fresh();
    int n = sprintf(text, "output:/");
    memset(text + n, 'x', 4000);
    strcpy(text + n + 4000, ",depth:6");
    read_text(text);
    ck_assert_uint_eq(lines, 1);
    ck_assert_uint_eq(c.depth, 6);
    fresh(); /* the longest that fits: 1023 bytes */
    memset(text + n, 'x', 1022);
    text[n + 1022] = 0;
    read_text(text);
    ck_assert_uint_eq(lines, 0);
    ck_assert_uint_eq(strlen(c.output), 1023);
    strcat(text, "x");
    fresh();
    read_text(text);
    ck_assert_uint_eq(lines, 1);
}
END_TEST

START_TEST(few_complaints)
{
    static char text[60000];
    fresh();
    for (size_t i = 0; i + 3 < sizeof text; i += 2) memcpy(text + i, "x,", 3);
    read_text(text);
    ck_assert_uint_eq(lines, 9);
    ck_assert(strstr(last, "not shown"));
    config_parse(&c, text, strlen(text), "here", NULL);
}
END_TEST

/* Junk of every kind neither crashes nor prints what is not printable (note checks that). */
START_TEST(junk)
{
    static const char alphabet[] = "sampledepthxit:=,\n \t#0159KMGsmh%\x01\xff\x7f";
    static char text[600];
    uint64_t s = 88172645463325252u;
    for (int round = 0; round < 20000; round++) {
        fresh();
        size_t n = 0;
        s ^= s << 13, s ^= s >> 7, s ^= s << 17;
        size_t length = s % sizeof text;
        for (; n < length; n++) {
            s ^= s << 13, s ^= s >> 7, s ^= s << 17;
            text[n] = round % 2 ? (char)(s >> 20) : alphabet[(s >> 20) % (sizeof alphabet - 1)];
        }
        config_parse(&c, text, n, "here", note);
        if (c.depth < 1 || c.depth > 256 || !memchr(c.output, 0, sizeof c.output) ||
            !memchr(c.log_file, 0, sizeof c.log_file))
            ck_abort_msg("round %d", round);
    }
}
END_TEST

static void write_file(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(data, 1, n, f), n);
    fclose(f);
}

START_TEST(files)
{
    char folder[] = "/tmp/gleaner-config-XXXXXX", path[64];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/conf", folder);
    fresh();
    config_read_file(&c, path, note); /* none: silent */
    ck_assert_uint_eq(lines, 0);
    write_file(path, "# ours\nsample: 1M\ndepth: 20", 27);
    config_read_file(&c, path, note);
    ck_assert(c.sample_bytes == 1 << 20 && c.depth == 20 && lines == 0);

    static char big[70000];
    memset(big, '\n', sizeof big);
    memcpy(big, "depth:30", 8);
    write_file(path, big, sizeof big); /* longer than is read: none of it counts */
    config_read_file(&c, path, note);
    ck_assert_uint_eq(lines, 1);
    ck_assert(strstr(last, "longer than 64K") && c.depth == 20);
    write_file(path, big, 65536); /* exactly as long as is read */
    fresh();
    config_read_file(&c, path, note);
    ck_assert(lines == 0 && c.depth == 30);

    fresh();
    config_read_file(&c, folder, note); /* a folder: one line */
    ck_assert_uint_eq(lines, 1);
    unlink(path);
    ck_assert_int_eq(mkfifo(path, 0600), 0); /* does not block */
    fresh();
    config_read_file(&c, path, note);
    ck_assert_uint_eq(c.depth, 64);
    unlink(path);
    rmdir(folder);
}
END_TEST

START_TEST(environment)
{
    char *const variables[] = {"GLEANER_CON=1", "GLEANER_CONFX=2", "GLEANER_CONF=a:b",
                               "GLEANER_CONF=c", NULL};
    ck_assert_str_eq(config_environment(variables, "GLEANER_CONF"), "a:b");
    ck_assert_ptr_null(config_environment(variables, "GLEANER"));
    ck_assert_ptr_null(config_environment(NULL, "GLEANER"));
}
END_TEST

/* A file of the sources; from malloc. */
static char *source(const char *name)
{
    char path[1024], *text = calloc(1, 1 << 20);
    snprintf(path, sizeof path, "%s/%s", getenv("GLEANER_SOURCES"), name);
    FILE *file = fopen(path, "r");
    ck_assert_msg(file && text, "%s", path);
    ck_assert_uint_lt(fread(text, 1, (1 << 20) - 1, file), (1 << 20) - 1);
    fclose(file);
    return text;
}

/* Every key stands in the manual and in gleaner(7); README's table has no others. */
START_TEST(documented)
{
    char *code = source("preload/config.c"), *manual = source("doc/options.md"), *page = source("doc/gleaner.7"), *readme = source("README.md");
    char key[64], row[80];
    unsigned count = 0;
    for (char *at = code; (at = strstr(at, "\n    {\"")); at++) {
        if (sscanf(at, "\n    {\"%63[a-z_]\", key_", key) != 1 || strncmp(at + 8 + strlen(key), ", key_", 6)) continue;
        count++;
        snprintf(row, sizeof row, "\n| `%s` | ", key);
        ck_assert_msg(strstr(manual, row), "doc/options.md lacks %s", key);
        ck_assert_msg(strstr(page, key), "doc/gleaner.7 lacks %s", key);
    }
    ck_assert_uint_ge(count, 30);
    char *at = strstr(readme, "\n| key | default | meaning |\n|---|---|---|\n");
    ck_assert_ptr_nonnull(at);
    for (at = strstr(at, "|---|---|---|\n") + 14; sscanf(at, "| %63[a-z_] | ", key) == 1; at = strchr(at, '\n') + 1) {
        snprintf(row, sizeof row, "\n    {\"%s\", key_", key);
        ck_assert_msg(strstr(code, row), "README.md has %s", key);
        count--;
    }
    ck_assert_uint_le(count, 14); /* some were found there */
    free(code);
    free(manual);
    free(page);
    free(readme);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("config");
    TCase *tests = tcase_create("config");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, defaults);
    tcase_add_test(tests, every_key);
    tcase_add_test(tests, rules_of_reclaim);
    tcase_add_test(tests, later_wins);
    tcase_add_test(tests, forms);
    tcase_add_loop_test(tests, bytes, 0, (int)(sizeof sizes / sizeof *sizes));
    tcase_add_loop_test(tests, mistakes, 0, (int)(sizeof wrong / sizeof *wrong));
    tcase_add_test(tests, skips_and_goes_on);
    tcase_add_test(tests, long_values);
    tcase_add_test(tests, few_complaints);
    tcase_add_test(tests, junk);
    tcase_add_test(tests, files);
    tcase_add_test(tests, environment);
    tcase_add_test(tests, documented);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
