/* test-product.c: the command and the library together, on programs of the machine and on small
   ones of ours.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "command.h"
#include "product.h"
#include "suite.h"

#include <check.h>
#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *daemon_program, *unload_program, *plugins[2];

/* -- a program under Gleaner does what it does without ------------------------------------------ */

static const char *const real[][8] = {
    {"sqlite3", ":memory:",
     "create table t(a, b); with recursive c(x) as (select 1 union all select x+1 from c where "
     "x<20000) insert into t select x, hex(x*x) from c; create index i on t(b); select count(*), "
     "sum(length(b)), max(b) from t where a % 7 = 3; select group_concat(b) from (select b from t "
     "order by b limit 50);"},
    {"sqlite3", ":memory:", "select 1; select nonsense;"},
    {"python3", "-c",
     "import json, re, threading\n"
     "out = []\n"
     "def work(n):\n"
     "    d = {str(i): [i] * (i % 50) for i in range(3000)}\n"
     "    out.append(len(json.dumps(json.loads(json.dumps(d)))))\n"
     "ts = [threading.Thread(target=work, args=(n,)) for n in range(4)]\n"
     "[t.start() for t in ts]; [t.join() for t in ts]\n"
     "print(out, len(re.findall('1+', str(out))))\n"},
    {"python3", "-c",
     "import subprocess, sys\n"
     "print(subprocess.run(['sh', '-c', 'echo in a child; exit 3']).returncode)\n"
     "sys.exit(5)\n"},
    {"python3", "-c", "import os\nos.kill(os.getpid(), 9)\n"},
    {"python3", "-c", "raise ValueError('to stderr')\n"},
    {"perl", "-e",
     "my %h; $h{$_ % 977} .= chr(65 + $_ % 26) for 1..60000; print length(join '', map { "
     "sort split //, $h{$_} } sort keys %h), \"\\n\"; my $p = fork; if (!$p) { exit 4 } waitpid "
     "$p, 0; print $? >> 8, \"\\n\"; exit 9"},
    {"bash", "-c",
     "x=$(for i in {1..300}; do echo $i; done | sort -n | tail -1); a=({1..2000}); echo $x "
     "${#a[@]} <(true); cat <<< here; (exit 6); echo $?; trap 'echo trapped; exit 8' TERM; kill "
     "$$; sleep 100"},
    {"bash", "-c", "kill -SEGV $$"},
    {"sh", "-c", "seq 1 50000 | sort -R --random-source=/dev/zero | sort -n | cksum"},
    {"sh", "-c", "head -c 3000000 /dev/zero | gzip -c | gunzip -c | cksum"},
    {"find", "/usr/include", "-name", "*.h", "-newer", "/usr/include/nothing"},
};

static const char *const ways[][4] = {
    {"-s", "512K", NULL},
    {"-s", "all", NULL},
    {"-c", "verify:yes", "-c", "sample:4K"},
};

static struct ran run_under(const char *const *options, const char *const *argv)
{
    const char *all[32] = {gleaner(), "run", "-o", in_folder("real.%e.%p.pb.gz")};
    int n = 4;
    for (int i = 0; i < 4 && options[i]; i++) all[n++] = options[i];
    all[n++] = "--";
    while (*argv) all[n++] = *argv++;
    return run_program(all);
}

START_TEST(same_as_without)
{
    const char *const *argv = real[_i % (int)(sizeof real / sizeof *real)];
    const char *const *way = ways[_i / (int)(sizeof real / sizeof *real)];
    struct ran plain = run_program(argv), ours = run_under(way, argv);
    ck_assert_msg(plain.status != 99, "%s is not there", argv[0]);
    ck_assert_str_eq(ours.out, plain.out);
    ck_assert_str_eq(ours.err, plain.err);
    ck_assert_int_eq(ours.status, plain.status);
    ran_free(&plain);
    ran_free(&ours);
}
END_TEST

/* Without -o the report follows the program's own output, on stderr, and says what was there. */
START_TEST(report_after_the_end)
{
    const char *argv[] = {gleaner(), "run", "-s", "all", "sqlite3", ":memory:",
                          "select length(hex(zeroblob(3000000)));", NULL};
    struct ran ran = run_program(argv);
    ck_assert_int_eq(ran.status, 0);
    ck_assert_str_eq(ran.out, "6000000\n");
    expect_part(ran.err, "Gleaner: heap profile of sqlite3 :memory: select");
    expect_part(ran.err, "Totals (exact)");
    expect_part(ran.err, "\n    #0 0x");
    expect_part(ran.err, "(sqlite3+0x");
    ran_free(&ran);
}
END_TEST

