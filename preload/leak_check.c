/* leak_check.c: see leak_check.h.

   1. Data.  What the configuration says is copied at start (the environment may be overwritten by the program later); files are read
      and the program's hooks are called when the first check needs them, as LeakSanitizer does it: a process that never
      checks does not complain of a file that it never reads.
   2. Synchronisation.  `busy` holds the number of the thread that checks.  A thread that is gone (the lock was copied by a fork)
      loses it to the next.  A check inside a check, from a hook of the program or a signal handler, is refused.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/leak_check.h"
#include "heap/os.h"
#include "heap/print.h"
#include "heap/syscall.h"
#include "preload/collection.h"
#include "preload/dead_stack.h"
#include "preload/leak_text.h"
#include "preload/lsan_options.h"
#include "preload/shut_in.h"
#include "preload/start_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define LEAK_STATUS 23 /* LeakSanitizer's */
#define ENVIRONMENT 4096

/* The program's, where it exports them (an executable does by -rdynamic). */
extern __attribute__((weak, visibility("default"))) const char *__lsan_default_options(void);
extern __attribute__((weak, visibility("default"))) const char *__lsan_default_suppressions(void);
extern __attribute__((weak, visibility("default"))) int __lsan_is_turned_off(void);

static bool started, prepared;
static int key_exit_code;
static char key_suppressions[CONFIG_PATH];
static char from_environment[ENVIRONMENT];
static struct lsan_options options;
static struct suppressions *suppressions;
static _Atomic uint32_t busy;
static atomic_bool once;

void leak_check_start(const struct config *config, char *const *environment)
{
    const char *text = config_environment(environment, "LSAN_OPTIONS");
    size_t n = text ? strlen(text) : 0;
    if (n >= sizeof from_environment)
        print_fd(2, "gleaner: LSAN_OPTIONS is longer than %u bytes; skipped\n", ENVIRONMENT - 1);
    else if (n > 0)
        memcpy(from_environment, text, n + 1);
    memcpy(key_suppressions, config->suppressions, sizeof key_suppressions);
    key_exit_code = config->exit_code;
    started = true;
}

static void say(const char *line)
{
    print_fd(2, "%s\n", line);
}

static bool exists(const char *path)
{
    return raw_syscall(SYS_faccessat, AT_FDCWD, path, 4 /* R_OK */) == 0;
}

/* From the folder of the start, else from that of the executable. */
static void read_file(const char *name, void (*complain)(const char *))
{
    char path[2 * CONFIG_PATH], beside[2 * CONFIG_PATH];
    if (name[0] == 0 || shut_in(SHUT_IN_PROFILE)) return;
    start_folder_path(path, sizeof path, name);
    if (name[0] != '/' && !exists(path)) {
        long n = raw_syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", beside, sizeof beside - 1);
        while (n > 0 && beside[n - 1] != '/') n--;
        if (n > 0 &&
            print_to(beside + n, sizeof beside - (size_t)n, "%s", name) <
                sizeof beside - (size_t)n &&
            exists(beside))
            memcpy(path, beside, sizeof path);
    }
    suppressions_read(&suppressions, path, complain);
}

static void read_environment(void (*complain)(const char *))
{
    lsan_options_parse(&options, from_environment, strlen(from_environment), "LSAN_OPTIONS", complain);
    read_file(key_suppressions, complain);
    read_file(options.suppressions, complain);
}

/* LeakSanitizer's order: the environment overrides the program. */
static void prepare(void)
{
    if (prepared) return;
    prepared = true;
    lsan_options_default(&options);
    if (!started) return;
    const char *text = __lsan_default_options ? __lsan_default_options() : NULL;
    if (text) lsan_options_parse(&options, text, strlen(text), "__lsan_default_options", say);
    read_environment(say);
    text = __lsan_default_suppressions ? __lsan_default_suppressions() : NULL;
    if (text)
        suppressions_parse(&suppressions, text, strlen(text), "__lsan_default_suppressions", say);
}

/* False where this thread is in here already. */
static bool enter(void)
{
    uint32_t self = os_thread_id();
    for (;;) {
        uint32_t holder = 0;
        if (atomic_compare_exchange_strong(&busy, &holder, self)) return true;
        if (holder == self) return false;
        if (!os_thread_exists(holder))
            atomic_compare_exchange_strong(&busy, &holder, 0);
        else
            os_wait_changed(&busy, holder, 10000000);
    }
}

static void leave(void)
{
    atomic_store(&busy, 0);
}

