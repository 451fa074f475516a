/* test-suppressions.c: suppressions: LeakSanitizer's syntax, every kind of mistake, and junk.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "heap/os.h"
#include "sampler/suppressions.h"
#include "suite.h"
#include <check.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static unsigned lines;
static char last[1024];

static void note(const char *line)
{
    lines++;
    ck_assert_uint_lt(strlen(line), sizeof last);
    strcpy(last, line);
    bool printable = true;
    for (const char *s = line; *s; s++) printable &= *s >= 0x20 && *s < 0x7f;
    if (!printable) ck_abort_msg("not printable: %s", line);
}

static struct suppressions *parse(const char *text)
{
    struct suppressions *s = NULL;
    lines = 0;
    last[0] = 0;
    suppressions_parse(&s, text, strlen(text), "here", note);
    return s;
}

/* One pattern against one name. */
static bool hides(const char *pattern, const char *name)
{
    char text[256];
    snprintf(text, sizeof text, "leak:%s\n", pattern);
    return suppressions_match(parse(text), name, NULL, NULL) == 0;
}

START_TEST(a_file_as_people_write_it)
{
    struct suppressions *s = parse("# known since 2019\n"
                                   "leak:libfontconfig\n"
                                   "\n"
                                   "  \tleak:^init_*table$  \r\n"
                                   "leak:src/cache.c\n"
                                   "   # leak:not_this\n"
                                   "leak:last without an end");
    ck_assert_uint_eq(lines, 0);
    ck_assert_uint_eq(suppressions_total(s), 4);
    ck_assert_str_eq(suppressions_pattern(s, 0, NULL, NULL), "libfontconfig");
    ck_assert_str_eq(suppressions_pattern(s, 1, NULL, NULL), "^init_*table$");
    ck_assert_str_eq(suppressions_pattern(s, 2, NULL, NULL), "src/cache.c");
    ck_assert_str_eq(suppressions_pattern(s, 3, NULL, NULL), "last without an end");
    ck_assert_ptr_null(suppressions_pattern(s, 4, NULL, NULL));

    ck_assert_int_eq(suppressions_match(s, "FcInit", "fcinit.c", "/usr/lib/libfontconfig.so.1"), 0);
    ck_assert_int_eq(suppressions_match(s, "init_symbol_table", NULL, NULL), 1);
    ck_assert_int_eq(suppressions_match(s, "preinit_table", NULL, "/bin/x"), -1);
    ck_assert_int_eq(suppressions_match(s, "f", "../src/cache.cpp", "/bin/x"), 2);
    ck_assert_int_eq(suppressions_match(s, "not_this", NULL, NULL), -1);
    ck_assert_int_eq(suppressions_match(s, NULL, NULL, NULL), -1);
    ck_assert_int_eq(suppressions_match(s, "", "", ""), -1);
    ck_assert_int_eq(suppressions_match(NULL, "f", NULL, NULL), -1);
}
END_TEST

/* What clang's documentation and the tests of LeakSanitizer's own matcher say (TemplateMatch in
   sanitizer_suppressions_test.cpp: which match and which do not). */
START_TEST(the_language_of_patterns)
{
    ck_assert(hides("*", "somestring"));
    ck_assert(hides("**", "somestring"));
    ck_assert(hides("str", "somestring"));
    ck_assert(hides("some", "somestring"));
    ck_assert(hides("ing", "somestring"));
    ck_assert(hides("ome*ri", "somestring"));
    ck_assert(hides("*ome*ri*", "somestring"));
    ck_assert(!hides("s*x", "somestring"));
    ck_assert(!hides("ing*some", "somestring"));
    ck_assert(!hides("somestringx", "somestring"));
    ck_assert(hides("^some", "somestring"));
    ck_assert(!hides("^ome", "somestring"));
    ck_assert(hides("^*ome", "somestring"));
    ck_assert(hides("string$", "somestring"));
    ck_assert(!hides("strin$", "somestring"));
    ck_assert(hides("^somestring$", "somestring"));
    ck_assert(!hides("^somestring$", "somestrings"));
    ck_assert(!hides("^somestring$", "asomestring"));
    ck_assert(hides("^some*ng$", "somestring"));
    ck_assert(!hides("^some*n$", "somestring"));
    ck_assert(hides("some*$", "somestring"));
    ck_assert(hides("^*$", "somestring"));
    /* An end that comes twice: the last one counts. */
    ck_assert(hides("o$", "foo"));
    ck_assert(hides("^a*ab$", "aabab"));
    ck_assert(!hides("^aa*ab$", "aab"));
    /* What follows the anchor of the end is not looked for; further ^ are letters. */
    ck_assert(hides("ing$more", "somestring"));
    ck_assert(hides("a^b", "xa^by"));
    ck_assert(!hides("a^b", "ab"));
    /* Nothing else is special. */
    ck_assert(hides("std::map<int, char [3]>::f(?)", "std::map<int, char [3]>::f(?) const"));
    ck_assert(!hides("a.b", "axb"));
}
END_TEST

