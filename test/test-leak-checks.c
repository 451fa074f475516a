/* test-leak-checks.c: leak checks that a program makes or asks for: LeakSanitizer's interface against LeakSanitizer itself, the check
   at exit, gleaner.h's functions, the log, the probes.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "command.h"
#include "suite.h"

#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *library, *programs;

#define MOST_ENVIRONMENT 6

/* Runs a program of the test's with further variables, under the library unless `preload` is false. */
static struct ran run(const char *program, const char *how, bool preload,
                      const char *const *environment)
{
    const char *argv[4 + MOST_ENVIRONMENT] = {"env"};
    char path[4096], variable[4096];
    int n = 1;
    snprintf(variable, sizeof variable, "LD_PRELOAD=%s", library);
    if (preload) argv[n++] = variable;
    while (environment && *environment) argv[n++] = *environment++;
    snprintf(path, sizeof path, "%s/%s", programs, program);
    argv[n++] = path;
    if (how) argv[n++] = how;
    argv[n] = NULL;
    return run_program(argv);
}

#define ENVIRONMENT(...) ((const char *const[]){__VA_ARGS__, NULL})
#define CONF(conf) ENVIRONMENT("GLEANER_CONF=" conf)

static bool have_lsan(void)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/annotated-lsan", programs);
    return access(path, X_OK) == 0;
}

/* Reports. */

struct leak {
    bool indirect;
    unsigned long bytes, objects;
    char function[64]; /* innermost of the program's, empty: none has a name */
};

struct leaks {
    struct leak leak[16];
    unsigned count;
    bool cut;                         /* not all are shown */
    unsigned long bytes, allocations; /* of the summary */
};

static void read_frame(const char *line, struct leak *l)
{
    char name[64];
    if (l->function[0] || sscanf(line, " #%*u 0x%*x in %63s", name) != 1) return;
    if (strstr(name, "alloc")) return; /* LeakSanitizer's own */
    strcpy(l->function, name);
}

/* The report that starts at *text, which moves behind it; false if there is none. */
static bool read_report(const char **text, struct leaks *to)
{
    const char *at = strstr(*text, "Sanitizer: detected memory leaks");
    if (!at) at = strstr(*text, "Gleaner: detected memory leaks");
    *to = (struct leaks){.count = 0};
    if (!at) return false;
    for (at = strchr(at, '\n'); at; at = strchr(at, '\n')) {
        char kind[16];
        struct leak *l = &to->leak[to->count];
        at++;
        if (*at == '\n') continue; /* sscanf would look beyond */
        to->cut |= strncmp(at, "Omitting ", 9) == 0;
        if (sscanf(at, "%15s leak of %lu byte(s) in %lu object(s)", kind, &l->bytes, &l->objects) ==
            3) {
            ck_assert(strcmp(kind, "Direct") == 0 || strcmp(kind, "Indirect") == 0);
            l->indirect = kind[0] == 'I';
            to->count++;
            ck_assert_uint_lt(to->count, 16);
        } else if (to->count > 0 && strncmp(at, "    #", 5) == 0)
            read_frame(at, l - 1);
        else if (sscanf(at, "SUMMARY: %*s %lu byte(s) leaked in %lu allocation(s).", &to->bytes,
                        &to->allocations) == 2) {
            *text = at;
            return true;
        }
    }
    ck_abort_msg("a report without summary:\n%s", *text);
}

/* Check's messages have a limit that two reports pass. */
static _Noreturn void differ(const char *mode, unsigned n, const char *theirs, const char *ours)
{
    fprintf(stderr, "---- theirs:\n%s\n---- ours:\n%s\n", theirs, ours);
    ck_abort_msg("%s: report %u differs", mode, n);
}