static bool turned_off(void)
{
    return !options.detect_leaks || (__lsan_is_turned_off && __lsan_is_turned_off());
}

const struct suppressions *leak_check_suppressions(bool frozen)
{
    if (!started) return NULL;
    if (frozen) {
        if (atomic_load(&busy)) return NULL; /* somebody was about to change them */
        if (!prepared) {
            lsan_options_default(&options);
            read_environment(NULL);
        }
        return suppressions;
    }
    if (!enter()) return NULL;
    prepare();
    leave();
    return suppressions;
}

bool leak_check_is_on(void)
{
    if (!started || !enter()) return false;
    prepare();
    bool on = options.detect_leaks;
    leave();
    return on;
}

/* 0: nobody has asked for one. */
static int asked_status(void)
{
    if (key_exit_code) return key_exit_code;
    return options.has_exitcode ? options.exitcode : 0;
}

int leak_check_status(enum leak_verdict verdict)
{
    if (verdict == LEAK_NONE) return 0;
    return verdict == LEAK_FOUND && !key_exit_code && !options.has_exitcode ? LEAK_STATUS : asked_status();
}

bool leak_check_once(void)
{
    return !atomic_exchange(&once, true);
}

static const char *why(int error)
{
    struct collections c;
    switch (error) {
    case ENOTSUP:
        return "collections cannot run here";
    case ENOMEM:
        return "no memory";
    default:
        collections(&c);
        return !c.latest_major.complete && c.latest_major.why_not ? c.latest_major.why_not : "incomplete";
    }
}

/* What is lost by now. */
static NOINLINE enum leak_verdict sum_up(int fd, struct leak_totals *sum)
{
    const struct leak_text_options how = {
        .fd = fd,
        .most = options.max_leaks,
        .objects = options.report_objects,
        .show_suppressions = options.print_suppressions,
    };
    if (!leak_text(suppressions, &how, sum)) {
        if (fd >= 0) print_fd(fd, "gleaner: no memory for a leak report\n");
        return LEAK_UNKNOWN;
    }
    return sum->blocks + sum->unrecorded > 0 ? LEAK_FOUND : LEAK_NONE;
}

enum leak_verdict leak_check(enum collection_trigger trigger, int fd)
{
    int before = errno;
    enum leak_verdict verdict = LEAK_NONE;
    struct leak_totals sum;
    if (!started || !enter()) return LEAK_NONE;
    prepare();
    if (!turned_off()) {
        int error = collection_run(COLLECTION_MAJOR, trigger, true, true);
        if (error == 0) {
            verdict = sum_up(fd, &sum);
            dead_stack_clear_text();
        } else {
            print_fd(fd, "gleaner: no leak check: %s\n", why(error));
            verdict = LEAK_UNKNOWN;
        }
    }
    leave();
    errno = before;
    return verdict;
}

/* Nothing was found, but not all was looked at. */
static NOINLINE void say_unknown(const char *reason, int status, int fd)
{
    print_fd(fd, "==%d==ERROR: Gleaner: whether anything is lost is not known: %s\n", (int)raw_syscall(SYS_getpid, 0), reason);
    if (status) print_fd(fd, "gleaner: so the status is %d, by exit_code\n", status);
}

int leak_check_at_exit(int error, bool report, int fd)
{
    int status = 0;
    struct leak_totals sum;
    if (!started || !enter()) return 0;
    prepare();
    if (!turned_off() && leak_check_once()) {
        enum leak_verdict verdict = sum_up(report ? fd : -1, &sum);
        const char *reason = error != 0 ? why(error) : "no memory for a leak report";
        if (verdict == LEAK_FOUND && error != 0 && report)
            print_fd(fd, "gleaner: the collection at exit failed (%s): that is what is known of before it\n", reason);
        if (verdict == LEAK_NONE && error != 0) verdict = LEAK_UNKNOWN;
        if (verdict != LEAK_NONE) status = asked_status();
        if (verdict == LEAK_UNKNOWN && (report || status)) say_unknown(reason, status, fd);
        if (verdict == LEAK_NONE && report) {
            struct lost_totals t;
            lost_totals(&t);
            print_fd(fd,
                     "==%d== Gleaner: nothing lost%s; called lost before, and used by the program "
                     "since: %lu object(s)\n",
                     (int)raw_syscall(SYS_getpid, 0), t.lost ? " that no suppression names" : "",
                     (unsigned long)lost_used(&t));
        }
    }
    leave();
    return status;
}