START_TEST(mistakes_are_named)
{
    struct suppressions *s =
        parse("leak:good\nrace:other\nnonsense\nleak:\nleak:^\nleak:$\nleak:^$x\n"
              " leak :x\nLEAK:x\nleak:also good\n");
    ck_assert_uint_eq(lines, 8);
    ck_assert_uint_eq(suppressions_total(s), 2);
    ck_assert_str_eq(suppressions_pattern(s, 1, NULL, NULL), "also good");

    parse("race:other\n");
    ck_assert_str_eq(last, "gleaner: here: line 1: 'race:other' is not leak:PATTERN; skipped");
    parse("\n\nleak:\n");
    ck_assert_str_eq(last, "gleaner: here: line 3: an empty pattern would hide every leak; skipped "
                           "(if so, leak:*)");
    parse("\x1b[31mbad\x80\n");
    ck_assert_str_eq(last, "gleaner: here: line 1: '?[31mbad?' is not leak:PATTERN; skipped");
    char longest[200];
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = 0;
    parse(longest);
    ck_assert_uint_eq(lines, 1);
    ck_assert_ptr_nonnull(strstr(last, "xxx...' is not"));
}
END_TEST

START_TEST(junk_cannot_flood)
{
    char text[8000];
    for (unsigned i = 0; i < sizeof text; i++) text[i] = i % 4 == 3 ? '\n' : 'j';
    struct suppressions *s = NULL;
    lines = 0;
    suppressions_parse(&s, text, sizeof text, "here", note);
    ck_assert_uint_eq(lines, 9);
    ck_assert_str_eq(last, "gleaner: here: more of this is not shown");
    suppressions_parse(&s, text, sizeof text, "here", NULL); /* nobody listens */
    ck_assert_uint_eq(lines, 9);
    char where[2000]; /* a name that is longer than a line */
    memset(where, 'w', sizeof where);
    where[sizeof where - 1] = 0;
    suppressions_parse(&s, text, sizeof text, where, note);
    ck_assert_uint_eq(lines, 18);
}
END_TEST

START_TEST(texts_add_up)
{
    struct suppressions *s = NULL;
    char text[32];
    for (unsigned i = 0; i < 1000; i++) {
        int n = snprintf(text, sizeof text, "leak:^f%u$\n", i);
        suppressions_parse(&s, text, (size_t)n, "here", note);
        memset(text, '!', sizeof text); /* it was copied */
    }
    ck_assert_uint_eq(suppressions_total(s), 1000);
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(text, sizeof text, "f%u", i);
        ck_assert_int_eq(suppressions_match(s, text, NULL, NULL), (int)i);
        suppressions_count(s, (int)i, i, 16 * i);
    }
    suppressions_count(s, 7, 3, 5);
    suppressions_count(s, -1, 1, 1);
    suppressions_count(s, 1000, 1, 1);
    suppressions_count(NULL, 0, 1, 1);
    uint64_t blocks, bytes;
    for (unsigned i = 0; i < 1000; i++) {
        ck_assert_ptr_nonnull(suppressions_pattern(s, i, &blocks, &bytes));
        ck_assert_uint_eq(blocks, i + (i == 7 ? 3 : 0));
        ck_assert_uint_eq(bytes, 16 * i + (i == 7 ? 5 : 0));
    }
}
END_TEST

