/* test-holders-programs.c: who holds the blocks of real processes: each has one holder that is known.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "command.h"
#include "product.h"
#include "suite.h"

#include <check.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const confs[] = {"follow:yes", "collect:report"}; /* the second keeps where stacks are, and callers */

static struct {
    pid_t pid;
    int to;
    char text[24];
} live;

/* With -o the command becomes the program, so the pid is known. */
static void start(const char *sample, const char *conf, const char *mode, const char *more)
{
    int to[2], from[2];
    char line[8] = "";
    ck_assert(!pipe(to) && !pipe(from));
    live.pid = fork();
    if (!live.pid) {
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        close(to[1]);
        execl(gleaner(), "gleaner", "run", "-s", sample, "-c", conf, "-o", in_folder("end.gz"), getenv("GLEANER_HOLDERS"),
              mode, more, NULL);
        _exit(99);
    }
    close(to[0]);
    close(from[1]);
    live.to = to[1];
    snprintf(live.text, sizeof live.text, "%d", live.pid);
    for (size_t n = 0; n < 6;) {
        ssize_t got = read(from[0], line + n, 6 - n);
        ck_assert_int_gt(got, 0);
        n += (size_t)got;
    }
    ck_assert_str_eq(line, "ready\n");
    close(from[0]);
}

