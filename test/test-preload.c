/* test-preload.c: whole programs under the library: one row of a table a run.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define TIMEOUT 240 /* seconds; a hang is a failure, slowness is not */
#define TEXT 65536

/* Where the build put things; the test's definition in meson says. */
static const char *library, *programs;

struct run {
    const char *name;        /* what the row shows */
    const char *program;     /* in the folder of test programs, or a path */
    const char *arguments;   /* separated by blanks; @ at a word's start: that folder */
    const char *conf;        /* GLEANER_CONF, or NULL */
    const char *environment; /* one more variable, or NULL */
    int status;              /* exit status, or minus the signal */
    const char *out;         /* must be in stdout, or NULL */
    const char *err;         /* must be in stderr; NULL: stderr must be empty; "": not looked at */
};

struct result {
    int status;
    char out[TEXT], err[TEXT];
};

static char folder[] = "/tmp/gleaner-test-XXXXXX"; /* the working folder of every run */

static void make_folder(void)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void drop_folder(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
    strcpy(folder, "/tmp/gleaner-test-XXXXXX");
}

static char *path_of(const char *name)
{
    char *path;
    if (strchr(name, '/')) return strdup(name);
    ck_assert_int_gt(asprintf(&path, "%s/%s", programs, name), 0);
    return path;
}

static void read_both(int out, int err, struct result *r)
{
    struct pollfd fds[2] = {{out, POLLIN, 0}, {err, POLLIN, 0}};
    size_t n[2] = {0, 0};
    char *to[2] = {r->out, r->err};
    while (fds[0].fd >= 0 || fds[1].fd >= 0) {
        ck_assert(poll(fds, 2, -1) > 0 || errno == EINTR);
        for (int i = 0; i < 2; i++) {
            if (fds[i].fd < 0 || !fds[i].revents) continue;
            char buffer[4096];
            ssize_t got = read(fds[i].fd, buffer, sizeof buffer);
            if (got <= 0) {
                close(fds[i].fd);
                fds[i].fd = -1;
                continue;
            }
            size_t keep = n[i] + (size_t)got < TEXT ? (size_t)got : TEXT - 1 - n[i];
            memcpy(to[i] + n[i], buffer, keep);
            n[i] += keep;
        }
    }
    r->out[n[0]] = r->err[n[1]] = 0;
}

