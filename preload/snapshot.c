/* snapshot.c: the snapshot child.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/snapshot.h"
#include "heap/os.h"
#include "heap/syscall.h"
#include "preload/own_memory.h"
#include "preload/process.h"
#include "preload/raw_clone.h"
#include "preload/shut_in.h"
#include "preload/signal33.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE 2u
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

#define STACK_BYTES (512 * KIB)
#define ALARM_MS 100
#define STUCK_NS ((uint64_t)5 * 1000000000)
#define LOOK_NS ((uint64_t)50 * 1000000) /* what may lie between two looks of one who waits */

static char *stack;

/* Written before the clone, read by the child in its copy. */
static struct {
    void (*work)(void *);
    void *argument;
    uint32_t parent;
    unsigned alarms; /* left */
} job;

/* What who waits for the child has seen.  `seen`: its pid and its alarms left. */
static struct {
    _Atomic uint64_t seen, last, waited; /* the latter in ns; since `seen` is what it is */
} watch;

bool snapshot_start(void)
{
    if (!stack) stack = own_map(STACK_BYTES);
    return stack != NULL;
}

static void on_alarm(int sig, void *info, void *context)
{
    if ((uint32_t)raw_syscall(SYS_getppid, 0) != job.parent || job.alarms-- == 0) {
        raw_syscall(SYS_exit_group, 1);
    }
}

/* Before Linux 5.9: one by one, in a table that is ours by then. */
static void close_all_slowly(void)
{
    if (raw_syscall(SYS_unshare, CLONE_FILES) != 0) return;
    struct {
        uint64_t soft, hard;
    } limit = {1024, 0};
    raw_syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &limit);
    if (limit.soft > 65536) limit.soft = 65536;
    for (uint64_t fd = 0; fd < limit.soft; fd++) raw_syscall(SYS_close, fd);
}

static void be_humble(void)
{
    const uint64_t no_core[2] = {0, 0};
    raw_syscall(SYS_prlimit64, 0, RLIMIT_CORE, no_core, NULL);
    /* Less than the program, but not SCHED_IDLE: beside three busy threads a core that is a thousandth of it, and
       somebody waits for the profile, within DUMP_SECONDS. */
    long nice = 20 - raw_syscall(SYS_getpriority, PRIO_PROCESS, 0); /* the raw call gives 20 - nice */
    raw_syscall(SYS_setpriority, PRIO_PROCESS, 0, nice + 5);
    long fd = raw_syscall(SYS_openat, AT_FDCWD, "/proc/self/oom_score_adj", O_WRONLY, 0);
    if (fd >= 0) {
        raw_syscall(SYS_write, fd, "1000", 4);
        raw_syscall(SYS_close, fd);
    }
}

static void child(void *unused)
{
    raw_syscall(SYS_prctl, PR_SET_NAME, "gleaner-snap", 0, 0, 0);
    if (raw_syscall(SYS_close_range, 0, ~0u, CLOSE_RANGE_UNSHARE) != 0) close_all_slowly();
    uint64_t just_alarm = (uint64_t)1 << (SIGALRM - 1);
    signal33_raw_install(SIGALRM, on_alarm);
    struct itimerval every = {{0, ALARM_MS * 1000}, {0, ALARM_MS * 1000}};
    raw_syscall(SYS_setitimer, ITIMER_REAL, &every, NULL);
    raw_syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &just_alarm, NULL, 8);
    be_humble();
    job.work(job.argument);
    raw_syscall(SYS_exit_group, 0);
}

void snapshot_reap(void)
{
    if (shut_in_already(SHUT_IN_COLLECT)) return; /* one of before is a zombie */
    uint32_t pid = atomic_load(&process->snapshot), stuck = atomic_load(&process->stuck);
    if (unlikely(stuck) && raw_syscall(SYS_wait4, stuck, NULL, __WALL | WNOHANG, NULL) != 0)
        atomic_compare_exchange_strong(&process->stuck, &stuck, 0);
    if (pid == 0) return;
    long r = raw_syscall(SYS_wait4, pid, NULL, __WALL | WNOHANG, NULL);
    if (r == 0) return;
    uint32_t expected = pid;
    /* Where it is gone, a wait of the program has it, and must find that out (wait.c). */
    if (r < 0) atomic_store(&process->taken, pid);
    if (!atomic_compare_exchange_strong(&process->snapshot, &expected, 0) && r < 0) {
        expected = pid;
        atomic_compare_exchange_strong(&process->taken, &expected, 0);
    }
}