/* Every report of one against that of the other: same call stacks in the same order, same counts; our bytes are those of the slots. */
static void compare_reports(const char *mode, const char *theirs, const char *ours)
{
    struct leaks a, b;
    const char *left = theirs, *right = ours;
    for (unsigned n = 1;; n++) {
        bool has = read_report(&left, &a), too = read_report(&right, &b);
        if (has != too) differ(mode, n, theirs, ours);
        if (!has) return;
        bool same = a.count == b.count && a.allocations == b.allocations && b.bytes >= a.bytes;
        unsigned long bytes = 0;
        for (unsigned i = 0; i < a.count && same; i++) {
            const struct leak *x = &a.leak[i], *y = &b.leak[i];
            same = x->indirect == y->indirect && x->objects == y->objects &&
                   strcmp(x->function, y->function) == 0 && y->bytes >= x->bytes &&
                   y->bytes <= x->bytes + x->bytes / 7 + 32 * x->objects;
            bytes += y->bytes;
        }
        if (b.count > 0 && bytes != b.bytes && !b.cut) same = false;
        if (!same) differ(mode, n, theirs, ours);
    }
}

static const struct {
    const char *mode, *hook;
    bool is_exit; /* ends by itself with a leak: what is printed later differs */
} modes[] = {
    {"shapes", NULL, true},
    {"nothing", NULL, false},
    {"twice", NULL, true},
    {"fatal", NULL, true},
    {"once", NULL, false},
    {"disable", NULL, true},
    {"disable-here", NULL, true},
    {"ignore", NULL, false},
    {"roots", NULL, true},
    {"suppressed", "HOOK_SUPPRESSIONS=leak:known_leak", true},
    {"only-suppressed", "HOOK_SUPPRESSIONS=leak:known_leak", false},
    {"suppressed", "HOOK_SUPPRESSIONS=# all\nleak:^known_*$\nleak:leak_single", false},
    {"suppressed", "HOOK_SUPPRESSIONS=leak:annotated", false}, /* the module */
    {"twice", "HOOK_OFF=1", false},
    {"twice", "LSAN_OPTIONS=exitcode=0", true},
    {"fatal", "LSAN_OPTIONS=exitcode=77", true},
    {"shapes", "LSAN_OPTIONS=max_leaks=2:exitcode=78", true},
    {"fatal", "LSAN_OPTIONS=detect_leaks=0", false},
    {"twice", "LSAN_OPTIONS=detect_leaks=0", false},
    {"exit", NULL, true},
};

/* The lines that the program wrote past stdio. */
static void keep_answers(char *out)
{
    char *to = out;
    for (char *line = strtok(out, "\n"); line; line = strtok(NULL, "\n"))
        if (strcmp(line, "buffered") != 0) to += sprintf(to, "%s;", line);
    *to = 0;
}

START_TEST(as_leak_sanitizer)
{
    if (!have_lsan()) return;
    const char *mode = modes[_i].mode, *hook = modes[_i].hook;
    const char *theirs_environment[] = {hook, NULL};
    const char *ours_environment[] = {"GLEANER_CONF=sample:all,leaks:exit,exit:report", hook, NULL};
    if (hook && strstr(hook, "exitcode") == NULL)
        ours_environment[0] = "GLEANER_CONF=sample:all,leaks:exit,exit:report,exit_code:23";
    if (!hook) ours_environment[0] = "GLEANER_CONF=sample:all,leaks:exit,exit:report,exit_code:23";
    struct ran theirs = run("annotated-lsan", mode, false, theirs_environment);
    struct ran ours = run("annotated", mode, true, ours_environment);
    compare_reports(mode, theirs.err, ours.err);
    if (theirs.status != ours.status)
        ck_abort_msg("%s: status %d, not %d:\n%s", mode, ours.status, theirs.status, ours.err);
    keep_answers(theirs.out);
    keep_answers(ours.out);
    ck_assert_str_eq(ours.out, theirs.out);
    ran_free(&theirs);
    ran_free(&ours);
}
END_TEST

static unsigned long indirect_bytes(const struct leaks *l)
{
    unsigned long bytes = 0;
    for (unsigned i = 0; i < l->count; i++) bytes += l->leak[i].indirect ? l->leak[i].bytes : 0;
    return bytes;
}

