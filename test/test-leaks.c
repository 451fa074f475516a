/* test-leaks.c: programs that know which of their blocks are alive, lost or possibly lost, each run under the library: one
   row of a table a run.

      test-leaks PART     places, programs, storms, truth, tools

   The places and programs are run again where the kernel refuses what is new (PAGEMAP_SCAN, userfaultfd), where it refuses the
   snapshot's clone so that marking is done in place, and with every invariant checked after each collection.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TIMEOUT 300 /* seconds; a hang is a failure, slowness is not */
#define TEXT 262144
#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))
#define SKIPPED 77

/* Where the build put things; the tests' definitions in meson say. */
static const char *library, *programs, *stop_programs;

enum refused { NOTHING, NEW_CALLS, SNAPSHOTS };
#define PAGEMAP_SCAN_CALL 0xc0606610u /* _IOWR('f', 16, struct pm_scan_arg), Linux 6.7 */

/* The condition under which a row is run, beside plain ones. */
static const struct condition {
    const char *name, *conf;
    enum refused refused;
} conditions[] = {
    {"plain", "collect:report", NOTHING},
    {"without PAGEMAP_SCAN and userfaultfd", "collect:report", NEW_CALLS},
    {"marked in place", "collect:report", SNAPSHOTS},
    {"verified, every block sampled", "collect:report,verify:yes,sample:all,nursery:64K", NOTHING},
};

/* What a program may say that it misses, if it is really missing. */
enum needs { ALWAYS, X86_64, AVX2, CHILDREN_LISTED };

struct row {
    const char *program, *arguments; /* @ at a word's start: the folder of the programs */
    enum needs needs;
};

struct result {
    int status; /* or minus the signal */
    char out[TEXT];
};

/* The hiding places.  All but the last ones can be known. */
static const struct row places[] = {
    {"global", "", ALWAYS},
    {"epoll", "", ALWAYS},
    {"epoll", "raw", ALWAYS},
    {"timer", "", ALWAYS},
    {"timer", "thread", ALWAYS},
    {"shared-page", "", ALWAYS},
    {"arena", "", ALWAYS},
    {"high-tag", "", ALWAYS},
    {"in-window", "", ALWAYS},
    {"in-window", "tables", ALWAYS},
    {"low-tag", "", ALWAYS},
    {"compressed", "low", ALWAYS},
    {"compressed", "shifted", ALWAYS},
    {"jmp-buf", "rbp", X86_64},
    {"jmp-buf", "rbx", X86_64},
    {"coroutine", "mmap", ALWAYS},
    {"coroutine", "malloc", ALWAYS},
    {"vector", "xmm", X86_64},
    {"vector", "ymm", AVX2},
    {"red-zone", "", X86_64},
    {"thread-key", "", ALWAYS},
    {"atexit-argument", "", ALWAYS},
    {"unjoined", "", ALWAYS},
    {"all-blocked", "", ALWAYS},
    {"raw-clone", "argument", X86_64},
    {"raw-clone", "stack", X86_64},
    {"thread-local", "", ALWAYS},
    {"under-alternate", "", ALWAYS},
    {"past-end", "", ALWAYS},
    {"before-start", "", ALWAYS},
    {"misaligned", "", ALWAYS},
    {"alternate-stack", "", ALWAYS},
    {"unreadable", "", ALWAYS},
    {"putenv", "", ALWAYS},
    {"thread-atexit", "", ALWAYS},
    {"unfrozen", "dont", ALWAYS},
    {"unfrozen", "wipe", ALWAYS},
    {"pipe", "", ALWAYS},
    {"socketpair", "", ALWAYS},
    {"pending-signal", "", ALWAYS},
    {"memfd", "", ALWAYS},
    {"exclusive-or", "", ALWAYS},
};

