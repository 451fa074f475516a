/* test-run.c: `gleaner run` changes nothing about the program: its status, its signals, its words,
   its environment but for two variables.  A stand-in for the library writes a known profile.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "command.h"
#include "profile_maker.h"
#include "suite.h"
#include "report/options.h"

#include <check.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char command[PATH_MAX]; /* the copy beside which the stand-in lies */

/* bin/gleaner and lib/libgleaner.so, as installed. */
static void install(void)
{
    must_run(
        "mkdir -p '%s/bin' '%s/lib' && cp '%s' '%s/bin/gleaner' && cp '%s' '%s/lib/libgleaner.so'",
        test_folder(), test_folder(), gleaner(), test_folder(), getenv("GLEANER_FAKE_LIBRARY"),
        test_folder());
    snprintf(command, sizeof command, "%s/bin/gleaner", test_folder());
    struct maker *maker = maker_new(8);
    maker_comment(maker, "gleaner:{\"version\":1,\"pid\":5,\"command\":\"canned\"}");
    uint64_t place = maker_place(maker, 0, 0x1000);
    maker_line(maker, place, "canned_function", "canned.c", 7);
    maker_add(maker, &(struct maker_sample){.places = {place}, .values = {1, 32, 1, 32}});
    maker_write(maker, in_folder("canned.pb.gz"));
    maker_free(maker);
    setenv("FAKE_PROFILE", in_folder("canned.pb.gz"), 1);
    unsetenv("GLEANER_CONF");
    unsetenv("LD_PRELOAD");
}

static struct ran run_words(const char *a, const char *b, const char *c, const char *d,
                            const char *e)
{
    return run_program((const char *[]){command, "run", a, b, c, d, e, NULL});
}

/* The report is on stderr, after what the program wrote; stdout is the program's alone. */
START_TEST(test_report_on_stderr)
{
    struct ran ran = run_words("--", "sh", "-c", "echo out; echo err >&2; exit 7", NULL);
    ck_assert_int_eq(ran.status, 7);
    ck_assert_str_eq(ran.out, "out\n");
    ck_assert_int_eq(strncmp(ran.err, "err\n==5==Gleaner: heap profile of canned\n", 40), 0);
    expect_part(ran.err, "Live 100.0%: 32 bytes in 1 blocks allocated from:\n"
                         "    #0 0x1000 in canned_function canned.c:7\n");
    ran_free(&ran);
}
END_TEST

/* Options end at the first word that is none, and at `--`. */
START_TEST(test_options_end)
{
    struct ran ran = run_words("-s", "64K", "echo", "--leaks", "-o");
    ck_assert_int_eq(ran.status, 0);
    ck_assert_str_eq(ran.out, "--leaks -o\n");
    ran_free(&ran);
    ran = run_words("--", "echo", "--", "x", NULL);
    ck_assert_str_eq(ran.out, "-- x\n");
    ran_free(&ran);
}
END_TEST

/* -o: nothing on stderr, the file is there although the program went elsewhere, and the program is
   our own process: it has our pid. */
START_TEST(test_output)
{
    must_run("mkdir -p '%s/100%%'", test_folder());
    char line[9000];
    snprintf(line, sizeof line,
             "cd '%s/100%%'; echo $$; exec '%s' run -o p.gz sh -c 'cd /; echo $$'", test_folder(),
             command);
    struct ran ran = run_program((const char *[]){"sh", "-c", line, NULL});
    int before, after;
    ck_assert_int_eq(ran.status, 0);
    ck_assert_str_eq(ran.err, "");
    ck_assert_int_eq(sscanf(ran.out, "%d %d", &before, &after), 2);
    ck_assert_int_eq(before, after);
    ck_assert_int_eq(access(in_folder("100%/p.gz"), F_OK), 0);
    ran_free(&ran);

    snprintf(line, sizeof line, "cd '%s'; '%s' run -o plain.gz sh -c 'cd /; exit 3'", test_folder(),
             command);
    ran = run_program((const char *[]){"sh", "-c", line, NULL});
    ck_assert_int_eq(ran.status, 3);
    ck_assert_int_eq(access(in_folder("plain.gz"), F_OK), 0);
    ran_free(&ran);
}
END_TEST