/* Where the program carries LeakSanitizer, ours steps aside: all is as without us, but for the line that says so. */
START_TEST(passes_on_to_leak_sanitizer)
{
    if (!have_lsan()) return;
    static const char *const passed[] = {"shapes", "once",      "disable", "ignore",
                                         "roots",  "unmatched", "fatal"};
    for (unsigned i = 0; i < sizeof passed / sizeof *passed; i++) {
        struct ran alone = run("annotated-lsan", passed[i], false, NULL);
        struct ran under = run("annotated-lsan", passed[i], true, CONF("leaks:exit,exit:report"));
        expect_part(under.err, "gleaner: the program carries LeakSanitizer");
        ck_assert_int_eq(under.status, alone.status);
        ck_assert_str_eq(under.out, alone.out);
        struct leaks a, b;
        const char *left = alone.err, *right = under.err;
        for (;;) {
            bool has = read_report(&left, &a);
            ck_assert_int_eq(has, read_report(&right, &b));
            if (!has) break;
            ck_assert_uint_eq(a.count, b.count);
            for (unsigned k = 0; k < a.count; k++) ck_assert_str_eq(a.leak[k].function, b.leak[k].function);
            ck_assert_uint_eq(a.bytes, b.bytes);
            ck_assert_uint_eq(a.allocations, b.allocations);
            ck_assert_uint_eq(indirect_bytes(&a), indirect_bytes(&b));
        }
        ran_free(&alone);
        ran_free(&under);
    }
}
END_TEST

/* The functions of each leak's three innermost frames, the places in order. */
static unsigned read_places(const char *text, char place[][256], unsigned room)
{
    unsigned n = 0;
    for (const char *at = strstr(text, "\nDirect leak of "); at; at = strstr(at + 1, "\nDirect leak of ")) {
        const char *line = strchr(at + 1, '\n');
        ck_assert_uint_lt(n, room);
        place[n][0] = 0;
        for (unsigned frame; line && sscanf(line, "\n #%u", &frame) == 1 && frame < 3; line = strchr(line + 1, '\n')) {
            char name[80] = "?";
            sscanf(line, "\n #%*u 0x%*x in %79[^ \n(]", name);
            strcat(strcat(place[n], name), ";");
        }
        n++;
    }
    qsort(place, n, sizeof place[0], (int (*)(const void *, const void *))strcmp);
    return n;
}

/* A sanitizer goes by frame pointers from its caller, which must be the program: the same places by every function that allocates. */
START_TEST(places_of_sanitizers)
{
    static const char *const kinds[] = {"sanitized-kinds-address", "sanitized-kinds-leak"};
    static char theirs[64][256], ours[64][256];
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", programs, kinds[_i]);
    if (access(path, X_OK) != 0) return; /* the compiler has none */
    struct ran alone = run(kinds[_i], NULL, false, NULL);
    struct ran under = run(kinds[_i], NULL, true, ENVIRONMENT("ASAN_OPTIONS=verify_asan_link_order=0"));
    expect_part(under.err, "gleaner: the program carries ");
    ck_assert_int_eq(under.status, alone.status);
    unsigned n = read_places(alone.err, theirs, 64);
    ck_assert_uint_eq(read_places(under.err, ours, 64), n);
    for (unsigned i = 0; i < n; i++) ck_assert_str_eq(ours[i], theirs[i]);
    ck_assert_uint_ge(n, 16);
    ran_free(&alone);
    ran_free(&under);
}
END_TEST

/* The check at exit. */