static const struct row whole_programs[] = {
    {"coroutines", "mmap", ALWAYS},
    {"coroutines", "malloc", ALWAYS},
    {"tls-zoo", "@libtls-zoo-lib.so", ALWAYS},
    {"guard-zoo", "", ALWAYS},
    {"shared-move", "", ALWAYS},
    {"reuse", "", ALWAYS},
    {"close-all", "", ALWAYS},
    {"scatter", "", ALWAYS},
    {"read-into-heap", "", ALWAYS},
    {"hidden-then-freed", "", ALWAYS},
    {"no-pread", "", ALWAYS},
    {"not-dumpable", "", ALWAYS},
    {"unfrozen-always", "", ALWAYS},
    {"retention", "", ALWAYS},
    {"old-words", "", ALWAYS},
    {"flushed", "", ALWAYS},
    {"true-leaks", "", ALWAYS},
    {"holes", "", ALWAYS},
    {"fork-dlopen", "@libgraph-lib.so", ALWAYS},
    {"graph", "plain 1", ALWAYS},
    {"graph", "plain 2", ALWAYS},
    {"graph", "threads 3", ALWAYS},
    {"graph", "fork 4", ALWAYS},
    {"graph", "dlopen 5 @libgraph-lib.so", ALWAYS},
    {"soak", "", ALWAYS},
};

/* Programs made for stops, driven by collections.  0 a second: as often as the program has it. */
static const struct storm {
    const char *program, *arguments;
    int a_second;
} storms[] = {
    {"eintr-matrix", "", 20},
    {"eintr-matrix", "", 100},
    {"own-signals", "", 20},
    {"own-signals", "", 100},
    {"cancel", "", 100},
    {"mask-all", "", 100},
    {"vfork-fifo", "", 0},
    {"vfork-child", "", 0},
    {"inline-calls", "", 0},
    {"spawn-storm", "", 20},
    {"spawn-storm", "", 100},
    {"wait-all", "", 20},
    {"wait-all", "", 100},
    {"setuid-threads", "", 20},
    {"setuid-threads", "", 100},
    {"signal-flood", "", 0},
    {"exec-storm", "", 20},
    {"exec-storm", "", 100},
    {"exit-paths", "return", 100},
    {"exit-paths", "exit", 100},
    {"exit-paths", "quick_exit", 100},
    {"exit-paths", "handler", 100},
    {"exit-paths", "main-thread-first", 100},
    {"tracer", "attach", 0},
    {"tracer", "one", 0},
    {"tracer", "child", 0},
};

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define UNLESS(value, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip)
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, what)

/* For the calling process and what it becomes. */
static void refuse(enum refused what)
{
    static struct sock_filter new_calls[] = {
        LOAD(nr), UNLESS(SYS_userfaultfd, 1), RETURN(SECCOMP_RET_ERRNO | ENOSYS),
        UNLESS(SYS_ioctl, 3), LOAD(args[1]), UNLESS(PAGEMAP_SCAN_CALL, 1),
        RETURN(SECCOMP_RET_ERRNO | ENOTTY), RETURN(SECCOMP_RET_ALLOW)};
    /* clone without CLONE_VM and without a signal at the end: no program does that. */
    static struct sock_filter snapshots[] = {
        LOAD(nr), UNLESS(SYS_clone, 4), LOAD(args[0]), BPF_STMT(BPF_ALU | BPF_AND | BPF_K, CLONE_VM | 0xff),
        UNLESS(0, 1), RETURN(SECCOMP_RET_ERRNO | EAGAIN), RETURN(SECCOMP_RET_ALLOW)};
    struct sock_fprog p = {COUNT(new_calls), new_calls};
    if (what == SNAPSHOTS) p = (struct sock_fprog){COUNT(snapshots), snapshots};
    if (what == NOTHING) return;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p) != 0) _exit(120);
}

static long now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* What the program prints; false when it has not ended in time. */
static bool read_all(int fd, char *to)
{
    size_t n = 0;
    long until = now_ms() + (TIMEOUT - 30) * 1000;
    struct pollfd p = {fd, POLLIN, 0};
    for (;;) {
        long left = until - now_ms();
        char rest[4096];
        if (left <= 0 || (poll(&p, 1, (int)left) == 0)) return false;
        bool room = n < TEXT - 1;
        ssize_t got = read(fd, room ? to + n : rest, room ? TEXT - 1 - n : sizeof rest);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        if (room) n += (size_t)got;
    }
    to[n] = 0;
    return true;
}

/* Children of the program's that outlive it, given time to end: we inherit them as their subreaper. */
static bool nothing_is_left(void)
{
    for (long until = now_ms() + 15000;;) {
        pid_t pid = waitpid(-1, NULL, __WALL | WNOHANG);
        if (pid < 0 && errno == ECHILD) return true;
        if (pid == 0 && now_ms() > until) return false;
        if (pid == 0) usleep(2000);
    }
}