bool snapshot_was_taken(uint32_t pid)
{
    uint32_t a = pid, b = pid, c = pid;
    return pid != 0 && (atomic_compare_exchange_strong(&process->snapshot, &a, 0) ||
                        atomic_compare_exchange_strong(&process->taken, &b, 0) ||
                        atomic_compare_exchange_strong(&process->stuck, &c, 0));
}

bool snapshot_is_shown(uint32_t pid)
{
    if (shut_in_already(SHUT_IN_COLLECT)) return false; /* it cannot be reaped: a wait that skipped it would find it again */
    if (pid == 0 || (pid != atomic_load(&process->latest) && pid != atomic_load(&process->stuck))) return false;
    if (pid == atomic_load(&process->snapshot) || pid == atomic_load(&process->stuck)) {
        snapshot_reap();
        return true;
    }
    /* Reaped since?  Or a child of the program that got the same pid later? */
    siginfo_t info;
    return raw_syscall(SYS_waitid, P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT | __WALL, NULL) ==
           -ECHILD;
}

long snapshot_take(void (*work)(void *), void *argument, unsigned seconds)
{
    snapshot_reap();
    if (atomic_load(&process->snapshot) || atomic_load(&process->stuck)) return -EBUSY;
    job.work = work;
    job.argument = argument;
    job.parent = (uint32_t)raw_syscall(SYS_getpid, 0);
    job.alarms = seconds * (1000 / ALARM_MS);
    long pid = raw_clone(CLONE_FILES | CLONE_UNTRACED, stack + STACK_BYTES, child, NULL, NULL);
    if (pid > 0) {
        atomic_store(&process->latest, (uint32_t)pid);
        atomic_store(&process->snapshot, (uint32_t)pid);
    }
    return pid;
}

void snapshot_end_if_stuck(void)
{
    uint32_t pid = atomic_load(&process->snapshot), left = UINT32_MAX;
    if (pid == 0) return;
    struct timespec ts;
    struct iovec to = {&left, sizeof left}, from = {&job.alarms, sizeof left};
    /* From its copy.  Where the program has made itself undumpable, no alarm is seen, and the child may take all of its time. */
    long n = raw_syscall(SYS_process_vm_readv, pid, &to, 1, &from, 1, 0);
    uint64_t most = n == (long)sizeof left ? STUCK_NS : STUCK_NS + (uint64_t)job.alarms * ALARM_MS * 1000000;
    uint64_t seen = (uint64_t)pid << 32 | left;
    raw_syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &ts);
    uint64_t now = (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec, since = now - atomic_exchange(&watch.last, now);
    if (atomic_load(&watch.seen) != seen) {
        atomic_store(&watch.waited, 0);
        atomic_store(&watch.seen, seen);
    } else if (atomic_fetch_add(&watch.waited, since < LOOK_NS ? since : LOOK_NS) > most) {
        uint32_t none = 0, is = pid;
        raw_syscall(SYS_kill, pid, SIGKILL);
        /* A debugger that sleeps keeps the zombie. */
        snapshot_reap();
        if (atomic_load(&process->snapshot) == pid && atomic_compare_exchange_strong(&process->stuck, &none, pid))
            atomic_compare_exchange_strong(&process->snapshot, &is, 0);
    }
}

void snapshot_wait(unsigned milliseconds)
{
    const struct timespec ms = {0, 1000000};
    for (unsigned i = 0; i < milliseconds && atomic_load(&process->snapshot) != 0 && !shut_in_already(SHUT_IN_COLLECT); i++) {
        snapshot_reap();
        if (atomic_load(&process->snapshot) != 0) raw_syscall(SYS_nanosleep, &ms, NULL);
    }
}