/* The first process may become another program: what is reported is the last. */
static const char *const replacing[][4] = {
    {"bash", "-c", "exec sqlite3 :memory: 'select 6;'"},
    {"env", "sqlite3", ":memory:", "select 6;"},
    {"bash", "-c", "exec env -u A bash -c 'exec sqlite3 :memory: \"select 6;\"'"},
};

START_TEST(report_of_the_program_that_replaced_it)
{
    const char *argv[8] = {gleaner(), "run", "--"};
    for (int i = 0; i < 4; i++) argv[3 + i] = replacing[_i][i];
    struct ran ran = run_program(argv);
    ck_assert_int_eq(ran.status, 0);
    ck_assert_str_eq(ran.out, "6\n");
    expect_part(ran.err, "Gleaner: heap profile of sqlite3 :memory: select 6;");
    expect_no_part(ran.err, "heap profile of bash");
    ran_free(&ran);
}
END_TEST

/* A child that the first process starts is not followed, and sees no library of ours. */
START_TEST(children_are_not_reported)
{
    const char *argv[] = {gleaner(), "run", "sh", "-c",
                          "sh -c 'echo child ${LD_PRELOAD-none}'; echo ${LD_PRELOAD-none}", NULL};
    struct ran ran = run_program(argv);
    ck_assert_int_eq(ran.status, 0);
    ck_assert_str_eq(ran.out, "child none\nnone\n");
    expect_part(ran.err, "Gleaner: heap profile of sh -c");
    ran_free(&ran);
}
END_TEST

START_TEST(off_is_said)
{
    const char *argv[] = {gleaner(), "run", "-s", "0", "true", NULL};
    struct ran ran = run_program(argv);
    expect_part(ran.err, "Totals (exact)");
    expect_part(ran.err, "\nNo call stacks: sampling was off\n");
    expect_no_part(ran.err, "estimated");
    ran_free(&ran);
}
END_TEST

/* What is no file stays what it is: a rename onto /dev/null would be felt by the whole machine. */
START_TEST(devices_are_not_replaced)
{
    struct stat is;
    const char *link = in_folder("null"), *pipe = in_folder("pipe");
    ck_assert_int_eq(symlink("/dev/null", link), 0);
    ck_assert_int_eq(mkfifo(pipe, 0600), 0);
    const char *to_null[] = {gleaner(), "run", "-o", link, "true", NULL};
    const char *to_pipe[] = {gleaner(), "run", "-o", pipe, "true", NULL};
    struct ran ran = run_program(to_null);
    ck_assert_str_eq(ran.err, "");
    ck_assert(lstat(link, &is) == 0 && S_ISLNK(is.st_mode));
    ran_free(&ran);
    ran = run_program(to_pipe);
    ck_assert_int_eq(ran.status, 0);
    expect_part(ran.err, "no profile written to ");
    ck_assert(lstat(pipe, &is) == 0 && S_ISFIFO(is.st_mode));
    ran_free(&ran);
    must_run("'%s' run -o %s sleep 1000 & p=$!\n"
             "until '%s' dump $p -o %s 2>/dev/null; do kill -0 $p || exit 1; done\n"
             "'%s' dump $p -o - | gzip -t; s=$?; kill $p; exit $s",
             gleaner(), link, gleaner(), link, gleaner());
    ck_assert(lstat(link, &is) == 0 && S_ISLNK(is.st_mode));
}
END_TEST

/* -- figures ------------------------------------------------------------------------------------ */

static void make_profile(const char *file, const char *sample)
{
    const char *argv[] = {gleaner(), "run", "-c", "seed:7", "-s", sample, "-o", file, "python3", "-c",
                          "import ast\n"
                          "held = [ast.parse('f(a, b[%d], c=1)' % i) for i in range(1500)]\n"
                          "import os, sys\n"
                          "sys.stdout.flush(); os._exit(0)\n", NULL};
    struct ran ran = run_program(argv);
    ck_assert_str_eq(ran.err, "");
    ck_assert_int_eq(ran.status, 0);
    ran_free(&ran);
}