static void run(char *const *argv, char *const *environment, enum refused refused, struct result *r)
{
    int out[2], status;
    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    ck_assert_int_eq(pipe2(out, O_CLOEXEC), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        setpgid(0, 0);
        dup2(out[1], 1);
        dup2(out[1], 2);
        refuse(refused);
        execve(argv[0], argv, environment);
        _exit(121);
    }
    close(out[1]);
    bool in_time = read_all(out[0], r->out);
    if (!in_time) kill(-pid, SIGKILL);
    close(out[0]);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    r->status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    ck_assert_msg(in_time, "%s %s: hangs", argv[0], argv[1] ? argv[1] : "");
    ck_assert_msg(nothing_is_left(), "%s %s: a child is left", argv[0], argv[1] ? argv[1] : "");
}

static void run_program(const char *folder, const char *program, const char *arguments, const char *conf,
                        const char *variable, enum refused refused, struct result *r)
{
    char *argv[16], *environment[8], *words = strdup(arguments);
    int count = 0, variables = 0;
    ck_assert_int_gt(asprintf(&argv[count++], "%s/%s", folder, program), 0);
    for (char *word = strtok(words, " "); word && count < 15; word = strtok(NULL, " ")) {
        if (word[0] == '@') {
            ck_assert_int_gt(asprintf(&argv[count++], "%s/%s", programs, word + 1), 0);
        } else {
            argv[count++] = word;
        }
    }
    argv[count] = NULL;
    environment[variables++] = strdup("PATH=/usr/bin:/bin");
    if (library) ck_assert_int_gt(asprintf(&environment[variables++], "LD_PRELOAD=%s", library), 0);
    if (conf) ck_assert_int_gt(asprintf(&environment[variables++], "GLEANER_CONF=%s", conf), 0);
    if (variable) environment[variables++] = strdup(variable);
    environment[variables] = NULL;
    run(argv, environment, refused, r);
}

static bool file_says(const char *path, const char *word)
{
    char line[8192];
    FILE *f = fopen(path, "re");
    bool found = false;
    while (f && !found && fgets(line, sizeof line, f)) found = strstr(line, word) != NULL;
    if (f) fclose(f);
    return found;
}

static bool is_there(enum needs what)
{
    char path[64];
    switch (what) {
    case X86_64:
#ifdef __x86_64__
        return true;
#else
        return false;
#endif
    case AVX2:
        return file_says("/proc/cpuinfo", " avx2 ");
    case CHILDREN_LISTED:
        snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
        return access(path, R_OK) == 0;
    default:
        return true;
    }
}

static void check_row(const struct row *row, const struct condition *c)
{
    static struct result r;
    run_program(programs, row->program, row->arguments, c->conf, NULL, c->refused, &r);
    if (r.status == SKIPPED && !is_there(row->needs)) {
        printf("%s %s, %s: %s", row->program, row->arguments, c->name, r.out);
        return;
    }
    ck_assert_msg(r.status == 0, "%s %s, %s: status %d: %.2000s", row->program, row->arguments, c->name, r.status, r.out);
}

START_TEST(place)
{
    check_row(&places[_i % COUNT(places)], &conditions[_i / COUNT(places)]);
}
END_TEST

START_TEST(whole_program)
{
    const struct condition *c = &conditions[_i / COUNT(whole_programs)];
    struct row row = whole_programs[_i % COUNT(whole_programs)];
    /* Without PAGEMAP_SCAN a look at 16 TiB of nothing takes seconds. */
    if (c->refused == NEW_CALLS && strcmp(row.program, "guard-zoo") == 0) row.arguments = "1";
    check_row(&row, c);
}
END_TEST

/* Each process has its blocks elsewhere.  (With blocks of 16 MiB a chance hit would come in one of some 200.) */
#define LARGE_ROW_RUNS 27
START_TEST(large_row)
{
    static const char *const who[] = {"main", "thread", "ended"}, *const kib[] = {"64", "200", "1024"};
    char arguments[64];
    snprintf(arguments, sizeof arguments, "%s %s", who[_i % 3], kib[_i / 3 % 3]);
    check_row(&(struct row){"large-row", arguments, ALWAYS}, &conditions[0]);
}
END_TEST

/* Only a snapshot has a child to hold up. */
START_TEST(end_of_pipe)
{
    static const struct row row = {"end-of-pipe", "", CHILDREN_LISTED};
    check_row(&row, &conditions[0]);
}
END_TEST