static void stop(void)
{
    int status;
    close(live.to);
    ck_assert_int_eq(waitpid(live.pid, &status, 0), live.pid);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static struct ran ask(const char *site, const char *format, const char *top)
{
    const char *argv[] = {gleaner(), "report", "--holders", site, "--format", format, live.text, top ? "--top" : NULL, top, NULL};
    return run_program(argv);
}

static json_t *holders(const char *site)
{
    struct ran ran = ask(site, "json", NULL);
    ck_assert_msg(ran.status == 0, "%s", ran.err);
    ck_assert_str_eq(ran.err, "");
    json_error_t error;
    json_t *json = json_loads(ran.out, 0, &error);
    ck_assert_msg(json != NULL, "%s: %s", error.text, ran.out);
    ran_free(&ran);
    return json;
}

static const char *text(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : "";
}

static json_int_t number(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

/* The call stack's group: one, whose innermost function is `function`. */
static const json_t *group_of(const json_t *json, const char *function)
{
    const json_t *groups = json_object_get(json, "holders"), *group = json_array_get(groups, 0);
    ck_assert_uint_eq(json_array_size(groups), 1);
    ck_assert_str_eq(text(json_array_get(json_object_get(group, "stack"), 0), "function"), function);
    return group;
}

static const json_t *only_way(const json_t *group)
{
    const json_t *ways = json_object_get(group, "ways");
    if (json_array_size(ways) != 1) json_dumpf(group, stderr, JSON_INDENT(1));
    ck_assert_uint_eq(json_array_size(ways), 1);
    return json_array_get(ways, 0);
}

/* Step `i` of a way: blocks of `function`, pointing on at these offsets. */
static void expect_step(const json_t *way, size_t i, const char *function, json_int_t offset, json_int_t least, json_int_t most)
{
    const json_t *step = json_array_get(json_object_get(way, "through"), i);
    const json_t *offsets = json_object_get(step, "offset"), *blocks = json_object_get(step, "blocks");
    ck_assert_str_eq(text(json_array_get(json_object_get(step, "stack"), 0), "function"), function);
    ck_assert_int_eq(json_integer_value(json_array_get(offsets, 0)), offset);
    ck_assert_int_eq(json_integer_value(json_array_get(offsets, 1)), offset);
    ck_assert_int_eq(json_integer_value(json_array_get(blocks, 0)), least);
    ck_assert_int_eq(json_integer_value(json_array_get(blocks, 1)), most);
}

/* What the holder with this text retains: bytes. */
static json_int_t retained(const json_t *json, const char *variable)
{
    const json_t *all = json_object_get(json, "retained");
    for (size_t i = 0; i < json_array_size(all); i++)
        if (!strcmp(text(json_object_get(json_array_get(all, i), "root"), "variable"), variable) &&
            json_is_null(json_object_get(json_array_get(all, i), "and")))
            return number(json_array_get(all, i), "bytes");
    return -1;
}

static bool ends_in(const char *path, const char *name)
{
    size_t length = strlen(path), end = strlen(name);
    return length >= end && !strcmp(path + length - end, name);
}

/* ---- one block in one place ---- */

static const struct {
    const char *mode, *kind, *variable; /* "": it has none */
    const char *module, *thread, *function;
    json_int_t offset; /* in the variable */
    const char *text;  /* is in the words for it */
} places[] = {
    {"in_global", "module", "global_holder", "holders-program", "", "", 0, "variable `global_holder` in holders-program"},
    {"interior", "module", "global_holder", "holders-program", "", "", 0, "variable `global_holder` in holders-program"},
    {"in_static", "module", "static_holder", "holders-program", "", "", 24, "` in holders-program at +24"},
    {"in_library", "module", "kept_by_library", "libholders-lib.so", "", "", 0, "in libholders-lib.so"},
    {"in_library_table", "module", "library_table", "libholders-lib.so", "", "", 8, "`library_table` in libholders-lib.so at +8"},
    {"in_tls", "tls", "thread_local_holder", "", "holders-program", "", 0, "thread-local variable `thread_local_holder` of thread "},
    {"in_thread_tls", "tls", "thread_local_holder", "", "tls-holder", "", 0, " (tls-holder)"},
    {"in_key", "tls", "", "", "holders-program", "", 0, "behind its thread pointer"},
    {"in_frame", "stack", "", "", "frame-holder", "frame_of_thread", 0, "a frame of frame_of_thread on the stack of thread "},
    {"in_main", "stack", "", "", "holders-program", "main", 0, "a frame of main on the stack of thread "},
    {"in_epoll", "kernel", "", "", "", "", 0, "the kernel: epoll descriptor "},
    {"in_timer", "kernel", "", "", "", "", 0, "the kernel: a timer"},
    {"in_mapping", "mapping", "", "", "", "", 0, "an anonymous mapping (0x"},
    {"in_shared_mapping", "mapping", "", "/dev/zero (deleted)", "", "", 0, "mapping /dev/zero (deleted) (0x"},
    {"in_memfd", "mapping", "", "/memfd:cache-file (deleted)", "", "", 0, ") at +512"},
};
enum { PLACES = sizeof places / sizeof *places };

START_TEST(names_the_place)
{
    size_t i = (size_t)_i % PLACES;
    start("all", confs[_i / PLACES], places[i].mode, NULL);
    json_t *json = holders("target_new");
    const json_t *group = group_of(json, "target_new"), *way = only_way(group), *root = json_object_get(way, "root");
    ck_assert_int_eq(number(group, "sampled_live"), 1);
    ck_assert_int_eq(number(group, "looked_at"), 1);
    ck_assert_int_eq(number(group, "unreached"), 0);
    ck_assert_int_eq(number(way, "blocks"), 1);
    ck_assert_int_eq(number(way, "exclusive"), 1);
    ck_assert_uint_eq(json_array_size(json_object_get(way, "through")), 0);
    ck_assert_str_eq(text(root, "kind"), places[i].kind);
    ck_assert_str_eq(text(root, "variable"), places[i].variable);
    if (*places[i].variable) ck_assert_int_eq(number(root, "offset"), places[i].offset);
    ck_assert_msg(ends_in(text(root, "module"), places[i].module), "%s", text(root, "module"));
    ck_assert_str_eq(text(root, "thread"), places[i].thread);
    ck_assert_str_eq(text(root, "function"), places[i].function);
    ck_assert_msg(strstr(text(root, "text"), places[i].text) != NULL, "%s", text(root, "text"));
    ck_assert(json_is_true(json_object_get(json, "complete")));
    if (*places[i].variable) ck_assert_int_ge(retained(json, places[i].variable), 777);
    json_decref(json);
    stop();
}
END_TEST

/* ---- ways ---- */

START_TEST(a_chain)
{
    start("all", confs[_i], "chain", NULL);
    json_t *json = holders("target_new");
    const json_t *way = only_way(group_of(json, "target_new"));
    ck_assert_str_eq(text(json_object_get(way, "root"), "variable"), "global_holder");
    ck_assert_uint_eq(json_array_size(json_object_get(way, "through")), 2);
    expect_step(way, 0, "outer_new", 8, 1, 1);
    expect_step(way, 1, "middle_new", 64, 1, 1);
    json_int_t bytes = retained(json, "global_holder");
    ck_assert_int_ge(bytes, 111 + 333 + 777);
    ck_assert_int_le(bytes, (111 + 333 + 777) * 5 / 4);
    json_decref(json);
    stop();
}
END_TEST

/* A thousand items in a row; of the items themselves, as many are looked at as the rule says, and they are one way but for the first. */
START_TEST(a_list)
{
    start("all", confs[_i], "in_list", NULL);
    json_t *json = holders("target_new");
    const json_t *way = only_way(group_of(json, "target_new"));
    ck_assert_str_eq(text(json_object_get(way, "root"), "variable"), "list");
    const json_t *step = json_array_get(json_object_get(way, "through"), 0);
    ck_assert_uint_eq(json_array_size(json_object_get(way, "through")), 1);
    ck_assert_int_eq(json_integer_value(json_array_get(json_object_get(step, "blocks"), 0)), 1000);
    ck_assert_int_eq(json_integer_value(json_array_get(json_object_get(step, "offset"), 0)), 0); /* of the last, its data; */
    ck_assert_int_eq(json_integer_value(json_array_get(json_object_get(step, "offset"), 1)), 8); /* of the others, next */
    json_decref(json);
    json = holders("item_new");
    const json_t *group = group_of(json, "item_new");
    ck_assert_int_eq(number(group, "sampled_live"), 1000);
    ck_assert_int_eq(number(group, "looked_at"), 64);
    size_t ways = json_array_size(json_object_get(group, "ways"));
    ck_assert(ways == 1 || ways == 2);
    way = json_array_get(json_object_get(group, "ways"), 0);
    ck_assert_int_ge(number(way, "blocks"), 63);
    ck_assert_str_eq(text(json_object_get(way, "root"), "variable"), "list");
    json_decref(json);
    stop();
}
END_TEST

/* The words of an array are one holder. */
START_TEST(a_table)
{
    start("all", confs[_i], "many", NULL);
    json_t *json = holders("entry_new");
    const json_t *group = group_of(json, "entry_new"), *way = only_way(group), *root = json_object_get(way, "root");
    ck_assert_int_eq(number(group, "sampled_live"), 256);
    ck_assert_int_eq(number(group, "looked_at"), 64);
    ck_assert_int_eq(number(way, "blocks"), 64);
    ck_assert_int_eq(number(way, "exclusive"), 64);
    ck_assert_str_eq(text(root, "variable"), "table");
    ck_assert_int_ge(retained(json, "table"), 256 * 200);
    ck_assert_int_le(retained(json, "table"), 256 * 224);
    json_decref(json);
    stop();
}
END_TEST

/* Neither variable retains the blocks, both together do. */
START_TEST(two_holders)
{
    start("all", confs[_i], "twice", NULL);
    json_t *json = holders("target_new");
    const json_t *way = only_way(group_of(json, "target_new")), *all = json_object_get(json, "retained");
    const char *variable = text(json_object_get(way, "root"), "variable");
    ck_assert(!strcmp(variable, "list") || !strcmp(variable, "list_end"));
    ck_assert_int_eq(number(way, "exclusive"), 0);
    ck_assert_int_eq(retained(json, "list"), -1);
    ck_assert_int_eq(retained(json, "list_end"), -1);
    json_int_t together = 0; /* list is the first in memory */
    for (size_t i = 0; i < json_array_size(all); i++)
        if (!strcmp(text(json_object_get(json_array_get(all, i), "root"), "variable"), "list") &&
            !strcmp(text(json_object_get(json_array_get(all, i), "and"), "variable"), "list_end"))
            together = number(json_array_get(all, i), "objects");
    ck_assert_int_eq(together, 2);
    json_decref(json);
    stop();
}
END_TEST

START_TEST(nobody)
{
    start("all", confs[_i], "lost", NULL);
    json_t *json = holders("target_new");
    const json_t *group = group_of(json, "target_new");
    ck_assert_uint_eq(json_array_size(json_object_get(group, "ways")), 0);
    ck_assert_int_eq(number(group, "unreached"), 1);
    ck_assert_int_eq(number(json_object_get(json, "unreached"), "objects"), 1);
    json_decref(json);
    struct ran ran = ask("target_new", "text", NULL);
    expect_part(ran.out, "\n1 of 1 held by nothing that could be found: lost, it seems");
    ran_free(&ran);
    stop();
}
END_TEST

START_TEST(what_is_ignored)
{
    start("all", confs[_i], "ignored", NULL);
    json_t *json = holders("target_new");
    const json_t *group = group_of(json, "target_new");
    ck_assert_int_eq(number(group, "ignored"), 1);
    ck_assert_int_eq(number(group, "unreached"), 0);
    json_decref(json);
    stop();
    start("all", confs[_i], "by_ignored", NULL);
    json = holders("target_new");
    const json_t *root = json_object_get(only_way(group_of(json, "target_new")), "root");
    ck_assert_str_eq(text(root, "kind"), "ignored");
    json_decref(json);
    stop();
}
END_TEST

START_TEST(among_threads)
{
    start("all", confs[_i], "threads", "in_frame");
    json_t *json = holders("target_new");
    const json_t *root = json_object_get(only_way(group_of(json, "target_new")), "root");
    ck_assert_str_eq(text(root, "kind"), "stack");
    ck_assert_str_eq(text(root, "thread"), "frame-holder");
    ck_assert_str_eq(text(root, "function"), "frame_of_thread");
    json_decref(json);
    stop();
}
END_TEST

/* ---- the command ---- */

/* By function, address, number; in text; by way of a file; and what is not there. */
START_TEST(sites_and_files)
{
    static char address[64], dump[4200];
    start("all", confs[0], "chain", NULL);
    snprintf(dump, sizeof dump, "%s", in_folder("holders.pb.gz"));
    struct ran ran = run_program((const char *[]){gleaner(), "dump", live.text, "--holders", "-o", dump, NULL});
    ck_assert_msg(ran.status == 0, "%s", ran.err);
    ran_free(&ran);
    stop();
    ran = run_program((const char *[]){gleaner(), "report", "--holders", "target_n", dump, NULL});
    ck_assert_msg(ran.status == 0, "%s", ran.err);
    expect_part(ran.out, "\nHolders of 1 live block allocated from:\n    #0 0x");
    expect_part(ran.out, "\n1 of 1 held by variable `global_holder` in holders-program, and by nothing else\n"
                         "    -> a block of 112 bytes at +8, allocated from:\n        #0 0x");
    expect_part(ran.out, " bytes at +64, allocated from:\n        #0 0x");
    expect_part(ran.out, "\n    -> the block\n");
    expect_part(ran.out, "  variable `global_holder` in holders-program\n");
    const char *at = strstr(ran.out, "#0 0x");
    ck_assert_int_eq(sscanf(at, "#0 %60s", address), 1);
    ran_free(&ran);
    ran = run_program((const char *[]){gleaner(), "report", "--holders", address, dump, NULL});
    expect_part(ran.out, " in target_new ");
    ran_free(&ran);
    ran = run_program((const char *[]){gleaner(), "report", "--holders", "main", "--top", "0", dump, NULL});
    expect_part(ran.out, " in target_new ");
    expect_part(ran.out, " in middle_new ");
    expect_part(ran.out, " in outer_new ");
    ran_free(&ran);
    /* The target is the largest block but for what libc has allocated; it has a number of its own. */
    bool found = false;
    for (int i = 1; i <= 5; i++) {
        char n[8];
        snprintf(n, sizeof n, "%d", i);
        ran = run_program((const char *[]){gleaner(), "report", "--holders", n, dump, NULL});
        found |= strstr(ran.out, "#0 0x") && strstr(ran.out, " in target_new ") && !strstr(ran.out, "more call stacks");
        ran_free(&ran);
    }
    ck_assert(found);
    static const char *const none[] = {"no_such_function", "0x1234", "4000", "0xzz"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        ran = run_program((const char *[]){gleaner(), "report", "--holders", none[i], dump, NULL});
        ck_assert_int_eq(ran.status, 1);
        ck_assert_str_eq(ran.out, "");
        expect_part(ran.err, "no call stack of sampled live blocks in ");
        expect_part(ran.err, none[i]);
        ran_free(&ran);
    }
    /* Other reports show such a file as any. */
    ran = run_program((const char *[]){gleaner(), "report", dump, NULL});
    ck_assert_int_eq(ran.status, 0);
    expect_part(ran.out, "Live by call stack:");
    ran_free(&ran);
}
END_TEST

/* A profile that was taken without, a process where collection is off. */
START_TEST(not_known)
{
    start("all", "collect:off", "in_global", NULL);
    struct ran ran = ask("target_new", "text", NULL);
    ck_assert_int_eq(ran.status, 1);
    ck_assert_str_eq(ran.out, "");
    expect_part(ran.err, "could not be found out: collection is off here (collect:off)\n");
    ran_free(&ran);
    ran = run_program((const char *[]){gleaner(), "dump", live.text, "-o", in_folder("without.pb.gz"), NULL});
    ck_assert_int_eq(ran.status, 0);
    ran_free(&ran);
    ran = run_program((const char *[]){gleaner(), "report", "--holders", "main", in_folder("without.pb.gz"), NULL});
    ck_assert_int_eq(ran.status, 1);
    expect_part(ran.err, "does not say who holds what: take it by gleaner dump PID --holders\n");
    ran_free(&ran);
    stop();
}
END_TEST

/* Without samples there is nothing to ask for; the process answers all the same. */
START_TEST(no_samples)
{
    start("0", confs[_i], "in_global", NULL);
    struct ran ran = ask("main", "text", NULL);
    ck_assert_int_eq(ran.status, 1);
    expect_part(ran.err, "no call stack of sampled live blocks in ");
    ran_free(&ran);
    stop();
}
END_TEST

/* With the usual interval none of these few blocks is sampled, or hardly one; blocks on a way need not be. */
START_TEST(few_samples)
{
    start("2K", confs[_i], "in_list", "many");
    json_t *json = holders("new");
    const json_t *groups = json_object_get(json, "holders");
    ck_assert_uint_ge(json_array_size(groups), 1);
    for (size_t i = 0; i < json_array_size(groups); i++) {
        const json_t *group = json_array_get(groups, i);
        ck_assert_int_lt(number(group, "sampled_live"), 1000);
        ck_assert_int_eq(number(group, "unreached"), 0);
    }
    json_decref(json);
    stop();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("holders of programs");
    TCase *c = tcase_create("places");
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, names_the_place, 0, 2 * PLACES);
    suite_add_tcase(s, c);
    c = tcase_create("ways");
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, a_chain, 0, 2);
    tcase_add_loop_test(c, a_list, 0, 2);
    tcase_add_loop_test(c, a_table, 0, 2);
    tcase_add_loop_test(c, two_holders, 0, 2);
    tcase_add_loop_test(c, nobody, 0, 2);
    tcase_add_loop_test(c, what_is_ignored, 0, 2);
    tcase_add_loop_test(c, among_threads, 0, 2);
    tcase_add_loop_test(c, few_samples, 0, 2);
    tcase_add_loop_test(c, no_samples, 0, 2);
    tcase_add_test(c, sites_and_files);
    tcase_add_test(c, not_known);
    suite_add_tcase(s, c);
    return suite_run(s);
}