START_TEST(text_ends_where_it_ends)
{
    struct suppressions *s = NULL;
    suppressions_parse(&s, "leak:one\0leak:two\n", 18, "here", note);
    ck_assert_uint_eq(suppressions_total(s), 1);
    /* Every length of a text that ends at the last byte of a page before one that nobody may read. */
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(page, MAP_FAILED);
    ck_assert_int_eq(mprotect(page + 4096, 4096, PROT_NONE), 0);
    const char *text = "leak:a*b$ \r\n# leak\nleak:^x\nleak";
    for (size_t n = 0; n <= strlen(text); n++) {
        memcpy(page + 4096 - n, text, n);
        suppressions_parse(&s, page + 4096 - n, n, "here", NULL);
    }
    munmap(page, 8192);
}
END_TEST

/* The pattern as a regular expression of POSIX: a second opinion. */
static bool second_opinion(const char *pattern, const char *name)
{
    char regex[256], *to = regex;
    for (const char *p = pattern; *p; p++) {
        if (*p == '$') {
            *to++ = '$';
            break;
        }
        if (*p == '*')
            to += sprintf(to, ".*");
        else if (*p == '^')
            to += sprintf(to, p == pattern ? "^" : "\\^");
        else
            to += sprintf(to, "[%c]", *p);
    }
    *to = 0;
    regex_t r;
    ck_assert_int_eq(regcomp(&r, regex, REG_EXTENDED | REG_NOSUB), 0);
    bool found = regexec(&r, name, 0, NULL, 0) == 0;
    regfree(&r);
    return found;
}

static unsigned next_random(unsigned *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 16;
}

START_TEST(patterns_at_random)
{
    unsigned state = 42, matched = 0;
    for (unsigned round = 0; round < 20000; round++) {
        char pattern[12], name[12];
        unsigned n = 1 + next_random(&state) % 8, m = 1 + next_random(&state) % 8;
        for (unsigned i = 0; i < n; i++) pattern[i] = "aabb**^$"[next_random(&state) % 8];
        pattern[n] = 0;
        for (unsigned i = 0; i < m; i++) name[i] = "aab^"[next_random(&state) % 4];
        name[m] = 0;
        const char *first = pattern + (pattern[0] == '^');
        bool right = *first != 0 && *first != '$' && second_opinion(pattern, name);
        if (hides(pattern, name) != right)
            ck_abort_msg("'%s' %s '%s'", pattern, right ? "must match" : "must not match", name);
        matched += right;
    }
    ck_assert_uint_gt(matched, 2000);
    ck_assert_uint_lt(matched, 18000);
}
END_TEST

/* Whatever the bytes are, only lines of the right kind become patterns. */
START_TEST(bytes_at_random)
{
    static const char letters[] = "leak:#\n\r\t *^$\0\xff";
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(page, MAP_FAILED);
    ck_assert_int_eq(mprotect(page + 4096, 4096, PROT_NONE), 0);
    unsigned state = 7, kept = 0;
    for (unsigned round = 0; round < 3000; round++) {
        size_t n = next_random(&state) % 400;
        char *text = page + 4096 - n;
        for (size_t i = 0; i < n; i++) {
            text[i] = next_random(&state) % 4 ? letters[next_random(&state) % (sizeof letters - 1)]
                                              : (char)next_random(&state);
            if (i + 6 < n && next_random(&state) % 8 == 0) {
                memcpy(text + i, "\nleak:", 6);
                i += 5;
            }
        }
        struct suppressions *s = NULL;
        suppressions_parse(&s, text, n, "here", note);
        size_t starts = 0;
        for (size_t i = 0; i + 5 <= n; i++) starts += memcmp(text + i, "leak:", 5) == 0;
        ck_assert_uint_le(suppressions_total(s), starts);
        for (unsigned i = 0; i < suppressions_total(s); i++) {
            const char *p = suppressions_pattern(s, i, NULL, NULL);
            ck_assert(*p != 0 && strpbrk(p, "\n") == NULL && strlen(p) < 400);
            kept++;
        }
        suppressions_match(s, "leak", "some/leak.c", "/usr/lib/libleak.so");
    }
    ck_assert_uint_gt(kept, 3000);
    munmap(page, 8192);
}
END_TEST

