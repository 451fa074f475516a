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
#include "preload/output.h"
#include "preload/report.h"
#include "preload/scope.h"
#include "preload/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static bool report, profile, follow;
static struct {
    int fd; /* a copy of stderr, only where something will be written: 0 otherwise */
    dev_t device;
    ino_t file;
} own_stderr;
static uint64_t interval;
static bool verify;                 /* the key */
static bool leaks;                  /* a major collection at the end */
static atomic_bool collected;
static bool on_signal;              /* the `signal` key is in use */
static _Atomic uint64_t next_write; /* os_now_coarse of the next interval's profile */
static atomic_bool done;
static void (*next_exit)(int);

/* Programs close their stderr before our handler runs (gnulib's close_stdout does, in every
   coreutils program), so a copy is kept.  Programs that close all descriptors close it, too: it is
   used only while it is the file that it was. */
static void keep_stderr(void)
{
    struct stat is;
    int fd = fcntl(2, F_DUPFD_CLOEXEC, 100);
    if (fd < 0) return;
    if (fstat(fd, &is) != 0) return;
    own_stderr.fd = fd;
    own_stderr.device = is.st_dev;
    own_stderr.file = is.st_ino;
}

static int stderr_now(void)
{
    struct stat is;
    if (own_stderr.fd > 0 && fstat(own_stderr.fd, &is) == 0 && is.st_dev == own_stderr.device &&
        is.st_ino == own_stderr.file)
        return own_stderr.fd;
    return 2;
}

#define SIGNAL_PROFILE_MS 2000 /* that the end waits for a profile which the `signal` key began */

static void process_ends(void)
{
    if (verify && fork_here() == FORK_SAME) heap_check();
    if (leaks && fork_here() == FORK_SAME && !atomic_exchange(&collected, true))
        collection_run(COLLECTION_MAJOR, TRIGGER_EXIT, true, true);
    else collection_apply();
    if (on_signal && fork_here() == FORK_SAME) snapshot_wait(SIGNAL_PROFILE_MS);
    if (!report && !profile) return;
    switch (fork_here()) {
    case FORK_VFORK:
        return;
    case FORK_RAW:
        fork_catch_up();
        break;
    case FORK_SAME:
        break;
    }
    if (!follow && !output_first()) return;
    if (atomic_exchange(&done, true)) return;
    int before = errno;
    char file[CONFIG_PATH];
    int fd = stderr_now(), error = profile ? output_profile(NULL, "exit", fd, file) : 0;
    if (report && output_first()) report_print(fd, profile && error == 0 ? file : NULL);
    errno = before;
}

static void at_exit(void *unused)
{
    process_ends();
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
    if (report || profile) keep_stderr();
    __cxa_atexit(at_exit, NULL, NULL);
    __cxa_at_quick_exit(at_exit, NULL);
}

void exit_forked(void)
{
    atomic_store(&done, false);
    atomic_store(&collected, false);
    if (interval) atomic_store(&next_write, os_now_coarse() + interval);
}

void exit_tick(struct heap_thread_hook *unused, uint64_t now)
{
    uint64_t due = atomic_load_explicit(&next_write, memory_order_relaxed);
    if (likely(due == 0 || now < due)) return;
    if (!atomic_compare_exchange_strong(&next_write, &due, now + interval)) return;
    if (fork_here() != FORK_SAME || (!follow && !output_first())) return;
    int before = errno;
    output_profile(NULL, "interval", 2, NULL);
    errno = before;
}

static _Noreturn void leave(int status)
{
    process_ends();
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
