/* test-install.c: what `make install` leaves works from where it lies, and after it was moved.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "command.h"
#include "product.h"
#include "suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *build, *prefix, *libdir, *compiler[2];

/* The installed command and library, without anything of the build tree in the environment. */
static struct ran run_installed(const char *folder, const char *rest)
{
    static char line[2048];
    snprintf(line, sizeof line, "unset LD_LIBRARY_PATH; cd / && exec '%s%s/bin/gleaner' %s",
             in_folder(folder), prefix, rest);
    const char *argv[] = {"sh", "-c", line, NULL};
    return run_program(argv);
}

static void install(void)
{
    must_run("DESTDIR='%s' meson install -C '%s' --no-rebuild --quiet > '%s' 2>&1", in_folder("root"),
             build, in_folder("install.log"));
}

/* Every file has its place. */
START_TEST(files_are_there)
{
    static const char *const files[] = {"bin/gleaner", "include/gleaner.h", "share/man/man1/gleaner.1",
                                        "share/man/man7/gleaner.7"};
    static const char *const in_libdir[] = {"libgleaner.so", "pkgconfig/gleaner.pc"};
    for (size_t i = 0; i < 2; i++)
        must_run("test -f '%s%s/%s/%s'", in_folder("root"), prefix, libdir, in_libdir[i]);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        must_run("test -f '%s%s/%s'", in_folder("root"), prefix, files[i]);
}
END_TEST

static void works_in(const char *folder)
{
    char rest[512];
    snprintf(rest, sizeof rest, "run -s all -o '%s' -- sqlite3 :memory: 'select 6 * 7;'",
             in_folder("installed.pb.gz"));
    struct ran ran = run_installed(folder, rest);
    ck_assert_str_eq(ran.err, "");
    ck_assert_str_eq(ran.out, "42\n");
    ck_assert_int_eq(ran.status, 0);
    ran_free(&ran);
    snprintf(rest, sizeof rest, "report '%s'", in_folder("installed.pb.gz"));
    ran = run_installed(folder, rest);
    ck_assert_int_eq(ran.status, 0);
    expect_part(ran.out, "every block was recorded");
    ran_free(&ran);
}

START_TEST(works_where_installed)
{
    works_in("root");
}
END_TEST

/* The command finds the library relative to itself. */
START_TEST(works_when_moved)
{
    must_run("mv '%s' '%s'", in_folder("root"), in_folder("elsewhere"));
    works_in("elsewhere");
}
END_TEST

/* A program finds the header by pkg-config; it compiles as C and C++, links with no library, and
   tells whether Gleaner is there. */
START_TEST(header_compiles)
{
    static const char *const standards[] = {"-std=c99", "-std=c++11"};
    static const char *const names[] = {"user.c", "user.cc"};
    must_run("cat > '%s' <<'END'\n"
             "#include <gleaner.h>\n"
             "#include <stdio.h>\n"
             "#include <stdlib.h>\n"
             "int main(void)\n"
             "{\n"
             "    if (!gleaner_version) { puts(\"alone\"); return 0; }\n"
             "    size_t bytes = 0, blocks = 0;\n"
             "    void *volatile held = malloc(10);\n"
             "    gleaner_live(&bytes, &blocks);\n"
             "    printf(\"under %%s, %%s\\n\", gleaner_version(), blocks ? \"blocks\" : \"none\");\n"
             "    free(held);\n"
             "    return 0;\n"
             "}\n"
             "END\n", in_folder(names[_i]));
    must_run("PKG_CONFIG_PATH='%s%s/%s/pkgconfig' PKG_CONFIG_SYSROOT_DIR='%s' sh -c '"
             "%s %s -Wall -Wextra -pedantic -Werror $(pkg-config --cflags gleaner) \"%s\" -o \"%s\"'",
             in_folder("root"), prefix, libdir, in_folder("root"), compiler[_i], standards[_i],
             in_folder(names[_i]), in_folder("user"));
    const char *alone[] = {in_folder("user"), NULL};
    struct ran ran = run_program(alone);
    ck_assert_str_eq(ran.out, "alone\n");
    ran_free(&ran);
    char rest[512];
    snprintf(rest, sizeof rest, "run -o '%s' '%s'", in_folder("user.pb.gz"), in_folder("user"));
    ran = run_installed("root", rest);
    expect_part(ran.out, "under ");
    expect_part(ran.out, ", blocks\n");
    ran_free(&ran);
}
END_TEST

/* --help and --version of the installed command; the manual pages are sound. */
START_TEST(help_and_manual)
{
    struct ran ran = run_installed("root", "--version");
    ck_assert_int_eq(ran.status, 0);
    expect_part(ran.out, getenv("GLEANER_VERSION"));
    ran_free(&ran);
    static const char *const commands[] = {"run", "list", "dump", "report", "diff"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char rest[64];
        snprintf(rest, sizeof rest, "%s --help", commands[i]);
        ran = run_installed("root", rest);
        ck_assert_int_eq(ran.status, 0);
        expect_part(ran.out, "Usage: gleaner ");
        ran_free(&ran);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("install");
    TCase *t = tcase_create("all");
    build = getenv("GLEANER_BUILD");
    prefix = getenv("GLEANER_PREFIX");
    libdir = getenv("GLEANER_LIBDIR");
    compiler[0] = getenv("GLEANER_CC");
    compiler[1] = getenv("GLEANER_CXX");
    if (!build || !prefix || !libdir || !compiler[0] || !compiler[1]) return 2; /* not by meson */
    test_folder();
    tcase_set_timeout(t, 300);
    tcase_add_checked_fixture(t, install, NULL);
    tcase_add_test(t, files_are_there);
    tcase_add_test(t, works_where_installed);
    tcase_add_loop_test(t, header_compiles, 0, 2);
    tcase_add_test(t, help_and_manual);
    tcase_add_test(t, works_when_moved);
    suite_add_tcase(suite, t);
    return suite_run(suite);
}
