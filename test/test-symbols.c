/* test-symbols.c: names of addresses from every place where debug information can be.  Small
   programs are compiled here and say themselves where they were called; the lines are known from
   their source. SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "command.h"
#include "profile_maker.h"
#include "suite.h"
#include "report/demangle.h"

#include <check.h>
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *sources(void)
{
    const char *path = getenv("GLEANER_TEST_SOURCES");
    ck_assert_ptr_nonnull(path);
    return path;
}

static void build_id_of(const char *path, char *hex)
{
    elf_version(EV_CURRENT);
    int fd = open(path, O_RDONLY);
    Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
    const void *id;
    ssize_t bytes = dwelf_elf_gnu_build_id(elf, &id);
    ck_assert_int_eq(bytes, 20);
    for (int i = 0; i < 20; i++) sprintf(hex + 2 * i, "%02x", ((const unsigned char *)id)[i]);
    elf_end(elf);
    close(fd);
}

/* Where a program says that its call is. */
struct call {
    uint64_t start, limit, offset, address;
    char build_id[41];
};

static struct call run_fixture(const char *program)
{
    struct call call;
    struct ran ran = run_program((const char *[]){program, NULL});
    ck_assert_int_eq(ran.status, 0);
    ck_assert_int_eq(sscanf(ran.out, "%" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64, &call.start,
                            &call.limit, &call.offset, &call.address),
                     4);
    ran_free(&ran);
    build_id_of(program, call.build_id);
    return call;
}

/* The report of a profile whose one stack is that call. */
static struct ran report_of(const char *program, const struct call *call)
{
    const char *path = in_folder("profile.pb.gz");
    struct maker *maker = maker_new(8);
    maker_comment(maker, "gleaner:{\"version\":1,\"pid\":1,\"command\":\"fixture\"}");
    uint64_t module =
        maker_module(maker, call->start, call->limit, call->offset, program, call->build_id);
    maker_add(maker,
              &(struct maker_sample){.places = {maker_place(maker, module, call->address - 1)},
                                     .values = {1, 64, 1, 64}});
    maker_write(maker, path);
    maker_free(maker);
    return run_program((const char *[]){gleaner(), "report", path, NULL});
}

static void compile(const char *compiler, const char *source, const char *program,
                    const char *options)
{
    must_run("%s -O1 -g -Wl,--build-id=sha1 %s -o '%s' '%s/fixtures/%s'", compiler, options,
             program, sources(), source);
}

static void expect_inlined_frames(const char *out)
{
    expect_part(out, " in inner /src/calls.c:4 (");
    expect_part(out, " in middle /src/calls.c:10 (");
    expect_part(out, " in outer /src/calls.c:17 (");
    /* The innermost first. */
    ck_assert(strstr(out, "in inner") < strstr(out, "in middle"));
    ck_assert(strstr(out, "in middle") < strstr(out, "in outer"));
}

/* The program's own DWARF, as gcc and as clang write it (clang writes no .debug_aranges), at a
   random and at a fixed address. */
START_TEST(test_own_debug_information)
{
    static const char *const compilers[][2] = {
        {"gcc", "-pie -fPIE"}, {"gcc", "-no-pie"}, {"gcc", "-gdwarf-4"}, {"clang", ""}};
    const char *program = in_folder("calls");
    if (!strcmp(compilers[_i][0], "clang") && system("command -v clang >/dev/null")) return;
    compile(compilers[_i][0], "calls.c", program, compilers[_i][1]);
    struct call call = run_fixture(program);
    struct ran ran = report_of(program, &call);
    ck_assert_int_eq(ran.status, 0);
    ck_assert_str_eq(ran.err, "");
    expect_inlined_frames(ran.out);
    ran_free(&ran);
}
END_TEST

START_TEST(test_mangled_names)
{
    const char *program = in_folder("calls++");
    compile("g++", "calls.cc", program, "");
    struct call call = run_fixture(program);
    struct ran ran = report_of(program, &call);
    expect_part(ran.out, " in shop::Cart<int>::add(int) /src/calls.cc:7 (calls++)");
    ran_free(&ran);
}
END_TEST

/* A stripped program: exported functions keep their names, others are module+offset. */
START_TEST(test_stripped)
{
    const char *program = in_folder("stripped");
    compile("gcc", "calls.c", program, "-s");
    struct call call = run_fixture(program);
    struct ran ran = report_of(program, &call);
    char expected[64];
    snprintf(expected, sizeof expected, "    #0 0x%" PRIx64 " (stripped+0x%" PRIx64 ")\n",
             call.address - 1, call.address - 1 - call.start + call.offset);
    expect_part(ran.out, expected);
    expect_no_part(ran.out, " in outer");
    ran_free(&ran);

    const char *exporting = in_folder("exporting");
    compile("gcc", "calls.c", exporting, "-s -rdynamic");
    call = run_fixture(exporting);
    ran = report_of(exporting, &call);
    expect_part(ran.out, " in outer (exporting+0x");
    ran_free(&ran);
}
END_TEST