START_TEST(cost_is_bounded)
{
    /* A matcher that backtracks would need some 2^40 steps for this. */
    static char name[100001];
    memset(name, 'a', sizeof name - 1);
    char pattern[100] = "^";
    for (unsigned i = 0; i < 40; i++) strcat(pattern, "a*");
    strcat(pattern, "b");
    ck_assert(!hides(pattern, name));
    strcpy(pattern + strlen(pattern) - 1, "a$");
    ck_assert(hides(pattern, name));
}
END_TEST

static void write_file(const char *path, size_t bytes, const char *line)
{
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    for (size_t n = 0, k = strlen(line); n < bytes; n += k) fwrite(line, 1, k, f);
    ck_assert_int_eq(fclose(f), 0);
}

START_TEST(files)
{
    char folder[] = "/tmp/gleaner-suppressions-XXXXXX", path[64];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    struct suppressions *s = NULL;
    lines = 0;
    snprintf(path, sizeof path, "%s/none", folder);
    ck_assert(!suppressions_read(&s, path, note));
    ck_assert_uint_eq(lines, 1);
    ck_assert_ptr_nonnull(strstr(last, "cannot be read (No such file or directory)"));
    ck_assert(!suppressions_read(&s, folder, note)); /* a folder */
    ck_assert_uint_eq(lines, 2);
    snprintf(path, sizeof path, "%s/fifo", folder); /* nobody writes: it must not hang */
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    suppressions_read(&s, path, note);
    ck_assert_uint_eq(suppressions_total(s), 0);

    snprintf(path, sizeof path, "%s/full", folder);
    write_file(path, 1 << 20, "leak:x\n\n"); /* exactly 1 MiB: 131072 patterns */
    ck_assert(suppressions_read(&s, path, note));
    ck_assert_uint_eq(suppressions_total(s), 131072);
    write_file(path, (1 << 20) + 1, "leak:x\n\n");
    ck_assert(!suppressions_read(&s, path, note));
    ck_assert_uint_eq(suppressions_total(s), 131072);
    ck_assert_ptr_nonnull(strstr(last, "longer than 1 MiB"));
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

START_TEST(tables_are_bounded)
{
    size_t bytes = (size_t)7 << 20;
    char *text = malloc(bytes);
    for (size_t i = 0; i < bytes; i += 7) memcpy(text + i, "leak:y\n", 7);
    struct suppressions *s = NULL;
    lines = 0;
    suppressions_parse(&s, text, bytes, "here", note);
    ck_assert_uint_eq(suppressions_total(s), 1 << 20);
    ck_assert_uint_eq(lines, 0);
    suppressions_parse(&s, text, 14, "more", note);
    ck_assert_uint_eq(suppressions_total(s), 1 << 20);
    ck_assert_uint_eq(lines, 1);
    ck_assert_str_eq(last, "gleaner: more: line 1: no room for more patterns; the rest is skipped");
    free(text);
}
END_TEST

START_TEST(no_memory)
{
    struct suppressions *s = NULL;
    for (unsigned skip = 0; skip < 3; skip++) {
        s = NULL;
        lines = 0;
        os_fail_mappings(skip, 1);
        suppressions_parse(&s, "leak:x\n", 7, "here", note);
        os_fail_mappings(0, 0);
        ck_assert_uint_eq(lines, 1);
        ck_assert_uint_eq(suppressions_total(s), 0);
        suppressions_parse(&s, "leak:x\n", 7, "here", note);
        ck_assert_uint_eq(suppressions_total(s), 1);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("suppressions");
    TCase *c = tcase_create("suppressions");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, a_file_as_people_write_it);
    tcase_add_test(c, the_language_of_patterns);
    tcase_add_test(c, mistakes_are_named);
    tcase_add_test(c, junk_cannot_flood);
    tcase_add_test(c, texts_add_up);
    tcase_add_test(c, text_ends_where_it_ends);
    tcase_add_test(c, patterns_at_random);
    tcase_add_test(c, bytes_at_random);
    tcase_add_test(c, cost_is_bounded);
    tcase_add_test(c, files);
    tcase_add_test(c, tables_are_bounded);
    tcase_add_test(c, no_memory);
    suite_add_tcase(suite, c);
    return suite_run(suite);
}
