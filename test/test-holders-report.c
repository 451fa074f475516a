/* test-holders-report.c: who holds what in reports, against texts written by hand from the profile that is made here; and
   profiles that are damaged.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "command.h"
#include "profile_maker.h"
#include "suite.h"

#include <check.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Three call stacks (entry: 200 live blocks, page: one, other), at places 1 to 4; a module without a file here, so that no
   variable has a name. */
static const char head[] =
    "#gleaner:{\"version\":1,\"pid\":77,\"command\":\"shop --open\",\"reason\":\"dump\",\"totals\":{},\"sample_bytes\":8}";

static const char good[] =
    "{\"version\":1,\"complete\":true,\"reached\":{\"objects\":205,\"bytes\":20900},"
    "\"unreached\":{\"objects\":2,\"bytes\":128},"
    "\"groups\":["
    "{\"stack\":0,\"live\":200,\"ways\":["
    "{\"area\":0,\"at\":4198432,\"steps\":[[1,4096,8,1]],\"only\":[0,0]},"
    "{\"area\":0,\"at\":4198432,\"steps\":[[1,4096,800,1]],\"only\":[0,1]},"
    "{\"area\":1,\"at\":140000000000512,\"frame\":3,\"steps\":[],\"only\":[2,2]}"
    "],\"unreached\":1,\"ignored\":0},"
    "{\"stack\":1,\"live\":1,\"ways\":["
    "{\"area\":2,\"at\":139637976728352,\"steps\":[[-1,64,24,3],[2,48,16,2],[2,48,8,7]],\"left_out\":5,\"only\":[3,3]}"
    "],\"unreached\":0,\"ignored\":0},"
    "{\"stack\":2,\"live\":3,\"ways\":["
    "{\"area\":3,\"at\":57,\"steps\":[],\"only\":[4,4]},"
    "{\"area\":3,\"at\":2,\"steps\":[],\"only\":[4,4]},"
    "{\"area\":1,\"at\":140000000000256,\"how\":\"left\",\"steps\":[]}"
    "],\"unreached\":0,\"ignored\":0}],"
    "\"stacks\":[[1,4],[2,4],[3,4]],"
    "\"areas\":[{\"kind\":\"module\",\"mapping\":1,\"bias\":4194304},{\"kind\":\"frames\",\"tid\":78,\"thread\":\"wor\\u001bker\"},"
    "{\"kind\":\"mapping\",\"from\":139637976727552,\"to\":139637976731648,\"name\":\"/dev/shm/pages\"},{\"kind\":\"kernel\"}],"
    "\"units\":[[0,4198432,8],[0,4198440,8],[1,140000000000000,4096],[2,139637976727552,4096],[3,0,0]],"
    "\"shares\":[[0,0,101,9000],[0,1,1,700],[2,2,1,300],[3,3,1,10000],[4,4,2,400],[0,3,99,500]]}";

static void make_profile(const char *name, const char *holders)
{
    struct maker *maker = maker_new(8);
    char *comment = malloc(strlen(holders) + 64);
    maker_comment(maker, head);
    sprintf(comment, "#gleaner-holders:%s", holders);
    maker_comment(maker, comment);
    free(comment);
    maker_time(maker, 1790000000000000000, 0);
    uint64_t module = maker_module(maker, 0x401000, 0x402000, 0x1000, "/nowhere/shop", "");
    static const char *const functions[] = {"entry_new", "page_new", "other_new", "open_shop"};
    uint64_t places[4];
    for (int i = 0; i < 4; i++) {
        places[i] = maker_place(maker, module, 0x401100 + 0x100 * (uint64_t)i);
        maker_line(maker, places[i], functions[i], "shop.c", 10 + i);
    }
    static const int64_t live[3][2] = {{200, 20000}, {1, 4096}, {3, 3000}};
    for (int i = 0; i < 3; i++)
        maker_add(maker, &(struct maker_sample){.places = {places[i], places[3]},
                                                .values = {live[i][0], live[i][1], live[i][0], live[i][1]},
                                                .size = live[i][1] / live[i][0]});
    maker_write(maker, in_folder(name));
    maker_free(maker);
}

static struct ran report(const char *site, const char *name, const char *format)
{
    return run_program((const char *[]){gleaner(), "report", "--holders", site, "--format", format, in_folder(name), NULL});
}

static const char retained[] = "\nRetained by each holder: what is reached from nowhere else that lasts as long (exact)\n"
                               "              bytes       blocks\n"
                               "              10000            1  mapping /dev/shm/pages (0x7f0000000000-0x7f0000001000)\n"
                               "               9000          101  data of shop (at its address 0x1020)\n"
                               "                700            1  both data of shop (at its address 0x1020) and data of shop (at its address 0x1028)\n"
                               "                500           99  both data of shop (at its address 0x1020) and mapping /dev/shm/pages (0x7f0000000000-0x7f0000001000)\n"
                               "                400            2  the kernel: epoll, timers\n"
                               "                300            1  the stack of thread 78 (wor?ker)\n"
                               "                128            2  nobody (lost, it seems)\n";

