/* test-follow.c: taking the library out of LD_PRELOAD.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/follow.h"
#include "preload/shut_in.h"
#include "suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool shut_in_already(unsigned any_of) { return any_of == 0; }

/* Edits a copy of `before`; checks that the result is `after` (NULL: the variable is gone), that
   the neighbours stay, and that the original is untouched. */
static void expect(const char *before, const char *after)
{
    char original[256], kept[256];
    strcpy(original, before);
    strcpy(kept, before);
    char *environment[] = {"A=1", original, "LD_PRELOADED=libgleaner.so", NULL};
    size_t room = follow_room(environment, false);
    if (after && strcmp(before, after) == 0) {
        ck_assert_uint_eq(room, 0);
        return;
    }
    ck_assert_uint_gt(room, 0);
    char *memory = malloc(room); /* exactly: a sanitizer sees what lies behind */
    char **to = follow_edit(environment, memory, false);
    int i = 0;
    ck_assert_str_eq(to[i++], "A=1");
    if (after) ck_assert_str_eq(to[i++], after);
    ck_assert_str_eq(to[i++], "LD_PRELOADED=libgleaner.so");
    ck_assert_ptr_null(to[i]);
    ck_assert_str_eq(original, kept);
    free(memory);
}

START_TEST(test_cases)
{
    follow_start(false, "/opt/lib/libgleaner.so");
    expect("LD_PRELOAD=/opt/lib/libgleaner.so", NULL);
    expect("LD_PRELOAD=libgleaner.so", NULL);
    expect("LD_PRELOAD=:/x/libgleaner.so: ", NULL);
    expect("LD_PRELOAD=liba.so:/x/libgleaner.so", "LD_PRELOAD=liba.so");
    expect("LD_PRELOAD=/x/libgleaner.so liba.so", "LD_PRELOAD=liba.so");
    expect("LD_PRELOAD=liba.so /x/libgleaner.so:libb.so", "LD_PRELOAD=liba.so:libb.so");
    expect("LD_PRELOAD=libgleaner.so.1", "LD_PRELOAD=libgleaner.so.1");
    expect("LD_PRELOAD=/x/notlibgleaner.so", "LD_PRELOAD=/x/notlibgleaner.so");
    expect("LD_PRELOAD=", "LD_PRELOAD=");
    expect("OTHER=libgleaner.so", "OTHER=libgleaner.so");
}
END_TEST

START_TEST(test_following_changes_nothing)
{
    char *environment[] = {"LD_PRELOAD=libgleaner.so", NULL};
    follow_start(true, "libgleaner.so");
    ck_assert_uint_eq(follow_room(environment, false), 0);
    follow_edit_own(environment);
    ck_assert_str_eq(environment[0], "LD_PRELOAD=libgleaner.so");
}
END_TEST

START_TEST(test_own_environment)
{
    char one[] = "LD_PRELOAD=x.so:/a/libgleaner.so:y.so", two[] = "LD_PRELOAD=libgleaner.so";
    char *environment[] = {"A=1", one, two, "B=2", NULL};
    follow_start(false, "libgleaner.so");
    follow_edit_own(environment);
    ck_assert_str_eq(environment[0], "A=1");
    ck_assert_str_eq(environment[1], "LD_PRELOAD=x.so:y.so");
    ck_assert_str_eq(environment[2], "B=2");
    ck_assert_ptr_null(environment[3]);
}
END_TEST

/* The process that was asked for stays under the library when it goes on as another program, its children do not. */
START_TEST(test_exec_of_the_first)
{
    follow_start(false, "/a/libgleaner.so");
    follow_keep_in(getpid());
    char *bare[] = {"A=1", "GLEANER_FIRST=7", "LD_PRELOAD=x.so y.so", NULL};
    size_t room = follow_room(bare, true);
    ck_assert_uint_gt(room, 0);
    char *memory = malloc(room);
    char **to = follow_edit(bare, memory, true);
    ck_assert_str_eq(to[0], "LD_PRELOAD=/a/libgleaner.so:x.so y.so");
    ck_assert_str_eq(to[1], "A=1");
    ck_assert_str_eq(to[2], "GLEANER_FIRST=7");
    ck_assert_ptr_null(to[3]);
    free(memory);
    char *named[] = {"GLEANER_FIRST=7", "LD_PRELOAD=/a/libgleaner.so", NULL};
    ck_assert_uint_eq(follow_room(named, true), 0);
    ck_assert_uint_gt(follow_room(named, false), 0);
    char *emptied[] = {"A=1", NULL}; /* as by env -i: the program wants none of it */
    ck_assert_uint_eq(follow_room(emptied, true), 0);
    follow_keep_in(getpid() + 1); /* a forked child of it */
    ck_assert_uint_eq(follow_room(bare, true), 0);
    ck_assert_uint_gt(follow_room(named, true), 0);
    follow_keep_in(0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("follow");
    TCase *t = tcase_create("follow");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, test_cases);
    tcase_add_test(t, test_following_changes_nothing);
    tcase_add_test(t, test_own_environment);
    tcase_add_test(t, test_exec_of_the_first);
    suite_add_tcase(s, t);
    return suite_run(s);
}