static const struct {
    const char *mode, *conf, *variable;
    int status;
    const char *out; /* all of stdout */
    const char *err; /* a part; NULL: nothing at all */
} endings[] = {
    {"exit", "leaks:exit,exit_code:9", NULL, 9, "handler\nbuffered\n", NULL},
    {"exit", "leaks:exit", NULL, 5, "handler\nbuffered\n", NULL},
    {"exit", "leaks:exit,exit:report", NULL, 5, "handler\nbuffered\n", "SUMMARY: Gleaner: "},
    {"exit", "leaks:exit,exit:report,exit_code:9", NULL, 9, "handler\nbuffered\n",
     " in 2 allocation(s).\n"},
    {"_exit", "leaks:exit,exit_code:9", NULL, 9, "buffered\n", NULL},
    {"quick_exit", "leaks:exit,exit_code:9", NULL, 9, "buffered\nhandler\n", NULL},
    {"exit", "leaks:every=1h,exit_code:9", NULL, 9, "handler\nbuffered\n", NULL},
    {"exit", "exit_code:9", NULL, 5, "handler\nbuffered\n", NULL}, /* nobody looks */
    {"exit", "leaks:exit,collect:off,exit_code:9", NULL, 5, "handler\nbuffered\n", NULL},
    {"exit", "leaks:exit", "LSAN_OPTIONS=exitcode=31", 31, "handler\nbuffered\n", NULL},
    {"exit", "leaks:exit,exit_code:9", "LSAN_OPTIONS=exitcode=31", 9, "handler\nbuffered\n", NULL},
    {"exit", "leaks:exit,exit_code:9", "LSAN_OPTIONS=detect_leaks=0", 5, "handler\nbuffered\n",
     NULL},
    {"exit", "leaks:exit,exit_code:9", "HOOK_OFF=1", 5, "handler\nbuffered\n", NULL},
    {"exit", "sample:all,leaks:exit,exit_code:9", "HOOK_SUPPRESSIONS=leak:leak_pair", 5,
     "handler\nbuffered\n", NULL},
    {"exit", "leaks:exit,exit_code:9", "HOOK_SUPPRESSIONS=leak:leak_pair", 5, "handler\nbuffered\n",
     NULL}, /* by its caller */
    {"nothing", "leaks:exit,exit_code:9,exit:report", NULL, 0, "recoverable 0\nhandler\nbuffered\n",
     "Gleaner: nothing lost; called lost before"},
    {"once", "leaks:exit,exit_code:9", NULL, 0, "went on\nhandler\nbuffered\n",
     NULL}, /* one check a process */
    {"fatal", "exit_code:9", NULL, 9, "", "SUMMARY: Gleaner: "},
    {"fatal", "log:none", NULL, 23, "", "SUMMARY: Gleaner: "},
    {"fatal", "log:none", "HOOK_OPTIONS=exitcode=77", 77, "", "SUMMARY: Gleaner: "},
    {"fatal", "exit:report", "LSAN_OPTIONS=exitcode=0", 0, "went on\nhandler\nbuffered\n",
     "SUMMARY: Gleaner: "},
    {"unmatched", "log:none", NULL, 0, "went on\nhandler\nbuffered\n",
     "==Unmatched call to __lsan_enable().\n"},
    /* No collection is complete: no success where a status was asked for. */
    {"unknown", "leaks:exit,exit:report,exit_code:9", NULL, 9, "recoverable 1\nhandler\nbuffered\n",
     "==ERROR: Gleaner: whether anything is lost is not known: a thread could not be stopped\ngleaner: so the status is 9, by exit_code\n"},
    {"unknown", "leaks:exit,exit_code:9", NULL, 9, "recoverable 1\nhandler\nbuffered\n",
     "==ERROR: Gleaner: whether anything is lost is not known: a thread could not be stopped\ngleaner: so the status is 9, by exit_code\n"},
    {"unknown", "leaks:exit", "LSAN_OPTIONS=exitcode=31", 31, "recoverable 1\nhandler\nbuffered\n", "is not known: "},
    {"unknown", "leaks:exit,exit:report", NULL, 0, "recoverable 0\nhandler\nbuffered\n", "is not known: a thread could not be stopped\n"},
    {"unknown", "leaks:exit", NULL, 0, "recoverable 0\nhandler\nbuffered\n", "gleaner: no leak check: a thread could not be stopped\n"},
    {"unknown-fatal", "exit_code:9", NULL, 9, "", "gleaner: no leak check: a thread could not be stopped\n"},
    {"unknown-fatal", "log:none", NULL, 0, "went on\nhandler\nbuffered\n", "gleaner: no leak check: a thread could not be stopped\n"},
    {"fork", "leaks:exit,exit_code:9", NULL, 9, "buffered\nrecoverable 1\nrecoverable 1\nhandler\n",
     "Direct leak of"},
};