/* Two ways that differ in an offset are one; a stack's word is named by its function and thread. */
START_TEST(test_text)
{
    make_profile("good.gz", good);
    struct ran ran = report("entry_new", "good.gz", "text");
    ck_assert_int_eq(ran.status, 0);
    static const char expected[] =
        "==77==Gleaner: who holds what in shop --open\n"
        "    taken 2026-09-21 14:13:20\n"
        "\nHolders of 200 live blocks, of which 4 were looked at, allocated from:\n"
        "    #0 0x401100 in entry_new shop.c:10 (shop)\n"
        "    #1 0x401400 in open_shop shop.c:13 (shop)\n"
        "\n2 of 4 held by data of shop (at its address 0x1020); 1 of them from elsewhere, too\n"
        "    -> a block of 4096 bytes at +8 to +800, allocated from:\n"
        "        #0 0x401200 in page_new shop.c:11 (shop)\n"
        "        #1 0x401400 in open_shop shop.c:13 (shop)\n"
        "    -> the blocks\n"
        "\n1 of 4 held by a frame of other_new on the stack of thread 78 (wor?ker), and by nothing else\n"
        "    -> the block\n"
        "\n1 of 4 held by nothing that could be found: lost, it seems (--show lost)\n";
    ck_assert_msg(!strncmp(ran.out, expected, strlen(expected)), "%s", ran.out);
    ck_assert_str_eq(ran.out + strlen(expected), retained);
    ran_free(&ran);
}
END_TEST

/* What was left out stands between what it does not resemble; alike steps are one. */
START_TEST(test_long_ways)
{
    make_profile("good.gz", good);
    struct ran ran = report("2", "good.gz", "text"); /* by live bytes: entries, pages */
    expect_part(ran.out,
                "\nHolders of 1 live block allocated from:\n"
                "    #0 0x401200 in page_new shop.c:11 (shop)\n"
                "    #1 0x401400 in open_shop shop.c:13 (shop)\n"
                "\n1 of 1 held by mapping /dev/shm/pages (0x7f0000000000-0x7f0000001000) at +800, and by nothing else\n"
                "    -> 3 blocks of 64 bytes, one holding the next, at +24; they were not sampled\n"
                "    -> 5 more blocks, not listed\n"
                "    -> 9 blocks of 48 bytes, one holding the next, at +8 to +16, allocated from:\n"
                "        #0 0x401300 in other_new shop.c:12 (shop)\n"
                "        #1 0x401400 in open_shop shop.c:13 (shop)\n"
                "    -> the block\n");
    ran_free(&ran);
    ran = report("0x401300", "good.gz", "text");
    expect_part(ran.out, "held by the kernel: epoll descriptor 7, data of descriptor 0, and by nothing else\n");
    expect_part(ran.out, "held by what a call has left, that returned, on the stack of thread 78 (wor?ker)\n");
    ran_free(&ran);
    ran = report("open_shop", "good.gz", "text");
    expect_part(ran.out, "entry_new");
    expect_part(ran.out, "page_new");
    expect_part(ran.out, "other_new");
    ran_free(&ran);
}
END_TEST

START_TEST(test_json)
{
    make_profile("good.gz", good);
    struct ran ran = report("entry", "good.gz", "json");
    json_error_t error;
    json_t *json = json_loads(ran.out, 0, &error);
    ck_assert_msg(json != NULL, "%s", ran.out);
    ran_free(&ran);
    const char *kind, *thread, *function, *root;
    int looked_at, blocks, exclusive, from, to, unreached;
    ck_assert_int_eq(json_unpack(json, "{s:[{s:i,s:i,s:[{s:i,s:i,s:{s:s,s:n,s:s},s:[{s:[i,i]}]},{s:{s:s,s:s,s:s}}]}]}", "holders",
                                 "looked_at", &looked_at, "unreached", &unreached, "ways", "blocks", &blocks, "exclusive", &exclusive,
                                 "root", "kind", &kind, "variable", "module", &root, "through", "offset", &from, &to, "root", "kind",
                                 &function, "thread", &thread, "function", &root),
                     0);
    ck_assert_int_eq(looked_at, 4);
    ck_assert_int_eq(unreached, 1);
    ck_assert_int_eq(blocks, 2);
    ck_assert_int_eq(exclusive, 1);
    ck_assert_str_eq(kind, "module");
    ck_assert_int_eq(from, 8);
    ck_assert_int_eq(to, 800);
    ck_assert_str_eq(function, "stack");
    ck_assert_str_eq(thread, "wor?ker");
    ck_assert_str_eq(root, "other_new");
    const json_t *all = json_object_get(json, "retained");
    ck_assert_uint_eq(json_array_size(all), 6);
    ck_assert_int_eq(json_integer_value(json_object_get(json_array_get(all, 0), "bytes")), 10000);
    ck_assert(json_is_null(json_object_get(json_array_get(all, 1), "and")));
    ck_assert_int_eq(json_unpack(json_array_get(all, 3), "{s:{s:s},s:{s:s,s:s}}", "root", "module", &root, "and", "kind", &kind,
                                 "module", &function),
                     0);
    ck_assert_str_eq(root, "/nowhere/shop");
    ck_assert_str_eq(kind, "mapping");
    ck_assert_str_eq(function, "/dev/shm/pages");
    json_decref(json);
}
END_TEST