/* Sums a column of the samples in `go tool pprof -raw`: "   1  16384  1  16384: 5 6 7". */
static void pprof_sums(const char *file, double sums[4])
{
    const char *argv[] = {"go", "tool", "pprof", "-symbolize=none", "-raw", file, NULL};
    struct ran ran = run_program(argv);
    ck_assert_msg(ran.status == 0, "%s", ran.err);
    expect_part(ran.out, "alloc_objects/count alloc_space/bytes inuse_objects/count "
                         "inuse_space/bytes");
    char *samples = strstr(ran.out, "\nSamples:\n"), *rest;
    ck_assert_ptr_nonnull(samples);
    char *end = strstr(samples, "\nLocations\n");
    ck_assert_ptr_nonnull(end);
    *end = 0;
    for (int i = 0; i < 4; i++) sums[i] = 0;
    for (char *line = strtok_r(samples + 1, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        double value[4];
        if (sscanf(line, "%lf %lf %lf %lf", &value[0], &value[1], &value[2], &value[3]) != 4)
            continue; /* the heading, labels */
        for (int i = 0; i < 4; i++) sums[i] += value[i];
    }
    ran_free(&ran);
}

/* The same file, the same figures: to the byte where every block was sampled, else but for the
   rounding to whole numbers in each of pprof's samples. */
/* pprof heads each view with a profile's comments; ours is for programs. */
START_TEST(pprof_shows_no_json)
{
    const char *file = in_folder("head.pb.gz");
    make_profile(file, "16K");
    const char *argv[] = {"go", "tool", "pprof", "-symbolize=none", "-top", file, NULL};
    struct ran ran = run_program(argv);
    ck_assert_int_eq(ran.status, 0);
    expect_part(ran.out, "Type: inuse_space");
    expect_no_part(ran.out, "\"version\"");
    ran_free(&ran);
}
END_TEST

START_TEST(pprof_agrees)
{
    static const char *const intervals[] = {"all", "16K"};
    const char *file = in_folder("pprof.pb.gz");
    make_profile(file, intervals[_i]);
    double sums[4];
    pprof_sums(file, sums);
    ck_assert(sums[3] > 500000);
    json_t *report = product_report(file);
    double sites = (double)json_array_size(json_object_get(report, "sites"));
    static const char *const columns[4][2] = {
        {"alloc", "objects"}, {"alloc", "bytes"}, {"live", "objects"}, {"live", "bytes"}};
    for (int i = 0; i < 4; i++) {
        double ours = product_sum(report, NULL, columns[i][0], columns[i][1]);
        ck_assert_double_eq_tol(sums[i], ours, _i == 0 ? 0.5 : sites);
        if (_i == 0)
            ck_assert_double_le(
                ours, product_number(report, "totals", columns[i][0], columns[i][1], NULL));
    }
    json_decref(report);
}
END_TEST

/* Every block sampled: what the stacks add up to is what the exact counters say, but for what was
   allocated before the sampler's start and is marked so. */
START_TEST(all_samples_are_all_blocks)
{
    const char *file = in_folder("all.pb.gz");
    make_profile(file, "all");
    json_t *report = product_report(file);
    double exact = product_number(report, "totals", "alloc", "bytes", NULL);
    double sites = product_sum(report, NULL, "alloc", "bytes");
    ck_assert_double_le(sites, exact);
    ck_assert_double_ge(sites, 0.99 * exact);
    json_decref(report);
}
END_TEST

/* -- live processes ----------------------------------------------------------------------------- */

static void entries(pid_t pid, const char *what, char *to, size_t bytes)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, what);
    DIR *folder = opendir(path);
    ck_assert_ptr_nonnull(folder);
    to[0] = 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.') continue;
        strncat(to, entry->d_name, bytes - strlen(to) - 2);
        strcat(to, " ");
    }
    closedir(folder);
}