START_TEST(at_exit_)
{
    char conf[256];
    const char *environment[] = {conf, endings[_i].variable, NULL};
    snprintf(conf, sizeof conf, "GLEANER_CONF=%s", endings[_i].conf);
    struct ran r = run("annotated", endings[_i].mode, true, environment);
    if (r.status != endings[_i].status)
        ck_abort_msg("%s, %s: status %d:\n%s", endings[_i].mode, endings[_i].conf, r.status, r.err);
    ck_assert_str_eq(r.out, endings[_i].out);
    if (endings[_i].err)
        expect_part(r.err, endings[_i].err);
    else
        ck_assert_str_eq(r.err, "");
    ran_free(&r);
}
END_TEST

/* Suppressions from files: the key's, and those of LSAN_OPTIONS beside the folder of the start. */
START_TEST(suppression_files)
{
    char conf[4200];
    must_run("printf 'leak:leak_pair\\n' >%s; printf 'leak:nothing_like_it\\n' >%s", in_folder("s"),
             in_folder("other"));
    snprintf(conf, sizeof conf,
             "GLEANER_CONF=leaks:exit,exit_code:9,sample:all,exit:report,suppressions:%s",
             in_folder("s"));
    struct ran r = run("annotated", "exit", true, ENVIRONMENT(conf));
    ck_assert_int_eq(r.status, 5);
    expect_part(r.err, "Suppressions used:\n  count      bytes template\n      2 ");
    expect_part(r.err, " leak_pair\n");
    expect_part(r.err, "nothing lost that no suppression names");
    expect_no_part(r.err, "detected memory leaks");
    ran_free(&r);
    snprintf(conf, sizeof conf, "GLEANER_CONF=leaks:exit,exit_code:9,suppressions:%s",
             in_folder("other"));
    r = run("annotated", "exit", true, ENVIRONMENT(conf));
    ck_assert_int_eq(r.status, 9);
    ran_free(&r);
    ck_assert_int_eq(chdir(test_folder()), 0);
    r = run("annotated", "exit", true,
            ENVIRONMENT("GLEANER_CONF=leaks:exit,exit_code:9", "LSAN_OPTIONS=suppressions=s"));
    ck_assert_int_eq(r.status, 5);
    ck_assert_str_eq(r.err, "");
    ran_free(&r);
    /* Both add up; a missing file is named where a check is made, and not before. */
    r = run("annotated", "exit", true,
            ENVIRONMENT("GLEANER_CONF=leaks:exit,exit_code:9,suppressions:other",
                        "LSAN_OPTIONS=suppressions=none"));
    ck_assert_int_eq(r.status, 9);
    expect_part(r.err, "/none: cannot be read (No such file or directory)");
    ran_free(&r);
    r = run("annotated", "exit", true, ENVIRONMENT("LSAN_OPTIONS=suppressions=none:exitcode=x"));
    ck_assert_int_eq(r.status, 5);
    ck_assert_str_eq(r.err, "");
    ran_free(&r);
}
END_TEST