/* The user's GLEANER_CONF is kept and comes before the options, which so win; LD_PRELOAD is
 * extended. */
START_TEST(test_environment)
{
    char expected[9000];
    setenv("GLEANER_CONF", "depth:20,sample:1M", 1);
    setenv("LD_PRELOAD", "/nowhere/other.so", 1);
    struct ran ran = run_words("-o", "/tmp/x.%p", "-s", "all", "env");
    unsetenv("GLEANER_CONF");
    unsetenv("LD_PRELOAD");
    ck_assert_int_eq(ran.status, 0);
    expect_part(ran.out,
                "GLEANER_CONF=depth:20,sample:1M,exit:profile,output:/tmp/x.%p,sample:all\n");
    snprintf(expected, sizeof expected, "LD_PRELOAD=%s/lib/libgleaner.so:/nowhere/other.so\n",
             test_folder());
    expect_part(ran.out, expected);
    ran_free(&ran);
    ran = run_words("-s0", "-cdepth:9", "-o/tmp/y", "env", NULL);
    expect_part(ran.out, "GLEANER_CONF=exit:profile,output:/tmp/y,sample:0,depth:9\n");
    ran_free(&ran);
    ran = run_words("-s", "1.5M", "-o/tmp/y", "env", NULL);
    expect_part(ran.out, ",sample:1572864\n");
    ran_free(&ran);
    /* AddressSanitizer starts behind our library, and the user's options come last. */
    setenv("ASAN_OPTIONS", "exitcode=7", 1);
    ran = run_words("-o/tmp/y", "env", NULL, NULL, NULL);
    unsetenv("ASAN_OPTIONS");
    expect_part(ran.out, "\nASAN_OPTIONS=verify_asan_link_order=0:exitcode=7\n");
    ran_free(&ran);
}
END_TEST

/* A program that a signal ended: a shell sees that signal, and one line says why there is no
 * report. */
START_TEST(test_killed)
{
    struct ran ran = run_words("sh", "-c", "kill -SEGV $$", NULL, NULL);
    ck_assert_int_eq(ran.status, 1000 + SIGSEGV);
    expect_part(ran.err, "no profile of sh: it was killed by signal 11");
    ran_free(&ran);
}
END_TEST

START_TEST(test_not_started)
{
    struct ran ran = run_words("/nowhere/program", NULL, NULL, NULL, NULL);
    ck_assert_int_eq(ran.status, 127);
    ck_assert_str_eq(ran.err, "gleaner: cannot start /nowhere/program: not found\n");
    ran_free(&ran);
    ran = run_words("no-such-program-anywhere", NULL, NULL, NULL, NULL);
    ck_assert_int_eq(ran.status, 127);
    ran_free(&ran);
    ran = run_words("/etc/passwd", NULL, NULL, NULL, NULL);
    ck_assert_int_eq(ran.status, 126);
    ran_free(&ran);
    ran = run_words("/", NULL, NULL, NULL, NULL);
    ck_assert_int_eq(ran.status, 126);
    ran_free(&ran);
    /* Executable, but in no format that the system knows, and no script either. */
    must_run("printf '\\177ELF not really' >'%s' && chmod 755 '%s'", in_folder("broken"),
             in_folder("broken"));
    ran = run_words(in_folder("broken"), NULL, NULL, NULL, NULL);
    ck_assert_int_ne(ran.status, 0);
    ran_free(&ran);
}
END_TEST

START_TEST(test_static_program)
{
    must_run("echo 'int main(void) { return 4; }' | gcc -static -x c - -o '%s'",
             in_folder("static"));
    struct ran ran = run_words(in_folder("static"), NULL, NULL, NULL, NULL);
    ck_assert_int_eq(ran.status, 4);
    expect_part(ran.err, "static: it is statically linked\n");
    ran_free(&ran);
    ran = run_words("-o", "/tmp/never", in_folder("static"), NULL, NULL);
    ck_assert_int_eq(ran.status, 4);
    expect_part(ran.err, "it is statically linked\n");
    ran_free(&ran);
}
END_TEST