static void split(const char *program)
{
    must_run("objcopy --only-keep-debug '%s' '%s.debug' && strip '%s'", program, program, program);
}

/* The .debug file beside the program, by its debug link. */
START_TEST(test_debug_link)
{
    const char *program = in_folder("linked");
    compile("gcc", "calls.c", program, "");
    split(program);
    must_run("cd '%s' && objcopy --add-gnu-debuglink=linked.debug linked", test_folder());
    struct call call = run_fixture(program);
    struct ran ran = report_of(program, &call);
    expect_inlined_frames(ran.out);
    ran_free(&ran);
}
END_TEST

/* A folder of debug files by build id; then the program itself is gone, and the file still names
   its addresses. */
START_TEST(test_build_id_folder)
{
    const char *program = in_folder("by-id");
    compile("gcc", "calls.c", program, _i ? "-no-pie" : "");
    struct call call = run_fixture(program);
    split(program);
    must_run(
        "mkdir -p '%s/debug/.build-id/%.2s' && mv '%s.debug' '%s/debug/.build-id/%.2s/%s.debug'",
        test_folder(), call.build_id, program, test_folder(), call.build_id, call.build_id + 2);
    setenv("GLEANER_DEBUG_PATH", in_folder("debug"), 1);
    struct ran ran = report_of(program, &call);
    ck_assert_str_eq(ran.err, "");
    expect_inlined_frames(ran.out);
    ran_free(&ran);
    must_run("rm '%s'", program);
    ran = report_of(program, &call);
    ck_assert_str_eq(ran.err, "");
    expect_inlined_frames(ran.out);
    ran_free(&ran);
    unsetenv("GLEANER_DEBUG_PATH");
}
END_TEST

/* The file at the module's path is of another build: said once, and nothing is named by it. */
START_TEST(test_other_build)
{
    const char *program = in_folder("rebuilt");
    compile("gcc", "calls.c", program, "");
    struct call call = run_fixture(program);
    memcpy(call.build_id, "0123456789", 10);
    struct ran ran = report_of(program, &call);
    ck_assert_int_eq(ran.status, 0);
    expect_part(ran.err, "rebuilt is not the build that was profiled");
    ck_assert_ptr_eq(strchr(ran.err, '\n'), strrchr(ran.err, '\n')); /* one line */
    expect_part(ran.out, " (rebuilt+0x");
    expect_no_part(ran.out, " in outer");
    ran_free(&ran);
}
END_TEST

START_TEST(test_missing)
{
    struct call call = {0x1000, 0x2000, 0, 0x1801, "00112233"};
    struct ran ran = report_of("/nowhere/at/all.so", &call);
    ck_assert_int_eq(ran.status, 0);
    expect_part(ran.err, "gleaner: /nowhere/at/all.so was not found here");
    expect_part(ran.out, "    #0 0x1800 (all.so+0x800)\n");
    ran_free(&ran);
    /* Neither a device nor a damaged file is a module. */
    ran = report_of("/dev/zero", &call);
    ck_assert_int_eq(ran.status, 0);
    expect_part(ran.out, "(zero+0x800)");
    ran_free(&ran);
}
END_TEST

/* Examples of the schemes' own documents: the Itanium C++ ABI, Rust RFC 2603, and Rust's older one.
 */
START_TEST(test_demangle)
{
    static const char *const cases[][2] = {
        {"_ZN3foo3barEi", "foo::bar(int)"},
        {"_Znwm", "operator new(unsigned long)"},
        {"_RNvC6_123foo3bar", "123foo::bar"},
        {"_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *name = demangle(cases[i][0]);
        ck_assert_ptr_nonnull(name);
        ck_assert_str_eq(name, cases[i][1]);
        free(name);
    }
    ck_assert_ptr_null(demangle("main"));
    ck_assert_ptr_null(demangle("_Z"));
    ck_assert_ptr_null(demangle(""));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("symbols");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 300);
    test_folder();
    tcase_add_loop_test(tests, test_own_debug_information, 0, 4);
    tcase_add_test(tests, test_mangled_names);
    tcase_add_test(tests, test_stripped);
    tcase_add_test(tests, test_debug_link);
    tcase_add_loop_test(tests, test_build_id_folder, 0, 2);
    tcase_add_test(tests, test_other_build);
    tcase_add_test(tests, test_missing);
    tcase_add_test(tests, test_demangle);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