/* The text. */
START_TEST(text)
{
    struct ran r = run("annotated", "shapes", true,
                       ENVIRONMENT("GLEANER_CONF=sample:all", "LSAN_OPTIONS=report_objects=1"));
    ck_assert_int_eq(r.status, 0); /* recoverable, and nobody looks at exit */
    expect_part(r.err, "\n=================================================================\n==");
    expect_part(r.err, "==ERROR: Gleaner: detected memory leaks\n\nDirect leak of ");
    expect_part(r.err, " byte(s) in 49 object(s) allocated from:\n    #0 0x");
    expect_part(r.err, " in leak_list (");
    expect_part(r.err, "/annotated+0x");
    expect_part(
        r.err,
        "Called lost so far, and used by the program since: 0 object(s)\nSUMMARY: Gleaner: ");
    const char *list = strstr(r.err, " in 49 object(s)");
    const char *objects = list ? strstr(list, "Objects leaked above:\n") : NULL;
    ck_assert_ptr_nonnull(objects);
    unsigned long last = 0, address, bytes;
    unsigned count = 0;
    for (objects = strchr(objects, '\n') + 1;
         sscanf(objects, "0x%lx (%lu bytes)", &address, &bytes) == 2;
         objects = strchr(objects, '\n') + 1) {
        ck_assert_uint_gt(address, last);
        ck_assert_uint_eq(bytes, 48);
        last = address;
        count++;
    }
    ck_assert_uint_eq(count, 49);
    ran_free(&r);

    /* Without stacks it says what would help.  Without configuration one run in some fifty samples one of the blocks (9 of 512 KiB), whose
       stack then stands for all of them, as an estimate. */
    static const char no_stack[] = "recorded: sample:all takes every block's, leaks:exit its caller)\n";
    r = run("annotated", "shapes", true, CONF("sample:0"));
    expect_part(r.err, no_stack);
    expect_no_part(r.err, "(estimated; ");
    expect_part(r.err, " leaked in 63 allocation(s).\n");
    ran_free(&r);
    r = run("annotated", "shapes", true, NULL);
    ck_assert_msg(strstr(r.err, no_stack) || strstr(r.err, "(estimated; "), "%s", r.err);
    expect_part(r.err, " leaked in 63 allocation(s).\n");
    ran_free(&r);
    r = run("annotated", "shapes", true, CONF("sample:64")); /* of 49 blocks of 6 words some are sampled, and not all */
    expect_part(r.err, " in leak_list (");
    expect_part(r.err, "(estimated; ");
    expect_part(r.err, " leaked in 63 allocation(s).\n");
    ran_free(&r);

    /* With leaks on, and next to no sampling: the callers. */
    r = run("annotated", "shapes", true, CONF("leaks:exit,sample:0"));
    expect_part(r.err, " byte(s) in 49 object(s) allocated from:\n    #0 0x");
    expect_part(r.err, " in leak_list (");
    expect_part(r.err, "    (the caller only: sample:all records call stacks)\n");
    ran_free(&r);
}
END_TEST

START_TEST(checks_in_threads)
{
    struct ran r = run("annotated", "threads", true, CONF("sample:all"));
    ck_assert_int_eq(r.status, 0);
    ck_assert_str_eq(r.out, "recoverable 1\nhandler\nbuffered\n");
    const char *at = r.err;
    struct leaks l;
    unsigned reports = 0;
    for (; read_report(&at, &l); reports++) {
        ck_assert_uint_eq(l.count, 1);
        ck_assert_uint_eq(l.allocations, 1);
    }
    ck_assert_uint_eq(reports, 61);
    ran_free(&r);
}
END_TEST

/* gleaner.h. */
START_TEST(api)
{
    static const char *const confs[] = {
        "GLEANER_CONF=",
        "GLEANER_CONF=sample:all",
        "GLEANER_CONF=leaks:exit",
        "GLEANER_CONF=collect:report,nursery:1M",
        "GLEANER_CONF=snapshot:no",
        "GLEANER_CONF=sample:all,leaks:exit,snapshot:no,verify:yes"};
    for (unsigned i = 0; i < sizeof confs / sizeof *confs; i++) {
        struct ran r = run("leak-api", NULL, true, ENVIRONMENT(confs[i]));
        ck_assert_msg(strcmp(r.out, "all hold\n") == 0, "%s:\n%s\n%s", confs[i], r.out, r.err);
        ck_assert_int_eq(r.status, 0);
        ran_free(&r);
    }
    struct ran r = run("leak-api", "off", true, CONF("collect:off"));
    ck_assert_str_eq(r.out, "all hold\n");
    ran_free(&r);
    r = run("leak-api", NULL, false, NULL);
    ck_assert_str_eq(r.out, "not there\n");
    ran_free(&r);
}
END_TEST