START_TEST(storm)
{
    static struct result r;
    const struct storm *s = &storms[_i];
    char program[64], variable[64];
    snprintf(program, sizeof program, "stop-%s", s->program);
    snprintf(variable, sizeof variable, "STOPS_A_SECOND=%d", s->a_second);
    run_program(stop_programs, program, s->arguments, "collect:report", s->a_second ? variable : NULL, NOTHING, &r);
    ck_assert_msg(r.status == 0, "%s %s, %d a second: status %d: %.2000s", s->program, s->arguments, s->a_second, r.status,
                  r.out);
}
END_TEST

/* The verdict that waits when a dump has looked for lost blocks itself. */
START_TEST(superseded)
{
    static struct result r;
    run_program(stop_programs, "stop-superseded", "", "collect:report,leaks:every=200ms,log:gc", NULL, NOTHING, &r);
    ck_assert_msg(r.status == 0, "status %d: %.4000s", r.status, r.out);
    ck_assert_msg(strstr(r.out, "a dump looked for lost blocks meanwhile"), "%.4000s", r.out);
}
END_TEST

/* Sums of `Direct leak of N byte(s) in M object(s)` and the like. */
static void sum_leaks(const char *text, const char *kind, long *bytes, long *blocks)
{
    char start[64];
    snprintf(start, sizeof start, "\n%s leak of ", kind);
    *bytes = *blocks = 0;
    for (const char *p = text; (p = strstr(p, start)) != NULL;) {
        long b, n;
        p += strlen(start);
        ck_assert_int_eq(sscanf(p, "%ld byte(s) in %ld object(s)", &b, &n), 2);
        *bytes += b;
        *blocks += n;
    }
}

static bool near(long found, long want)
{
    return found <= want && found >= want - want / 100;
}

/* LeakSanitizer's list of the same program: it calls every member of a cycle indirect, we call one of them its head. */
START_TEST(same_as_leak_sanitizer)
{
    static struct result ours, theirs;
    char path[4096];
    const char *with = library;
    snprintf(path, sizeof path, "%s/true-leaks-sanitized", programs);
    if (access(path, X_OK) != 0) return; /* the compiler has none */
    run_program(programs, "true-leaks", "", "collect:report", NULL, NOTHING, &ours);
    ck_assert_msg(ours.status == 0, "status %d: %.2000s", ours.status, ours.out);
    library = NULL;
    run_program(programs, "true-leaks-sanitized", "", NULL, "LSAN_OPTIONS=exitcode=0", NOTHING, &theirs);
    library = with;
    ck_assert_msg(theirs.status == 0, "status %d: %.2000s", theirs.status, theirs.out);

    long heads, cycles, others, asked, direct, indirect, their_direct, their_indirect, their_bytes, more;
    ck_assert_int_eq(sscanf(ours.out, "lost: heads %ld cycles %ld others %ld bytes %ld found: direct %ld indirect %ld", &heads,
                            &cycles, &others, &asked, &direct, &indirect),
                     6);
    sum_leaks(theirs.out, "Direct", &their_bytes, &their_direct);
    sum_leaks(theirs.out, "Indirect", &more, &their_indirect);
    their_bytes += more;
    ck_assert_msg(near(their_direct, heads) && near(their_indirect, others + cycles) && near(their_bytes, asked),
                  "LeakSanitizer has %ld direct, %ld indirect, %ld bytes", their_direct, their_indirect, their_bytes);
    ck_assert_msg(near(direct, their_direct + cycles) && near(indirect, their_indirect - cycles),
                  "%ld direct and %ld indirect; LeakSanitizer has %ld and %ld, and %ld cycles", direct, indirect,
                  their_direct, their_indirect, cycles);
}
END_TEST

/* Under other tools the program says what it says alone. */
static char preload_variable[4096], gdb_command[4096];
static const struct tool {
    char *argv[16];  /* the program follows */
    bool by_our_own; /* what gets LD_PRELOAD is the tool itself */
    const char *not; /* may not be in the output, or NULL */
} tools[] = {
    {{"/usr/bin/gdb", "-batch", "-nx", "-ex", "set startup-with-shell off", "-ex", gdb_command, "-ex", "run", "--args"},
     false,
     "received signal"},
    {{"/usr/bin/strace", "-f", "-o", "/dev/null", "-E", preload_variable}, false, NULL},
    {{"/usr/bin/valgrind", "-q", "--tool=none"}, true, NULL},
    {{"/usr/bin/valgrind", "-q", "--error-exitcode=9"}, true, NULL},
};