/* Where it could not be known; and of a version that this command does not know. */
START_TEST(test_why_not)
{
    make_profile("none.gz", "{\"version\":1,\"why_not\":\"no \\\"memory\\\"\"}");
    struct ran ran = report("main", "none.gz", "text");
    ck_assert_int_eq(ran.status, 1);
    expect_part(ran.err, "could not be found out: no \"memory\"\n");
    ran_free(&ran);
    make_profile("later.gz", "{\"version\":2,\"groups\":17}");
    ran = report("main", "later.gz", "text");
    ck_assert_int_eq(ran.status, 1);
    expect_part(ran.err, "does not say who holds what");
    ran_free(&ran);
    ran = run_program((const char *[]){gleaner(), "report", in_folder("later.gz"), NULL});
    ck_assert_int_eq(ran.status, 0);
    ran_free(&ran);
}
END_TEST

static void expect_damaged(const char *text)
{
    make_profile("bad.gz", text);
    struct ran ran = report("main", "bad.gz", "text");
    ck_assert_msg(ran.status == 1, "%d with %s", ran.status, text);
    ck_assert_str_eq(ran.out, "");
    expect_part(ran.err, "is damaged or cut short (who holds what)\n");
    ran_free(&ran);
}

/* The good one with one thing changed. */
START_TEST(test_damaged)
{
    static const char *const changes[][2] = {
        {"\"stack\":0", "\"stack\":3"},
        {"\"stack\":0", "\"stack\":-2"},
        {"\"stack\":0", "\"stack\":\"x\""},
        {"[[1,4],", "[[9,4],"},
        {"[[1,4],", "[[\"1\",4],"},
        {"\"mapping\":1", "\"mapping\":2"},
        {"\"kind\":\"module\"", "\"kind\":\"moduls\""},
        {"\"kind\":\"module\",", ""},
        {"\"frame\":3", "\"frame\":40"},
        {"\"area\":1,", "\"area\":4,"},
        {"\"area\":1,", ""},
        {"[1,4096,8,1]", "[1,4096,8,0]"},
        {"[1,4096,8,1]", "[1,4096,-8,1]"},
        {"[1,4096,8,1]", "[1,4096]"},
        {"[1,4096,8,1]", "[1,4096,8,99999999999]"},
        {"\"left_out\":5", "\"left_out\":-5"},
        {"\"only\":[0,1]", "\"only\":[0,5]"},
        {"\"only\":[0,1]", "\"only\":[0]"},
        {"[0,4198440,8]", "[7,4198440,8]"},
        {"[0,4198440,8]", "[0,-1,8]"},
        {"[0,1,1,700]", "[0,5,1,700]"},
        {"[0,1,1,700]", "[0,1,1]"},
        {"\"live\":200", "\"live\":2e2"},
        {"\"bytes\":20900", "\"bytes\":null"},
        {"\"version\":1", "\"version\":\"1\""},
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        char text[sizeof good + 64];
        const char *at = strstr(good, changes[i][0]);
        ck_assert_ptr_nonnull(at);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, changes[i][1], at + strlen(changes[i][0]));
        if (i + 1 == sizeof changes / sizeof *changes) { /* of no version: as if it were not there */
            make_profile("bad.gz", text);
            struct ran ran = report("main", "bad.gz", "text");
            expect_part(ran.err, "does not say who holds what");
            ran_free(&ran);
            continue;
        }
        expect_damaged(text);
    }
    expect_damaged("");
    expect_damaged("[]");
    expect_damaged("17");
}
END_TEST

/* Cut anywhere it is no JSON any more. */
START_TEST(test_cut_short)
{
    for (size_t length = 1; length + 1 < sizeof good; length += 97) {
        char text[sizeof good];
        snprintf(text, sizeof text, "%.*s", (int)length, good);
        if (length < sizeof good - 1) expect_damaged(text);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("holders in reports");
    TCase *c = tcase_create("holders in reports");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, test_text);
    tcase_add_test(c, test_long_ways);
    tcase_add_test(c, test_json);
    tcase_add_test(c, test_why_not);
    tcase_add_test(c, test_damaged);
    tcase_add_test(c, test_cut_short);
    suite_add_tcase(s, c);
    return suite_run(s);
}