static void run_program(const struct run *run, struct result *r)
{
    char *arguments[16], *environment[8], *words = strdup(run->arguments ? run->arguments : "");
    int count = 0, variables = 0, out[2], err[2];
    char *path = path_of(run->program);
    arguments[count++] = path;
    for (char *word = strtok(words, " "); word && count < 15; word = strtok(NULL, " "))
        arguments[count++] = word[0] == '@' ? path_of(word + 1) : word;
    arguments[count] = NULL;
    ck_assert_int_gt(asprintf(&environment[variables++], "LD_PRELOAD=%s", library), 0);
    environment[variables++] = strdup("PATH=/usr/bin:/bin");
    if (run->conf)
        ck_assert_int_gt(asprintf(&environment[variables++], "GLEANER_CONF=%s", run->conf), 0);
    if (run->environment) environment[variables++] = strdup(run->environment);
    environment[variables] = NULL;
    ck_assert_int_eq(pipe2(out, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(err, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(out[1], 1);
        dup2(err[1], 2);
        if (chdir(folder) != 0) _exit(120);
        alarm(TIMEOUT - 10);
        execve(path, arguments, environment);
        _exit(121);
    }
    ck_assert_int_gt(pid, 0);
    close(out[1]);
    close(err[1]);
    read_both(out[0], err[0], r);
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    r->status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    free(words);
}

static const struct run runs[] = {
    /* The family and its promises. */
    {"semantics", "semantics", NULL, NULL, NULL, 0, "all hold", NULL},
    {"stacks, every block sampled", "stacks-every", NULL, "sample:all,abort:no", NULL, 0, "2880 stacks", NULL},
    {"semantics, every block sampled", "semantics", NULL, "sample:all", NULL, 0, "all hold", NULL},
    {"one thread", "churn", "1", NULL, NULL, 0, "all whole", NULL},
    {"threads", "churn", "6", NULL, NULL, 0, "all whole", NULL},
    {"threads, every block sampled", "churn", "3", "sample:all", NULL, 0, "all whole", NULL},
    {"thread exit", "thread-exit", NULL, NULL, NULL, 0, "no growth", NULL},
    {"fork and stdio", "fork-stdio", NULL, NULL, NULL, 0, "all came back", NULL},
    {"forks", "forks", NULL, NULL, NULL, 0, "all came back", NULL},
    {"forks without handlers", "forks", "raw", NULL, NULL, 0, "all came back", NULL},
    {"forks, every block sampled", "forks", NULL, "sample:all", NULL, 0, "all came back", NULL},
    {"seccomp filter", "sandbox", NULL, NULL, NULL, 0, "shut in", NULL},
    {"seccomp filter, every block sampled", "sandbox", NULL, "sample:all", NULL, 0, "shut in", NULL},
    {"seccomp filter, leaks and a profile", "sandbox", NULL, "sample:all,leaks:every=20ms,collect:report,nursery:64K,exit:profile", NULL, 0,
     "shut in", NULL},
    {"seccomp filter by seccomp, reclaim", "sandbox", "call", "collect:reclaim,reclaim_delay:0,leaks:every=20ms,interval:20ms", NULL, 0, "shut in", NULL},
    {"seccomp filter, a line", "sandbox", "worker", "leaks:every=20ms,collect:report,exit:profile,exit_code:9", NULL, 9, "shut in",
     "a seccomp filter of its own would kill it"},
    {"seccomp filter that spares us", "sandbox", "wide", "leaks:every=20ms,collect:report,exit:report,exit_code:9", NULL, 0, "shut in", "nothing lost"},
    {"seccomp filter that divides by 0", "sandbox", "divides", "leaks:every=20ms,collect:report,nursery:64K", NULL, 0, "shut in", NULL},
    {"seccomp filter that shifts by 32", "sandbox", "shifts", "leaks:every=20ms,collect:report,nursery:64K", NULL, 0, "shut in", NULL},
    {"threads behind a seccomp filter", "sandbox-threads", NULL, NULL, NULL, 0, "lived", NULL},
    {"threads behind a seccomp filter, all that there is", "sandbox-threads", NULL,
     "sample:all,collect:reclaim,reclaim_delay:0,nursery:64K,leaks:every=20ms,exit:profile", NULL, 0, "lived", NULL},
    {"a seccomp filter for each thread", "sandbox-threads", "each", "sample:all,leaks:every=1ms,collect:report,exit:report", NULL, 0, "lived",
     "nothing lost"},
    {"seccomp filters that are refused", "sandbox-each", "bad pointers", "leaks:every=20ms,collect:report,exit:report", NULL, 0, "refused", "SUMMARY: Gleaner: "},
    {"phases under a limit", "limit-phases", NULL, NULL, NULL, 0, "had its memory", NULL},
    {"small limit", "small-limit", NULL, NULL, NULL, 0, "limits mean", NULL},
    {"before and after everything", "early", "@libplugin-lib.so", NULL, NULL, 0, "destructor ran",
     NULL},

    /* C++. */
    {"operators", "operators", NULL, NULL, NULL, 0, "all hold", NULL},
    {"operators, every block sampled", "operators", NULL, "sample:all", NULL, 0, "all hold", NULL},
    {"a plugin's runtime", "plugin", "@libplugin-lib.so", NULL, NULL, 0, "caught", NULL},
    {"no runtime", "no-runtime", NULL, NULL, NULL, -SIGABRT, "null first",
     "gleaner: operator new: out of memory"},

    /* Other allocators. */
    {"deepbind", "deepbind", "@libdeepbind-lib.so", NULL, NULL, 0, "crossed", NULL},
    {"deepbind, malloc's address the program's", "deepbind-fixed", "@libdeepbind-lib.so", NULL, NULL, 0, "crossed", NULL},
    {"executable with a clock", "own-clock", NULL, "leaks:every=20ms,collect:report,nursery:64K", NULL, 0, "nobody asked", NULL},
    {"executable with a clock, every block sampled", "own-clock", NULL, "sample:all", NULL, 0, "nobody asked", NULL},
    {"an alternate stack that is refused", "alternate-arguments", NULL, NULL, NULL, 0, "as the kernel says", NULL},
    {"threads that share an alternate stack", "shared-alternate", NULL, "collect:report,nursery:1M", NULL, 0, "each itself", NULL},
    {"executable with malloc", "own-malloc", NULL, NULL, NULL, 0, "mixed", NULL},
    {"its header", "api", "there", NULL, NULL, 0, "live", NULL},
    {"static", "static", NULL, "exit:report", NULL, 0, "static", NULL},

    /* Misuse. */
    {"double free", "misuse", "double", NULL, NULL, -SIGABRT, NULL, "gleaner: double free of 0x"},
    {"double free, medium", "misuse", "double-medium", NULL, NULL, -SIGABRT, NULL,
     "gleaner: double free of 0x"},
    {"double free, large", "misuse", "double-large", NULL, NULL, -SIGABRT, NULL,
     "gleaner: double free of 0x"},
    {"free inside a block", "misuse", "interior", NULL, NULL, -SIGABRT, NULL,
     "(16 bytes into the block of 112 bytes at 0x"},
    {"free inside a large block", "misuse", "interior-large", NULL, NULL, -SIGABRT, NULL,
     "(4096 bytes into the block of 1048576 bytes at 0x"},
    {"misaligned", "misuse", "misaligned", NULL, NULL, -SIGABRT, NULL,
     "(1 bytes into the block of 112 bytes at 0x"},
    {"stack", "misuse", "stack", NULL, NULL, -SIGABRT, NULL, "gleaner: invalid free of 0x"},
    {"static data", "misuse", "static", NULL, NULL, -SIGABRT, NULL, "gleaner: invalid free of 0x"},
    {"text", "misuse", "text", NULL, NULL, -SIGABRT, NULL, "gleaner: invalid free of 0x"},
    {"small number", "misuse", "small-number", NULL, NULL, -SIGABRT, NULL,
     "free of 0x30 (no block"},
    {"realloc of static data", "misuse", "realloc-static", NULL, NULL, -SIGABRT, NULL,
     "gleaner: invalid free of 0x"},
    {"realloc of a freed block", "misuse", "realloc-freed", NULL, NULL, -SIGABRT, NULL,
     "gleaner: double free of 0x"},
    {"the block's stack", "misuse", "interior", "sample:all", NULL, -SIGABRT, NULL,
     "the block was allocated here:\n    #0 0x"},
    {"abort:no, double", "misuse", "double", "abort:no", NULL, 0, "went on",
     "gleaner: double free"},
    {"abort:no, double large", "misuse", "double-large", "abort:no", NULL, 0, "went on",
     "gleaner: double free"},
    {"abort:no, interior", "misuse", "interior", "abort:no", NULL, 0, "went on",
     "gleaner: invalid"},
    {"abort:no, stack", "misuse", "stack", "abort:no", NULL, 0, "went on", "gleaner: invalid free"},
    {"abort:no, static", "misuse", "static", "abort:no", NULL, 0, "went on",
     "gleaner: invalid free"},
    {"abort:no, realloc", "misuse", "realloc-static", "abort:no", NULL, 0, "went on",
     "gleaner: invalid free"},

    /* Configuration. */
    {"unknown key", "ends", "return", "colour:blue", NULL, 7, NULL,
     "gleaner: GLEANER_CONF: unknown key 'colour'"},
    {"bad value", "ends", "return", "depth:0,sample=8M", NULL, 7, NULL,
     "bad value '0' for depth; skipped (right: 1 to 256)"},
    {"no value", "ends", "return", "report", NULL, 7, NULL, "'report' is not key:value"},
    {"the collector's keys", "ends", "return",
     "leaks:every=30s,collect:report,nursery:4M,exit_code:3", NULL, 7, NULL, NULL},
    {"log of collections", "ends", "return", "leaks:every=30s,log:gc", NULL, 7, NULL,
     "gleaner: collection 1 major (exit"},
    {"tracked memory", "tracked", NULL, "collect:report,nursery:1M,remember:track", NULL, 0, "all there", NULL},
    {"tracked memory, threads", "tracked", "3", "collect:report,nursery:1M,remember:track", NULL, 0, "all there", NULL},
    {"swept memory, threads", "tracked", "3", "collect:report,nursery:1M,remember:sweep", NULL, 0, "all there", NULL},
    {"later issues' keys", "ends", "return", "reclaim_delay:0", NULL, 7, NULL, NULL},

    /* Ways out with a report that was asked for, and without. */
    {"return, quiet", "ends", "return", NULL, NULL, 7, NULL, NULL},
    {"quick_exit, quiet", "ends", "quick_exit", NULL, NULL, 7, "handler ran", NULL},
    {"return, report", "ends", "return", "exit:report", NULL, 7, NULL, "live in"},
    {"return, report with stacks", "ends", "return", "exit:report,sample:all", NULL, 7, NULL,
     "in 1 blocks of 1024 bytes allocated from:\n    #0 0x"},
    {"return, report with names of exported functions", "ends", "return", "exit:report,sample:all", NULL, 7, NULL, " in __libc_start_main (/"},
    {"exit, report", "ends", "exit", "exit:report", NULL, 7, "handler ran", "live in"},
    {"_exit, report", "ends", "_exit", "exit:report", NULL, 7, NULL, "live in"},
    {"_Exit, report", "ends", "_Exit", "exit:report", NULL, 7, NULL, "live in"},
    {"quick_exit, report", "ends", "quick_exit", "exit:report", NULL, 7, "handler ran", "live in"},
    {"exit in a thread", "ends", "thread-exit", "exit:report", NULL, 7, NULL, "live in"},
    {"_exit in a thread", "ends", "thread-_exit", "exit:report", NULL, 7, NULL, "live in"},
    {"a program that closes its stderr", "/bin/echo", "hello", "exit:report", NULL, 0, "hello",
     "live in"},
    {"no descriptor left", "ends", "closed", "exit:both", NULL, 7, NULL, NULL},
    {"unwritable folder", "ends", "return", "exit:profile,output:/proc/none/x.%p", NULL, 7, NULL,
     "gleaner: no profile written to /proc/none/x."},
};

static bool found(const char *text, const char *part)
{
    return !part || strstr(text, part);
}

START_TEST(runs_under_gleaner)
{
    const struct run *run = &runs[_i];
    static struct result r;
    run_program(run, &r);
    ck_assert_msg(r.status == run->status, "%s: status %d, not %d\nout: %.800s\nerr: %.2000s",
                  run->name, r.status, run->status, r.out, r.err);
    ck_assert_msg(found(r.out, run->out), "%s: no '%s' in: %.800s", run->name, run->out, r.out);
    if (!run->err)
        ck_assert_msg(r.err[0] == 0, "%s: stderr: %.2000s", run->name, r.err);
    else
        ck_assert_msg(found(r.err, run->err), "%s: no '%s' in: %.2000s", run->name, run->err,
                      r.err);
}
END_TEST

/* What the library writes itself raises no signal: stderr is a pipe that nobody reads, or a file at the limit on the size of
   files, as is a log. */
static const struct quiet {
    const char *name, *conf;
    bool limit; /* else: a pipe */
    rlim_t bytes;
} quiet[] = {
    {"a limit of nothing", "", true, 0},
    {"a limit of nothing, collections", "leaks:exit,exit_code:3,verify:yes", true, 0},
    {"a limit, a log", "leaks:exit,log:gc=full", true, 4096},
    {"a limit, a log on stderr", "leaks:exit,log:gc", true, 4096},
    {"a limit, a report", "sample:all,leaks:exit,exit:report", true, 4096},
    {"a limit, a wrong key", "colour:blue", true, 4096},
    {"a limit, a profile", "sample:all,exit:profile,output:one", true, 0},
    {"no reader, a log", "leaks:exit,log:gc", false, 0},
    {"no reader, a report", "sample:all,leaks:exit,exit:report", false, 0},
    {"no reader, a wrong key", "colour:blue", false, 0},
};

START_TEST(raises_nothing)
{
    const struct quiet *q = &quiet[_i];
    char *path = path_of("ends"), *preload, *conf;
    int err[2];
    ck_assert_int_gt(asprintf(&preload, "LD_PRELOAD=%s", library), 0);
    ck_assert_int_gt(asprintf(&conf, "GLEANER_CONF=%s", q->conf), 0);
    ck_assert_int_eq(pipe2(err, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        static const char full[8192];
        close(err[0]);
        if (chdir(folder) != 0) _exit(120);
        int fd = open("full", O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (fd < 0 || write(fd, full, sizeof full) != (ssize_t)sizeof full) _exit(122);
        dup2(q->limit ? fd : err[1], 2);
        if (q->limit && setrlimit(RLIMIT_FSIZE, &(struct rlimit){q->bytes, q->bytes}) != 0) _exit(123);
        alarm(TIMEOUT - 10);
        execve(path, (char *[]){path, (char *)"return", NULL}, (char *[]){preload, conf, NULL});
        _exit(121);
    }
    close(err[0]);
    close(err[1]);
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 7, "%s: status %x", q->name, (unsigned)status);
    free(path);
    free(preload);
    free(conf);
}
END_TEST

/* Sanitizers: ours is preloaded before theirs, and theirs must still find the fault. */

static const struct run sanitized[] = {
    {"address, quiet", "sanitized-address", NULL, NULL,
     "ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0", 0, "done", "carries AddressSanitizer"},
    {"address, fault", "sanitized-address", "use-after-free", NULL,
     "ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0:exitcode=55", 55, NULL,
     "heap-use-after-free"},
    {"thread, quiet", "sanitized-thread", NULL, NULL, NULL, 0, "done", "carries ThreadSanitizer"},
    {"thread, fault", "sanitized-thread", "race", NULL, "TSAN_OPTIONS=exitcode=55", 55, NULL,
     "data race"},
    {"leak, quiet", "sanitized-leak", NULL, NULL, "LSAN_OPTIONS=detect_leaks=0", 0, "done",
     "carries LeakSanitizer"},
    {"leak, fault", "sanitized-leak", "leak", NULL, "LSAN_OPTIONS=exitcode=55", 55, NULL,
     "Direct leak of 1234 byte(s)"},
};

START_TEST(passes_through)
{
    const struct run *run = &sanitized[_i];
    static struct result r;
    char *path = path_of(run->program);
    if (access(path, X_OK) != 0) return; /* not built: the compiler has none */
    run_program(run, &r);
    ck_assert_msg(r.status == run->status, "%s: status %d, not %d\nout: %.800s\nerr: %.2000s",
                  run->name, r.status, run->status, r.out, r.err);
    ck_assert_msg(found(r.out, run->out), "%s: no '%s' in: %.800s", run->name, run->out, r.out);
    ck_assert_msg(found(r.err, run->err), "%s: no '%s' in: %.2000s", run->name, run->err, r.err);
}
END_TEST

/* Profiles: how many files a way out leaves, and under which names. */

static int files_with(const char *pattern)
{
    char command[256], text[32];
    snprintf(command, sizeof command, "ls -A %s | grep -cE '%s'", folder, pattern);
    FILE *f = popen(command, "r");
    ck_assert_ptr_nonnull(f);
    ck_assert_ptr_nonnull(fgets(text, sizeof text, f));
    pclose(f);
    return atoi(text);
}

static const struct {
    const char *how, *conf, *pattern;
    int files; /* that match; none other may be there; negative: at least so many */
} endings[] = {
    {"return", "exit:profile,output:p", "^p$", 1},
    {"exit", "exit:profile,output:p", "^p$", 1},
    {"_exit", "exit:profile,output:p", "^p$", 1},
    {"_Exit", "exit:profile,output:p", "^p$", 1},
    {"quick_exit", "exit:profile,output:p", "^p$", 1},
    {"thread-exit", "exit:profile,output:p", "^p$", 1},
    {"vfork", "exit:profile,output:p.%n", "^p.1$", 1},
    {"vfork", "exit:profile,output:%e.%p.%n", "^ends.[0-9]+.1$", 1},
    {"fork", "exit:profile,output:p", "^p(.[0-9]+)?$", 2},
    {"fork", "exit:profile,output:p.%p", "^p.[0-9]+$", 2},
    {"_Fork", "exit:profile,output:p", "^p(.[0-9]+)?$", 2},
    {"fork", "exit:profile,output:p,follow:no", "^p$", 1},
    {"spawn", "exit:profile,output:p", "^p(.[0-9]+)?$", 2},
    {"spawn", "exit:profile,output:p,follow:no", "^p$", 1},
    {"signal", "signal:USR2,output:p.%n", "^p.1$", 1},
    {"signal", "signal:12,exit:profile,output:p.%n", "^p.[12]$", 2},
    {"interval", "interval:50ms,output:p.%n", "^p.[0-9]+$", -2},
    {"return", NULL, "none", 0},
    {"return", "exit:report", "none", 0},
    {"return", "output:p", "none", 0},
};

START_TEST(profiles_at_the_end)
{
    static struct result r;
    struct run run = {"", "ends", endings[_i].how, endings[_i].conf, NULL, 7, NULL, NULL};
    run_program(&run, &r);
    ck_assert_msg(r.status == 7, "%s: status %d: %s", run.arguments, r.status, r.err);
    int there = files_with(endings[_i].pattern);
    if (endings[_i].files < 0)
        ck_assert_int_ge(there, -endings[_i].files);
    else
        ck_assert_int_eq(there, endings[_i].files);
    ck_assert_int_eq(files_with(""), there);
}
END_TEST

/* A fatal signal writes nothing and stays what it was. */
START_TEST(killed)
{
    static struct result r;
    struct run run = {"", "ends", "kill", "exit:both,output:p", NULL, -SIGKILL, NULL, NULL};
    run_program(&run, &r);
    ck_assert_int_eq(r.status, -SIGKILL);
    ck_assert_int_eq(files_with(""), 0);
}
END_TEST

/* Every process of a tree that `gleaner run` started writes a file of its own; the one whose number
   the variable holds has the plain name. */
START_TEST(first_by_variable)
{
    static struct result r;
    struct run run = {
        "", "/bin/sh", "-c true;true", "exit:profile,output:p", "GLEANER_FIRST=1", 0, NULL, NULL};
    run_program(&run, &r);
    ck_assert_int_eq(files_with("^p$"), 0);
    ck_assert_int_ge(files_with("^p.[0-9]+$"), 1);
}
END_TEST

/* The list says what is exported, and why. */
START_TEST(exports_are_listed)
{
    char command[2048];
    snprintf(command, sizeof command,
             "cd %s && nm -D --defined-only %s | awk '{print $NF}' | sort > exported && "
             "grep -v '^#' %s | cut -f1 | sort > listed && diff exported listed && "
             "! grep -v '^#' %s | grep -vP '^[^\\t]+\\t[^\\t]+$' && test $(wc -l < listed) -ge 49",
             folder, library, getenv("GLEANER_TEST_LIST"), getenv("GLEANER_TEST_LIST"));
    ck_assert_int_eq(system(command), 0);
}
END_TEST

/* Nothing but libc is needed. */
START_TEST(needs_only_libc)
{
    char command[1024];
    snprintf(command, sizeof command,
             "test -z \"$(readelf -d %s | grep NEEDED | grep -vE "
             "'\\[(libc\\.so\\.6|ld-linux[^]]*)\\]')\"",
             library);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

int main(void)
{
    library = getenv("GLEANER_TEST_LIBRARY");
    programs = getenv("GLEANER_TEST_PROGRAMS");
    if (!library || !programs || !getenv("GLEANER_TEST_LIST")) return 77;
    Suite *suite = suite_create("preload");
    TCase *tests = tcase_create("programs");
    tcase_set_timeout(tests, TIMEOUT);
    tcase_add_checked_fixture(tests, make_folder, drop_folder);
    tcase_add_loop_test(tests, runs_under_gleaner, 0, COUNT(runs));
    tcase_add_loop_test(tests, raises_nothing, 0, COUNT(quiet));
    tcase_add_loop_test(tests, passes_through, 0, COUNT(sanitized));
    tcase_add_loop_test(tests, profiles_at_the_end, 0, COUNT(endings));
    tcase_add_test(tests, killed);
    tcase_add_test(tests, first_by_variable);
    tcase_add_test(tests, exports_are_listed);
    tcase_add_test(tests, needs_only_libc);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