START_TEST(tool)
{
    static struct result alone, r;
    const struct tool *t = &tools[_i];
    const char *with = library;
    char *argv[20] = {NULL}, path[4096];
    char *environment[] = {"PATH=/usr/bin:/bin", "GLEANER_CONF=collect:report", NULL, NULL};
    int count = 0;
    if (access(t->argv[0], X_OK) != 0) return; /* not on this machine */
    library = NULL;
    run_program(programs, "smoke", "", NULL, NULL, NOTHING, &alone);
    library = with;
    snprintf(preload_variable, sizeof preload_variable, "LD_PRELOAD=%s", library);
    snprintf(gdb_command, sizeof gdb_command, "set environment LD_PRELOAD %s", library);
    snprintf(path, sizeof path, "%s/smoke", programs);
    for (; t->argv[count]; count++) argv[count] = t->argv[count];
    argv[count] = path;
    if (t->by_our_own) environment[2] = preload_variable;
    run(argv, environment, NOTHING, &r);
    ck_assert_msg(r.status == 0 && strstr(r.out, alone.out), "%s: status %d: %.2000s", t->argv[0], r.status, r.out);
    ck_assert_msg(!t->not|| !strstr(r.out, t->not), "%s: %.2000s", t->argv[0], r.out);
}
END_TEST

/* How many of our signals strace sees a program get. */
static int signals(const char *program, const char *arguments, const char *conf)
{
    static struct result r;
    char preload[4096], key[256], path[4096], last[64];
    char *argv[] = {"/usr/bin/strace", "-f",    "-qq", "-e", "trace=none", "-e", "signal=all", "-E",
                    preload,           "-E",    key,   path, last,         NULL};
    char *environment[] = {"PATH=/usr/bin:/bin", NULL};
    int n = 0;
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", library);
    snprintf(key, sizeof key, "GLEANER_CONF=%s", conf);
    snprintf(path, sizeof path, "%s/%s", programs, program);
    snprintf(last, sizeof last, "%s", arguments);
    run(argv, environment, NOTHING, &r);
    ck_assert_msg(r.status == 0, "%s: status %d: %.2000s", conf, r.status, r.out);
    for (const char *p = r.out; (p = strstr(p, "SIGRT_1 {")) != NULL; p++) n++;
    return n;
}

/* While nobody has asked for collections, no thread gets a signal. */
START_TEST(no_signal_unless_asked)
{
    if (access("/usr/bin/strace", X_OK) != 0) return;
    ck_assert_int_eq(signals("quiet", "", ""), 0);
    ck_assert_int_gt(signals("quiet", "collect", "collect:report"), 0);
}
END_TEST

static void add(Suite *suite, const char *name, const TTest *test, int rows)
{
    TCase *tests = tcase_create(name);
    tcase_set_timeout(tests, TIMEOUT);
    tcase_add_loop_test(tests, test, 0, rows);
    suite_add_tcase(suite, tests);
}

int main(int argc, char **argv)
{
    const char *part = argc > 1 ? argv[1] : "";
    library = getenv("GLEANER_TEST_LIBRARY");
    programs = getenv("GLEANER_TEST_PROGRAMS");
    stop_programs = getenv("GLEANER_TEST_STOP_PROGRAMS");
    if (!library || !programs || !stop_programs) return 77;
    Suite *suite = suite_create("leaks");
    if (strcmp(part, "places") == 0) {
        add(suite, "places", place, COUNT(places) * COUNT(conditions));
    } else if (strcmp(part, "programs") == 0) {
        add(suite, "programs", whole_program, COUNT(whole_programs) * COUNT(conditions));
        add(suite, "superseded", superseded, 3);
        add(suite, "large row", large_row, LARGE_ROW_RUNS);
        add(suite, "end of pipe", end_of_pipe, 1);
    } else if (strcmp(part, "storms") == 0) {
        add(suite, "storms", storm, COUNT(storms));
    } else if (strcmp(part, "truth") == 0) {
        add(suite, "truth", same_as_leak_sanitizer, 1);
    } else if (strcmp(part, "tools") == 0) {
        add(suite, "tools", tool, COUNT(tools));
        add(suite, "signals", no_signal_unless_asked, 1);
    } else {
        return 2;
    }
    return suite_run(suite);
}