static bool is_listed(pid_t pid)
{
    const char *argv[] = {gleaner(), "list", NULL};
    struct ran ran = run_program(argv);
    ck_assert_int_eq(ran.status, 0);
    char *rest;
    bool found = false;
    for (char *line = strtok_r(ran.out, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        found |= atoi(line) == pid;
    ran_free(&ran);
    return found;
}

static struct ran dump(pid_t pid, const char *file)
{
    char number[16];
    snprintf(number, sizeof number, "%d", (int)pid);
    const char *argv[] = {gleaner(), "dump", number, "-o", file, NULL};
    return run_program(argv);
}

/* A daemon without descriptors: two profiles, with the blocks that it holds, and it is as before. */
START_TEST(daemon_is_asked)
{
    const char *argv[] = {gleaner(), "run", "-s", "all", "-o", in_folder("daemon.end.%p"),
                          daemon_program, NULL};
    struct ran ran = run_program(argv);
    ck_assert_int_eq(ran.status, 0);
    pid_t pid = atoi(ran.out);
    ran_free(&ran);
    ck_assert_int_gt(pid, 1);
    for (int i = 0; i < 2; i++) {
        const char *file = in_folder(i ? "daemon2.pb.gz" : "daemon1.pb.gz");
        ran = dump(pid, file);
        ck_assert_msg(ran.status == 0, "%s", ran.err);
        ran_free(&ran);
        json_t *report = product_report(file);
        ck_assert_double_eq(product_sum(report, "hold_blocks", "live", "objects"), 1000);
        ck_assert_double_ge(product_sum(report, "hold_blocks", "live", "bytes"), 1000 * 1000);
        ck_assert_double_eq(product_number(report, "pid", NULL), pid);
        json_decref(report);
        char found[256], threads[64], children[64];
        entries(pid, "fd", found, sizeof found);
        ck_assert_str_eq(found, "");
        entries(pid, "task", found, sizeof found);
        snprintf(threads, sizeof threads, "%d ", (int)pid);
        ck_assert_str_eq(found, threads);
        snprintf(children, sizeof children, "/proc/%d/task/%d/children", (int)pid, (int)pid);
        FILE *f = fopen(children, "r");
        if (f) { /* the kernel may lack it */
            ck_assert_msg(!fgets(found, sizeof found, f), "a child stays: %s", found);
            fclose(f);
        }
    }
    ck_assert(is_listed(pid));
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
}
END_TEST

/* Starts argv with its own descriptors, waits until it has executed the program. */
static pid_t start(const char *const *argv, const char *wanted)
{
    pid_t pid = fork();
    if (pid == 0) {
        execvp(argv[0], (char *const *)argv);
        _exit(99);
    }
    char path[64], name[64] = "";
    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    while (strcmp(name, wanted) != 0) {
        FILE *f = fopen(path, "r");
        ck_assert(f && fscanf(f, "%63s", name) == 1);
        fclose(f);
        ck_assert_int_eq(waitpid(pid, NULL, WNOHANG), 0);
        usleep(1000);
    }
    return pid;
}

/* A program that only sleeps is listed, asked, and sleeps on. */
START_TEST(idle_is_asked)
{
    const char *argv[] = {gleaner(), "run", "-o", in_folder("idle.end"), "sleep", "1000", NULL};
    pid_t pid = start(argv, "sleep");
    while (!is_listed(pid)) usleep(1000); /* the loader is at work */
    struct ran ran = dump(pid, in_folder("idle.pb.gz"));
    ck_assert_msg(ran.status == 0, "%s", ran.err);
    ran_free(&ran);
    json_t *report = product_report(in_folder("idle.pb.gz"));
    ck_assert_double_eq(product_number(report, "pid", NULL), pid);
    json_decref(report);
    ck_assert_int_eq(waitpid(pid, NULL, WNOHANG), 0);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    ran = dump(pid, in_folder("idle2.pb.gz"));
    ck_assert_int_ne(ran.status, 0);
    ran_free(&ran);
}
END_TEST

/* A program behind a script that ends in exec is the one that was asked for: its report, and nothing of the children. */
START_TEST(wrapper_script_is_followed)
{
    const char *argv[] = {gleaner(), "run", "-s", "all", "sh", "-c", "ls / >/dev/null; exec sort /dev/null", NULL};
    struct ran ran = run_program(argv);
    ck_assert_int_eq(ran.status, 0);
    expect_part(ran.err, "heap profile of sort /dev/null");
    ran_free(&ran);
}
END_TEST

/* Dumps that come at once take turns, and each has its profile; what a killed one left is no obstacle. */
START_TEST(asked_by_many_at_once)
{
    enum { MANY = 6 };
    const char *argv[] = {gleaner(), "run", "-o", in_folder("many.end"), "sleep", "1000", NULL};
    pid_t pid = start(argv, "sleep"), asker[MANY];
    while (!is_listed(pid)) usleep(1000);
    for (int i = 0; i < MANY; i++) {
        asker[i] = fork();
        if (asker[i] != 0) continue;
        char number[16], file[512];
        snprintf(number, sizeof number, "%d", (int)pid);
        snprintf(file, sizeof file, "%s.%d", in_folder("many"), i);
        execlp(gleaner(), gleaner(), "dump", number, "-o", file, NULL);
        _exit(99);
    }
    for (int i = 0, status; i < MANY; i++) {
        ck_assert_int_eq(waitpid(asker[i], &status, 0), asker[i]);
        ck_assert_int_eq(status, 0);
        char file[512];
        snprintf(file, sizeof file, "%s.%d", in_folder("many"), i);
        json_t *report = product_report(file);
        ck_assert_double_eq(product_number(report, "pid", NULL), pid);
        json_decref(report);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}
END_TEST

/* A stopped process cannot answer: one line says so long before the time is up, and the process, when it goes on,
   can be asked again. */
START_TEST(stopped_is_said)
{
    const char *argv[] = {gleaner(), "run", "-o", in_folder("stopped.end"), "sleep", "1000", NULL};
    pid_t pid = start(argv, "sleep");
    while (!is_listed(pid)) usleep(1000);
    kill(pid, SIGSTOP);
    int status;
    ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
    struct ran ran = dump(pid, in_folder("stopped.pb.gz"));
    ck_assert_int_ne(ran.status, 0);
    expect_part(ran.err, "is stopped");
    ran_free(&ran);
    kill(pid, SIGCONT);
    ran = dump(pid, in_folder("stopped.pb.gz"));
    ck_assert_msg(ran.status == 0, "%s", ran.err);
    ran_free(&ran);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}
END_TEST

/* A process without Gleaner is not listed, and one line says so. */
START_TEST(stranger_is_refused)
{
    const char *argv[] = {"sleep", "1000", NULL};
    pid_t pid = start(argv, "sleep");
    ck_assert(!is_listed(pid));
    struct ran ran = dump(pid, in_folder("stranger.pb.gz"));
    ck_assert_int_ne(ran.status, 0);
    expect_part(ran.err, "gleaner: ");
    ck_assert_ptr_eq(strchr(ran.err, '\n'), ran.err + strlen(ran.err) - 1);
    ran_free(&ran);
    ck_assert_int_ne(access(in_folder("stranger.pb.gz"), F_OK), 0);
    ck_assert_int_eq(waitpid(pid, NULL, WNOHANG), 0);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}
END_TEST

/* -- plugins that are gone ---------------------------------------------------------------------- */

/* Blocks keep the plugin that they came from, though another one was loaded since. */
START_TEST(unloaded_plugins_keep_names)
{
    const char *file = in_folder("unload.pb.gz");
    const char *argv[] = {gleaner(), "run", "-s", "all", "-o", file, unload_program, plugins[0],
                          plugins[1], NULL};
    struct ran ran = run_program(argv);
    ck_assert_str_eq(ran.err, "");
    ck_assert_int_eq(ran.status, 0);
    ran_free(&ran);
    json_t *report = product_report(file);
    ck_assert(product_has_module(report, "plugin_fill", "product-plugin-a"));
    ck_assert(product_has_module(report, "plugin_fill", "product-plugin-b"));
    ck_assert_double_eq(product_sum(report, "plugin_fill", "live", "objects"), 200);
    json_decref(report);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("product");
    TCase *t = tcase_create("all");
    daemon_program = getenv("GLEANER_DAEMON");
    unload_program = getenv("GLEANER_UNLOAD");
    plugins[0] = getenv("GLEANER_PLUGIN_A");
    plugins[1] = getenv("GLEANER_PLUGIN_B");
    if (!daemon_program || !unload_program || !plugins[0] || !plugins[1]) return 2; /* not by meson */
    test_folder();
    tcase_set_timeout(t, 600);
    tcase_add_loop_test(t, same_as_without, 0,
                        (int)(sizeof ways / sizeof *ways * (sizeof real / sizeof *real)));
    tcase_add_test(t, report_after_the_end);
    tcase_add_loop_test(t, report_of_the_program_that_replaced_it, 0,
                        sizeof replacing / sizeof *replacing);
    tcase_add_test(t, children_are_not_reported);
    tcase_add_test(t, off_is_said);
    tcase_add_test(t, devices_are_not_replaced);
    tcase_add_test(t, pprof_shows_no_json);
    tcase_add_loop_test(t, pprof_agrees, 0, 2);
    tcase_add_test(t, all_samples_are_all_blocks);
    tcase_add_test(t, daemon_is_asked);
    tcase_add_test(t, idle_is_asked);
    tcase_add_test(t, wrapper_script_is_followed);
    tcase_add_test(t, asked_by_many_at_once);
    tcase_add_test(t, stopped_is_said);
    tcase_add_test(t, stranger_is_refused);
    tcase_add_test(t, unloaded_plugins_keep_names);
    suite_add_tcase(suite, t);
    return suite_run(suite);
}