/* The log: a line for each collection that the program asked for. */
START_TEST(log_lines)
{
    char conf[4200];
    snprintf(conf, sizeof conf, "GLEANER_CONF=leaks:exit,log:gc=%s", in_folder("log"));
    struct ran r = run("annotated", "twice", true, ENVIRONMENT(conf));
    ck_assert_int_eq(r.status, 0);
    must_run("test $(wc -l < %s) = 3", in_folder("log"));
    must_run("test $(grep -cP '^==\\d+== gleaner: collection [123] major \\((api|exit)(, "
             "snapshot)?\\) complete, pause \\d+\\.\\d{3} ms "
             "\\(stop \\d+\\.\\d{3}, roots [\\d.]+, remember [\\d.]+, mark [\\d.]+, sweep "
             "[\\d.]+\\), young \\d+ blocks \\d+ bytes, promoted "
             "\\d+ blocks \\d+ bytes, lost [01] blocks \\d+ bytes$' %s) = 3",
             in_folder("log"));
    must_run("grep -q 'collection 3 major (exit' %s", in_folder("log"));
    ran_free(&r);
}
END_TEST

/* The probes, as their notes describe them. */
START_TEST(probes)
{
    static const struct {
        const char *provider, *name;
        int arguments;
    } known[] = {
        {"gleaner", "sample", 5},    {"gleaner", "sample_free", 3}, {"gleaner", "minor_begin", 2},
        {"gleaner", "minor_end", 5}, {"gleaner", "major_begin", 2}, {"gleaner", "major_end", 5},
        {"gleaner", "lost", 4},      {"gleaner", "reclaimed", 3},   {"otel_memory", "alloc", 3},   {"otel_memory", "free", 1},
    };
    bool seen[sizeof known / sizeof *known] = {false};
    char command[4200], line[1024], provider[64] = "", name[64] = "";
    snprintf(command, sizeof command, "readelf -nW %s", library);
    FILE *p = popen(command, "r");
    ck_assert_ptr_nonnull(p);
    while (fgets(line, sizeof line, p)) {
        const char *at = strstr(line, "Provider: ");
        if (at) sscanf(at, "Provider: %63s", provider);
        sscanf(line, " Name: %63s", name);
        char *arguments = strstr(line, " Arguments:");
        if (!arguments) continue;
        unsigned i = 0, n = 0;
        ck_assert_msg(!strstr(arguments, "rip"), "needs a symbol: %s", arguments);
        for (char *a = strtok(arguments + 11, " \n"); a; a = strtok(NULL, " \n"))
            n += strchr(a, '@') != NULL;
        while (i < sizeof known / sizeof *known &&
               (strcmp(known[i].provider, provider) != 0 || strcmp(known[i].name, name) != 0))
            i++;
        ck_assert_msg(i < sizeof known / sizeof *known, "unknown: %s:%s", provider, name);
        ck_assert_msg((int)n == known[i].arguments, "%s:%s: %u arguments", provider, name, n);
        seen[i] = true;
    }
    pclose(p);
    for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
        ck_assert_msg(seen[i], "missing: %s:%s", known[i].provider, known[i].name);
}
END_TEST

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

int main(void)
{
    library = getenv("GLEANER_TEST_LIBRARY");
    programs = getenv("GLEANER_TEST_PROGRAMS");
    if (!library || !programs) return 77;
    unsetenv("LSAN_OPTIONS");
    unsetenv("GLEANER_CONF");
    Suite *suite = suite_create("leaks");
    TCase *c = tcase_create("leaks");
    tcase_set_timeout(c, 240);
    tcase_add_loop_test(c, as_leak_sanitizer, 0, COUNT(modes));
    tcase_add_test(c, passes_on_to_leak_sanitizer);
    tcase_add_loop_test(c, places_of_sanitizers, 0, 2);
    tcase_add_loop_test(c, at_exit_, 0, COUNT(endings));
    tcase_add_test(c, suppression_files);
    tcase_add_test(c, text);
    tcase_add_test(c, checks_in_threads);
    tcase_add_test(c, api);
    tcase_add_test(c, log_lines);
    if (getenv("GLEANER_TEST_PROBES")) tcase_add_test(c, probes);
    suite_add_tcase(suite, c);
    return suite_run(suite);
}