/* A profile in which `lost` blocks are lost by canned_leak, written for this reason; `more` goes on after the total of `lost`. */
static void can(int lost, const char *reason, const char *more)
{
    struct maker *maker = maker_new(8);
    char comment[512];
    snprintf(comment, sizeof comment,
             "#gleaner:{\"version\":1,\"pid\":5,\"command\":\"canned\",\"reason\":\"%s\","
             "\"totals\":{\"lost\":{\"objects\":%d,\"bytes\":%d}%s}",
             reason, lost, lost * 32, more);
    maker_comment(maker, comment);
    uint64_t place = maker_place(maker, 0, 0x1000);
    maker_line(maker, place, "canned_leak", "canned.c", 7);
    if (lost)
        maker_add(maker, &(struct maker_sample){.places = {place},
                                                .values = {0, 0, 0, 0, lost, lost * 32},
                                                .lost = "direct"});
    maker_write(maker, in_folder("leaks.pb.gz"));
    maker_free(maker);
    setenv("FAKE_PROFILE", in_folder("leaks.pb.gz"), 1);
}

#define COLLECTED "},\"collections\":{\"minor\":0,\"major\":1,\"incomplete\":0}"

static void can_leaks(int lost) { can(lost, "exit", COLLECTED); }

/* What the options for leaks configure; what they imply comes first, so that others can say otherwise. */
START_TEST(test_leak_options)
{
    static const struct {
        const char *words[4], *conf;
    } cases[] = {
        {{"-o/tmp/y", "--leaks", "env"}, "sample:all,leaks:exit\n"},
        {{"-o/tmp/y", "-l", "env"}, "sample:all,leaks:exit\n"},
        {{"-o/tmp/y", "--leaks=exit", "-s64K", "env"}, "output:/tmp/y,leaks:exit,sample:65536\n"},
        {{"-o/tmp/y", "-lexit", "-csample:1M", "env"},
         "output:/tmp/y,sample:all,leaks:exit,sample:1M\n"},
        {{"-o/tmp/y", "--leaks=every=30s", "env"}, "output:/tmp/y,leaks:every=30000ms\n"},
        {{"-o/tmp/y", "--leaks=every=1.5m", "env"}, "output:/tmp/y,leaks:every=90000ms\n"},
        {{"-o/tmp/y", "--leaks=off", "env"}, "output:/tmp/y,leaks:off\n"},
        {{"-o/tmp/y", "--reclaim", "env"}, "output:/tmp/y,sample:all,leaks:exit,collect:reclaim\n"},
        {{"-o/tmp/y", "--reclaim", "-s64K", "env"}, "output:/tmp/y,leaks:exit,collect:reclaim,sample:65536\n"},
        {{"--fail", "env"}, "=sample:all,leaks:exit,exit:profile,"},
        {{"--fail=3", "-s0", "env"}, "=leaks:exit,sample:0,exit:profile,"},
        {{"--leaks=every=1s", "--fail", "env"}, "=sample:all,leaks:every=1000ms,exit:profile,"},
    };
    can_leaks(0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const *words = cases[i].words;
        struct ran ran = run_words(words[0], words[1], words[2], words[3], NULL);
        ck_assert_msg(ran.status == 0, "%s", ran.err);
        expect_part(strstr(ran.out, "GLEANER_CONF="), cases[i].conf);
        ran_free(&ran);
    }
    static const struct {
        const char *words[3], *said;
    } bad[] = {
        {{"--leaks=often", "true"}, "--leaks takes exit, every=30s or off, not 'often'"},
        {{"--leaks=every=0s", "true"}, "--leaks takes exit, every=30s or off"},
        {{"--fail=0", "true"}, "--fail takes an exit status from 1 to 255, not '0'"},
        {{"--fail=256", "true"}, "--fail takes an exit status from 1 to 255"},
        {{"--fail", "--leaks=off", "true"}, "--fail needs --leaks, which is off"},
        {{"--reclaim=yes", "true"}, "there is no option --reclaim=yes"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct ran ran = run_words(bad[i].words[0], bad[i].words[1], bad[i].words[2], NULL, NULL);
        ck_assert_int_eq(ran.status, 2);
        expect_part(ran.err, bad[i].said);
        ran_free(&ran);
    }
}
END_TEST

/* The program's own status, unless blocks were lost that nobody knows of. */
START_TEST(test_fail)
{
    char known[4200], other[4200], in_conf[4200];
    must_run("echo leak:canned >'%s'; echo leak:different >'%s'", in_folder("known"),
             in_folder("other"));
    snprintf(known, sizeof known, "--suppressions=%s", in_folder("known"));
    snprintf(other, sizeof other, "--suppressions=%s", in_folder("other"));
    snprintf(in_conf, sizeof in_conf, "-csuppressions:%s", in_folder("known"));
    can_leaks(3);
    const struct {
        const char *first, *second;
        int status;
        const char *said;
    } cases[] = {
        {"--fail", "--leaks", 23, "SUMMARY: Gleaner: 96 byte(s) leaked in 3 allocation(s).\n"},
        {"--fail=42", "--leaks", 42,
         "==5==ERROR: Gleaner: detected memory leaks\n\n"
         "Direct leak of 96 byte(s) in 3 object(s) allocated from:\n"
         "    #0 0x1000 in canned_leak canned.c:7\n"},
        {"--leaks", "-s0", 6, "SUMMARY: Gleaner: 96 byte(s) leaked in 3 allocation(s).\n"},
        {"--fail", other, 23, "SUMMARY: Gleaner: 96 byte(s)"},
        {"--fail", known, 6, "      3         96 canned\n"},
        {"--fail", in_conf, 6, "No block is lost beyond what is suppressed.\n"},
        {"--fail", "--suppressions=/nowhere", 23, "gleaner: /nowhere: cannot be read"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ran ran = run_program((const char *[]){command, "run", cases[i].first,
                                                      cases[i].second, "sh", "-c", "exit 6", NULL});
        ck_assert_msg(ran.status == cases[i].status, "%zu: %d %s", i, ran.status, ran.err);
        expect_part(ran.err, cases[i].said);
        ran_free(&ran);
    }
    struct ran ran = run_words("--fail", "sh", "-c", "kill -SEGV $$", NULL);
    ck_assert_int_eq(ran.status, 1000 + SIGSEGV);
    ran_free(&ran);
    can_leaks(0);
    ran = run_words("--fail", "sh", "-c", "exit 6", NULL);
    ck_assert_int_eq(ran.status, 6);
    expect_part(ran.err, "No block is lost.\n");
    ran_free(&ran);
    /* With -o the profile of this process is not to be found: it is another's. */
    char output[4200];
    snprintf(output, sizeof output, "-o%s", in_folder("judged.%p.gz"));
    can_leaks(3);
    ran = run_words("--fail", output, "sh", "-c", "exit 6");
    ck_assert_msg(ran.status == 23, "%d %s", ran.status, ran.err);
    ck_assert_str_eq(ran.err, "gleaner: whether sh leaks is not known (there is no profile of it): status 23 by --fail\n");
    ran_free(&ran);
    ran = run_words("--leaks", output, "sh", "-c", "exit 6");
    ck_assert_int_eq(ran.status, 6);
    ck_assert_str_eq(ran.err, "");
    ran_free(&ran);
}
END_TEST

/* What is not known is no success. */
START_TEST(test_fail_unknown)
{
    static const struct {
        const char *reason, *more;
        int status;
        const char *said;
    } cases[] = {
        {"exit", COLLECTED, 6, "\nNo block is lost.\n"},
        {"exit", "},\"collections\":{\"minor\":3,\"major\":2,\"incomplete\":1,\"latest\":{\"major\":true,\"complete\":false,\"why_not\":\"a thread\"}}", 44,
         "\ngleaner: whether sh leaks is not known (a thread): status 44 by --fail\n"},
        {"exit", "},\"collections\":{\"minor\":3,\"major\":2,\"incomplete\":1,\"latest\":{\"major\":true,\"complete\":true}}", 6, "\nNo block is lost.\n"},
        {"exit", "},\"collections\":{\"minor\":3,\"major\":0,\"incomplete\":0}", 44,
         "\ngleaner: whether sh leaks is not known (it was not looked for lost blocks): status 44 by --fail\n"},
        {"interval", COLLECTED, 44, "\ngleaner: whether sh leaks is not known (the profile is from before its end): status 44 by --fail\n"},
        {"exit", ",\"unrecorded\":{\"objects\":2,\"bytes\":80}" COLLECTED, 44,
         "\nLost, but there was no memory to record where from: 80 byte(s) in 2 object(s)\n\n"
         "SUMMARY: Gleaner: 80 byte(s) leaked in 2 allocation(s).\n"},
        {"exit", ",\"unrecorded\":{\"objects\":0,\"bytes\":0}" COLLECTED, 6, "\nNo block is lost.\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        can(0, cases[i].reason, cases[i].more);
        struct ran ran = run_words("--fail=44", "sh", "-c", "exit 6", NULL);
        ck_assert_msg(ran.status == cases[i].status, "%zu: %d %s", i, ran.status, ran.err);
        expect_part(ran.err, cases[i].said);
        ran_free(&ran);
        ran = run_words("--fail=44", "sh", "-c", "kill -SEGV $$", NULL);
        ck_assert_int_eq(ran.status, 1000 + SIGSEGV);
        ran_free(&ran);
    }
}
END_TEST

START_TEST(test_usage)
{
    static const char *const cases[][3] = {
        {"-s", "x", "--sample takes bytes"},     {"-s", "-1", "--sample takes bytes"},
        {"-c", "depth", "--conf takes KEY"},     {"-c", "a:b,c:d", "--conf takes KEY"},
        {"-x", "true", "there is no option -x"}, {"--", NULL, "a program to run is needed"},
        {"-o", NULL, "-o needs a value"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ran ran = run_words(cases[i][0], cases[i][1], "true", NULL, NULL);
        if (!cases[i][1]) {
            ran_free(&ran);
            ran = run_words(cases[i][0], NULL, NULL, NULL, NULL);
        }
        ck_assert_int_eq(ran.status, 2);
        expect_part(ran.err, cases[i][2]);
        ran_free(&ran);
    }
}
END_TEST

/* A signal that is sent to the command reaches the program, whose own handler decides; the pipe
   tells when the handler is there, and that the signal came. */
START_TEST(test_signals_are_forwarded)
{
    int from_program[2];
    ck_assert_int_eq(pipe(from_program), 0);
    pid_t child = fork();
    if (!child) {
        dup2(from_program[1], STDOUT_FILENO);
        close(from_program[0]);
        close(from_program[1]);
        dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
        execl(command, "gleaner", "run", "sh", "-c",
              "trap 'kill $!; echo got; exit 5' TERM; sleep 100 & echo ready; wait", NULL);
        _exit(99);
    }
    close(from_program[1]);
    FILE *lines = fdopen(from_program[0], "r");
    char line[64];
    ck_assert_ptr_nonnull(fgets(line, sizeof line, lines));
    ck_assert_str_eq(line, "ready\n");
    ck_assert_int_eq(kill(child, SIGTERM), 0);
    ck_assert_ptr_nonnull(fgets(line, sizeof line, lines));
    ck_assert_str_eq(line, "got\n");
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 5);
    fclose(lines);
}
END_TEST

/* The program has the mask and the dispositions that we were given: SIGCHLD ignored and SIGUSR1
   blocked by the caller are so in it. */
START_TEST(test_signal_state_is_inherited)
{
    int pipes[2], status;
    ck_assert_int_eq(pipe(pipes), 0);
    pid_t child = fork();
    if (!child) {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        sigprocmask(SIG_BLOCK, &set, NULL);
        signal(SIGCHLD, SIG_IGN);
        dup2(pipes[1], STDOUT_FILENO);
        close(STDERR_FILENO);
        execl(command, "gleaner", "run", "grep", "-E", "SigBlk|SigIgn", "/proc/self/status", NULL);
        _exit(99);
    }
    close(pipes[1]);
    char text[256] = "";
    size_t length = 0;
    for (ssize_t got; (got = read(pipes[0], text + length, sizeof text - 1 - length)) > 0;)
        length += (size_t)got;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    expect_part(text, "SigBlk:\t0000000000000200\n"); /* bit 9: SIGUSR1 is 10 */
    const char *ignored = strstr(text, "SigIgn:\t");
    ck_assert_ptr_nonnull(ignored);
    ck_assert_uint_ne(strtoul(ignored + 8, NULL, 16) & 1u << (SIGCHLD - 1), 0);
    close(pipes[0]);
}
END_TEST

/* When the program stops, so does the command, as a shell's job control expects; both go on
 * together. */
START_TEST(test_stop_and_continue)
{
    pid_t child = fork();
    if (!child) {
        int nowhere = open("/dev/null", O_RDWR);
        dup2(nowhere, STDERR_FILENO);
        execl(command, "gleaner", "run", "sh", "-c", "kill -STOP $$; exit 6", NULL);
        _exit(99);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, WUNTRACED), child);
    ck_assert(WIFSTOPPED(status));
    ck_assert_int_eq(kill(child, SIGCONT), 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 6);
}
END_TEST

/* Nothing stays behind in the temporary folder. */
START_TEST(test_leaves_nothing)
{
    must_run("mkdir '%s/tmp'", test_folder());
    setenv("TMPDIR", in_folder("tmp"), 1);
    struct ran ran = run_words("true", NULL, NULL, NULL, NULL);
    unsetenv("TMPDIR");
    ck_assert_int_eq(ran.status, 0);
    ran_free(&ran);
    must_run("rmdir '%s/tmp'", test_folder());
}
END_TEST

/* Nobody reads the report, or the line that there is none (as in `gleaner run yes 2>&1 | head`): the status is still the program's, and nothing
   stays behind. */
START_TEST(test_closed_stderr)
{
    static const char *const programs[] = {"exit 9", "kill $$", "kill -PIPE $$"};
    static const int signals[] = {0, SIGTERM, SIGPIPE};
    int ends[2], status;
    must_run("mkdir '%s/tmp'", test_folder());
    ck_assert_int_eq(pipe(ends), 0);
    close(ends[0]);
    pid_t child = fork();
    if (!child) {
        setenv("TMPDIR", in_folder("tmp"), 1);
        signal(SIGPIPE, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        execl(command, "gleaner", "run", "sh", "-c", programs[_i], NULL);
        _exit(99);
    }
    close(ends[1]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    if (signals[_i])
        ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == signals[_i]);
    else
        ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 9);
    must_run("rmdir '%s/tmp'", test_folder());
}
END_TEST

/* K, M, G, T are powers of 1024. */
START_TEST(test_sizes)
{
    static const struct {
        const char *text;
        bool good;
        uint64_t bytes;
    } cases[] = {
        {"0", true, 0},
        {"4096", true, 4096},
        {"512K", true, 524288},
        {"512k", true, 524288},
        {"1.5M", true, 1572864},
        {"2GiB", true, 2147483648},
        {"1TB", true, 1099511627776},
        {"7B", true, 7},
        {"18446744073709551615", true, UINT64_MAX},
        {"18446744073709551616", false, 0},
        {"16777216T", false, 0},
        {"", false, 0},
        {"K", false, 0},
        {"-1", false, 0},
        {" 1", false, 0},
        {"1 K", false, 0},
        {"1.5", false, 0},
        {"1.K", false, 0},
        {"0x10", false, 0},
        {"1e6", false, 0},
        {"inf", false, 0},
        {"1KK", false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t bytes = 0;
        ck_assert_msg(parse_size(cases[i].text, &bytes) == cases[i].good, "%s", cases[i].text);
        if (cases[i].good) ck_assert_uint_eq(bytes, cases[i].bytes);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("run");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 120);
    test_folder();
    tcase_add_unchecked_fixture(tests, install, NULL);
    tcase_add_test(tests, test_report_on_stderr);
    tcase_add_test(tests, test_options_end);
    tcase_add_test(tests, test_output);
    tcase_add_test(tests, test_environment);
    tcase_add_test(tests, test_killed);
    tcase_add_test(tests, test_not_started);
    tcase_add_test(tests, test_static_program);
    tcase_add_test(tests, test_leak_options);
    tcase_add_test(tests, test_fail);
    tcase_add_test(tests, test_fail_unknown);
    tcase_add_test(tests, test_usage);
    tcase_add_test(tests, test_signals_are_forwarded);
    tcase_add_test(tests, test_signal_state_is_inherited);
    tcase_add_test(tests, test_stop_and_continue);
    tcase_add_test(tests, test_leaves_nothing);
    tcase_add_loop_test(tests, test_closed_stderr, 0, 3);
    tcase_add_test(tests, test_sizes);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
