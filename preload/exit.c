/* exit.c: the profile and the report at the end, see exit.h.

   Ways out: return from main and exit (a handler), quick_exit (another), _exit and _Exit (wrapped:
   nothing else sees them).  Every process of a tree writes its profile, only the first the text.
   Written once a process; never by a vfork child, whose _exit ends only itself while it borrows the
   parent's memory.  A fatal signal and a bare system call write nothing.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/exit.h"
#include "heap/heap.h"
#include "heap/os.h"
#include "heap/syscall.h"
#include "preload/collection.h"
#include "preload/face.h"
#include "preload/fork.h"
#include "preload/kept_file.h"
#include "preload/leak_check.h"
#include "preload/output.h"
#include "preload/report.h"
#include "preload/scope.h"
#include "preload/shut_in.h"
#include "preload/snapshot.h"
#include "preload/starved.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static bool report, profile, follow;
static struct kept_file own_stderr; /* only where something will be written */
static uint64_t interval;
static bool verify;                 /* the key */
static bool leaks;                  /* a major collection at the end */
static bool on_signal;              /* the `signal` key is in use */
static _Atomic uint64_t next_write; /* os_now_coarse of the next interval's profile */
static atomic_bool done;
static void (*next_exit)(int);

static int stderr_now(void)
{
    int fd = kept_file_now(&own_stderr);
    return fd >= 0 ? fd : 2;
}

#define SIGNAL_PROFILE_MS 2000 /* that the end waits for a profile which the `signal` key began */

/* Where nobody may look for what is lost. */
static int unknown_status(void)
{
    return leaks && output_first() ? face_config.exit_code : 0;
}

/* Returns the status that the process must end with, 0 if its own. */
static int process_ends(void)
{
    if (!report && !profile && !on_signal && !verify && !leaks) return 0;
    if (shut_in(SHUT_IN_LINE)) return atomic_exchange(&done, true) ? 0 : unknown_status();
    switch (fork_here()) {
    case FORK_VFORK:
        return 0;
    case FORK_RAW:
        fork_catch_up();
        break;
    case FORK_SAME:
        if (verify) heap_check();
        if (on_signal) snapshot_wait(SIGNAL_PROFILE_MS);
        break;
    }
    if (!follow && !output_first()) return 0;
    if (atomic_exchange(&done, true)) return 0;
    int before = errno, status = 0;
    if (shut_in(SHUT_IN_PROFILE)) {
        if (report || profile || leaks) shut_in_say();
        errno = before;
        return unknown_status();
    }
    /* Of a process of which nobody hears nothing is looked for. */
    bool look = leaks && (profile || output_first() || collection_done);
    int lost = look ? collection_run(COLLECTION_MAJOR, TRIGGER_EXIT, true, true) : 0;
    starved_end();
    char file[CONFIG_PATH];
    int fd = stderr_now(), error = profile ? output_profile(NULL, "exit", fd, file) : 0;
    if (output_first()) {
        if (report) report_print(fd, profile && error == 0 ? file : NULL);
        if (leaks) status = leak_check_at_exit(lost, report, fd);
    }
    errno = before;
    return status;
}

/* A handler that calls exit lets the handlers that are left run (none: ours is the last) and the files be flushed, and the status is the
   new one: glibc's exit takes each handler off its list before it calls it.  (_exit here would throw away what the program
   has printed, as LeakSanitizer's check at exit does.) */
static void before_exit(void *unused)
{
    int status = process_ends();
    if (status) exit(status);
}

static void before_quick_exit(void *unused)
{
    int status = process_ends();
    if (status) quick_exit(status);
}

/* Of the C++ ABI and glibc; `dso` NULL keeps the handler from running when a library is finalised.
 */
extern int __cxa_atexit(void (*)(void *), void *, void *dso);
extern int __cxa_at_quick_exit(void (*)(void *), void *dso);

void exit_pass_on(void)
{
    next_exit = (void (*)(int))scope_next("_exit");
}

void exit_start(const struct config *config)
{
    report = config->exit_report;
    profile = config->exit_profile;
    follow = config->follow;
    on_signal = config->signal != 0;
    verify = config->verify;
    leaks = config->leaks != LEAKS_OFF && config->collect != COLLECT_OFF;
    interval = config->interval_ns;
    if (interval) atomic_store(&next_write, os_now_coarse() + interval);
    exit_pass_on();
    if (!report && !profile && !on_signal && !verify && !leaks) return;
    if (report || profile) kept_file_keep(&own_stderr, 2);
    __cxa_atexit(before_exit, NULL, NULL);
    __cxa_at_quick_exit(before_quick_exit, NULL);
}

void exit_forked(void)
{
    atomic_store(&done, false);
    if (interval) atomic_store(&next_write, os_now_coarse() + interval);
}

void exit_tick(struct heap_thread_hook *unused, uint64_t now)
{
    uint64_t due = atomic_load_explicit(&next_write, memory_order_relaxed);
    if (likely(due == 0 || now < due)) return;
    if (!atomic_compare_exchange_strong(&next_write, &due, now + interval)) return;
    if (shut_in(SHUT_IN_PROFILE)) {
        shut_in_say();
        return;
    }
    if (fork_here() != FORK_SAME || (!follow && !output_first())) return;
    int before = errno;
    output_profile(NULL, "interval", 2, NULL);
    errno = before;
}

static _Noreturn void leave(int status)
{
    int other = process_ends();
    if (other) status = other;
    if (next_exit) next_exit(status);
    for (;;) raw_syscall(SYS_exit_group, status);
}

EXPORT _Noreturn void _exit(int status)
{
    leave(status);
}
EXPORT _Noreturn void _Exit(int status)
{
    leave(status);
}
