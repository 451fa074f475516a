/* shut_in_calls.h: every system call that the library makes of its own accord once the program runs, as a seccomp filter sees it, and what
   cannot be done without it.

   1. Kept true by test/test-shut-in.c.  test/programs/sandbox-calls.c has a filter of its own hand it each call that comes from the library's
      text while a child dumps, collects, reclaims, forks, begins threads and ends: a call that is not here, or not with these registers,
      fails it.  test/programs/sandbox-each.c puts up a filter against each of these alone.
   2. The registers are made by RAW_ARGS (heap/syscall.h), which makes those of the calls themselves.  In `same` each bit stands for one that
      is always so; the others (descriptors, addresses, lengths) vary, and have a likely value.
   3. What is not here: calls that only start-up makes, before the program can have a filter; those in place of a call of the program's, which
      asked for it; abort's; and what replaces a call that an old kernel does not know, but for one that a filter may not know either.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_SHUT_IN_CALLS_H
#define GLEANER_SHUT_IN_CALLS_H

#include "heap/os.h"
#include "heap/syscall.h"
#include "preload/shut_in.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/kcmp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#define SHUT_IN_INSTEAD 0x80000000u /* made only where the call before it in the list is refused */

struct shut_in_call {
    unsigned why; /* of enum os_withheld, and above them of enum shut_in */
    int nr;
    unsigned same;
    long a[6];
};

#define A_DESCRIPTOR 3
#define AN_ADDRESS 0x7f0000001000L
#define A_LENGTH 4096L

#define CALL(why, same, nr, ...) {OS_WITHHELD_ABOVE(why), nr, same, {RAW_ARGS(__VA_ARGS__)}}
#define HEAP(why, same, nr, ...) {why, nr, same, {RAW_ARGS(__VA_ARGS__)}}

static const struct shut_in_call shut_in_calls[] = {
    /* A line on a descriptor, or a look at who we are: what all else needs.  SIGPIPE and SIGXFSZ are kept from the program (quiet_write.h). */
    CALL(SHUT_IN_LINE, 0, SYS_getpid, 0),
    CALL(SHUT_IN_LINE, 0, SYS_write, 2, AN_ADDRESS, 80),
    CALL(SHUT_IN_LINE, 9, SYS_rt_sigprocmask, SIG_BLOCK, AN_ADDRESS, AN_ADDRESS, 8),
    CALL(SHUT_IN_LINE, 9, SYS_rt_sigprocmask, SIG_SETMASK, AN_ADDRESS, NULL, 8),
    CALL(SHUT_IN_LINE, 2, SYS_rt_sigpending, AN_ADDRESS, 8),
    CALL(SHUT_IN_LINE, 8, SYS_rt_sigtimedwait, AN_ADDRESS, NULL, AN_ADDRESS, 8),

    /* malloc, also in threads and forked children, and the walk of a stack that is sampled. */
    HEAP(OS_NUMBERS, 0, SYS_getpid, 0),
    HEAP(OS_NUMBERS, 0, SYS_gettid, 0),
    HEAP(OS_NUMBERS, 4, SYS_tgkill, 1, 1, 0),
    HEAP(OS_MAPPING, 0x3c, SYS_mmap, 0, A_LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
    HEAP(OS_PLACING, 0x3c, SYS_mmap, AN_ADDRESS, A_LENGTH, PROT_READ | PROT_WRITE,
         MAP_PRIVATE | MAP_ANONYMOUS | 0x100000 /* MAP_FIXED_NOREPLACE */, -1, 0),
    HEAP(OS_REPLACING, 0x3c, SYS_mmap, AN_ADDRESS, A_LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
    HEAP(OS_UNMAPPING, 0, SYS_munmap, AN_ADDRESS, A_LENGTH),
    HEAP(OS_MOVING, 8, SYS_mremap, AN_ADDRESS, A_LENGTH, 2 * A_LENGTH, 0),
    HEAP(OS_MOVING, 8, SYS_mremap, AN_ADDRESS, A_LENGTH, 2 * A_LENGTH, MREMAP_MAYMOVE),
    HEAP(OS_MOVING, 8, SYS_mremap, AN_ADDRESS, A_LENGTH, 2 * A_LENGTH, MREMAP_MAYMOVE | MREMAP_FIXED, AN_ADDRESS),
    HEAP(OS_MOVING, 8, SYS_mremap, AN_ADDRESS, A_LENGTH, A_LENGTH, MREMAP_MAYMOVE | MREMAP_FIXED | 4 /* MREMAP_DONTUNMAP */, AN_ADDRESS),
    HEAP(OS_ADVICE, 4, SYS_madvise, AN_ADDRESS, A_LENGTH, MADV_DONTNEED),
    HEAP(OS_ADVICE, 4, SYS_madvise, AN_ADDRESS, A_LENGTH, 8 /* MADV_FREE */),
    HEAP(OS_ADVICE, 4, SYS_madvise, AN_ADDRESS, A_LENGTH, MADV_HUGEPAGE),
    HEAP(OS_ADVICE, 4, SYS_madvise, AN_ADDRESS, A_LENGTH, MADV_NOHUGEPAGE),
    HEAP(OS_ADVICE, 4, SYS_madvise, AN_ADDRESS, A_LENGTH, 23 /* MADV_POPULATE_WRITE */),
    HEAP(OS_CLOCK, 1, SYS_clock_gettime, CLOCK_MONOTONIC, AN_ADDRESS),
    HEAP(OS_CLOCK, 1, SYS_clock_gettime, CLOCK_REALTIME, AN_ADDRESS),
    HEAP(OS_CLOCK, 1, SYS_clock_gettime, CLOCK_MONOTONIC_COARSE, AN_ADDRESS),
    HEAP(OS_WAITING, 2, SYS_futex, AN_ADDRESS, FUTEX_WAIT_PRIVATE, 2, AN_ADDRESS),
    HEAP(OS_WAITING, 2, SYS_futex, AN_ADDRESS, FUTEX_WAKE_PRIVATE, 1),
    HEAP(OS_LOOKING, 9, SYS_rt_sigprocmask, -1L, AN_ADDRESS, 0, 8),
    HEAP(OS_DESCRIPTORS, 0, SYS_fstat, A_DESCRIPTOR, AN_ADDRESS),
    HEAP(OS_DESCRIPTORS, 0, SYS_close, A_DESCRIPTOR),

    /* A profile, or a report, by this process. */
    CALL(SHUT_IN_PROFILE, 5, SYS_openat, AT_FDCWD, AN_ADDRESS, O_RDONLY | O_CLOEXEC),
    CALL(SHUT_IN_PROFILE, 0xd, SYS_openat, AT_FDCWD, AN_ADDRESS, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600),
    CALL(SHUT_IN_PROFILE, 5, SYS_openat, AT_FDCWD, AN_ADDRESS, O_WRONLY | O_NOCTTY | O_CLOEXEC),
    CALL(SHUT_IN_PROFILE, 5, SYS_openat, AT_FDCWD, AN_ADDRESS, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY),
    CALL(SHUT_IN_PROFILE, 0, SYS_read, A_DESCRIPTOR, AN_ADDRESS, A_LENGTH),
    CALL(SHUT_IN_PROFILE, 0, SYS_pread64, A_DESCRIPTOR, AN_ADDRESS, A_LENGTH, AN_ADDRESS),
    CALL(SHUT_IN_PROFILE, 0, SYS_write, A_DESCRIPTOR, AN_ADDRESS, A_LENGTH),
    CALL(SHUT_IN_PROFILE, 0, SYS_close, A_DESCRIPTOR),
    CALL(SHUT_IN_PROFILE, 0, SYS_fstat, A_DESCRIPTOR, AN_ADDRESS),
    CALL(SHUT_IN_PROFILE, 9, SYS_newfstatat, AT_FDCWD, AN_ADDRESS, AN_ADDRESS, 0),
    CALL(SHUT_IN_PROFILE, 9, SYS_newfstatat, AT_FDCWD, AN_ADDRESS, AN_ADDRESS, AT_SYMLINK_NOFOLLOW),
    CALL(SHUT_IN_PROFILE, 1, SYS_readlinkat, AT_FDCWD, AN_ADDRESS, AN_ADDRESS, A_LENGTH),
    CALL(SHUT_IN_PROFILE, 0x15, SYS_renameat2, AT_FDCWD, AN_ADDRESS, AT_FDCWD, AN_ADDRESS, 0),
    CALL(SHUT_IN_PROFILE, 5, SYS_unlinkat, AT_FDCWD, AN_ADDRESS, 0),
    CALL(SHUT_IN_PROFILE, 5, SYS_faccessat, AT_FDCWD, AN_ADDRESS, 4 /* R_OK */),
    CALL(SHUT_IN_PROFILE, 0, SYS_getcwd, AN_ADDRESS, A_LENGTH),
    CALL(SHUT_IN_PROFILE, 0, SYS_uname, AN_ADDRESS),
    CALL(SHUT_IN_PROFILE, 0, SYS_getppid, 0),
    CALL(SHUT_IN_PROFILE, 0, SYS_gettid, 0),
    CALL(SHUT_IN_PROFILE, 0x3c, SYS_mmap, 0, A_LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
    CALL(SHUT_IN_PROFILE, 0, SYS_munmap, AN_ADDRESS, A_LENGTH),

    /* The stop: its helper, the signal, what the threads do, the look at them. */
    CALL(SHUT_IN_COLLECT, 5, SYS_clone,
         CLONE_VM | CLONE_FS | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_CHILD_CLEARTID | CLONE_UNTRACED, AN_ADDRESS, 0, AN_ADDRESS),
    CALL(SHUT_IN_COLLECT, 4, SYS_close_range, 0, 100, 0),
    CALL(SHUT_IN_COLLECT, 6, SYS_close_range, 100, ~0u, 0),
    CALL(SHUT_IN_COLLECT, 1, SYS_exit, 0),
    CALL(SHUT_IN_COLLECT, 2, SYS_futex, AN_ADDRESS, FUTEX_WAIT, 0, AN_ADDRESS),
    CALL(SHUT_IN_COLLECT, 2, SYS_futex, AN_ADDRESS, FUTEX_WAKE, INT32_MAX),
    CALL(SHUT_IN_COLLECT, 2, SYS_futex, AN_ADDRESS, FUTEX_WAIT_PRIVATE, 0, AN_ADDRESS),
    CALL(SHUT_IN_COLLECT, 2, SYS_futex, AN_ADDRESS, FUTEX_WAKE_PRIVATE, INT32_MAX),
    CALL(SHUT_IN_COLLECT, 0, SYS_nanosleep, AN_ADDRESS, NULL),
    CALL(SHUT_IN_COLLECT, 0, SYS_sched_yield, 0),
    CALL(SHUT_IN_COLLECT, 0, SYS_getuid, 0),
    CALL(SHUT_IN_COLLECT, 4, SYS_rt_tgsigqueueinfo, 1, 1, 33, AN_ADDRESS),
    CALL(SHUT_IN_COLLECT, 4, SYS_tgkill, 1, 1, 0),
    CALL(SHUT_IN_COLLECT, 0, SYS_rt_sigreturn, 0),
    CALL(SHUT_IN_COLLECT, 8, SYS_rt_sigaction, 33, AN_ADDRESS, NULL, 8),
    CALL(SHUT_IN_COLLECT, 8, SYS_rt_sigaction, 33, NULL, AN_ADDRESS, 8),
    CALL(SHUT_IN_COLLECT, 9, SYS_rt_sigprocmask, SIG_UNBLOCK, AN_ADDRESS, NULL, 8),
    CALL(SHUT_IN_COLLECT, 1, SYS_sigaltstack, NULL, AN_ADDRESS),
    CALL(SHUT_IN_COLLECT, 5, SYS_openat, AT_FDCWD, AN_ADDRESS, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
    CALL(SHUT_IN_COLLECT, 4, SYS_openat, A_DESCRIPTOR, AN_ADDRESS, O_RDONLY | O_CLOEXEC),
    CALL(SHUT_IN_COLLECT, 0, SYS_getdents64, A_DESCRIPTOR, AN_ADDRESS, A_LENGTH),
    CALL(SHUT_IN_COLLECT, 0, SYS_process_vm_readv, 1, AN_ADDRESS, 1, AN_ADDRESS, 1, 0),
    CALL(SHUT_IN_COLLECT, 1, SYS_clock_gettime, CLOCK_MONOTONIC, AN_ADDRESS),
    CALL(SHUT_IN_COLLECT, 1, SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, AN_ADDRESS),
    CALL(SHUT_IN_COLLECT, 1, SYS_clock_gettime, CLOCK_BOOTTIME, AN_ADDRESS),
    CALL(SHUT_IN_COLLECT, 1, SYS_clock_gettime, CLOCK_REALTIME, AN_ADDRESS),
    CALL(SHUT_IN_COLLECT, 0, SYS_sched_getaffinity, 0, 128, AN_ADDRESS),

    /* The snapshot child, and who waits for it. */
    CALL(SHUT_IN_COLLECT, 1, SYS_clone, CLONE_FILES | CLONE_UNTRACED, AN_ADDRESS),
    CALL(SHUT_IN_COLLECT, 1, SYS_prctl, PR_SET_NAME, AN_ADDRESS),
    CALL(SHUT_IN_COLLECT, 7, SYS_close_range, 0, ~0u, CLOSE_RANGE_UNSHARE),
    {OS_WITHHELD_ABOVE(SHUT_IN_COLLECT) | SHUT_IN_INSTEAD, SYS_unshare, 1, {RAW_ARGS(CLONE_FILES)}},
    CALL(SHUT_IN_COLLECT, 9, SYS_rt_sigaction, SIGALRM, AN_ADDRESS, NULL, 8),
    CALL(SHUT_IN_COLLECT, 1, SYS_setitimer, ITIMER_REAL, AN_ADDRESS, NULL),
    CALL(SHUT_IN_COLLECT, 3, SYS_prlimit64, 0, RLIMIT_CORE, AN_ADDRESS, NULL),
    CALL(SHUT_IN_COLLECT, 3, SYS_getpriority, PRIO_PROCESS, 0),
    CALL(SHUT_IN_COLLECT, 3, SYS_setpriority, PRIO_PROCESS, 0, 5),
    CALL(SHUT_IN_COLLECT, 5, SYS_openat, AT_FDCWD, AN_ADDRESS, O_WRONLY),
    CALL(SHUT_IN_COLLECT, 0, SYS_exit_group, 0),
    CALL(SHUT_IN_COLLECT, 6, SYS_wait4, 1, NULL, __WALL | WNOHANG, NULL),
    CALL(SHUT_IN_COLLECT, 9, SYS_waitid, P_PID, 1, AN_ADDRESS, WEXITED | WNOHANG | WNOWAIT | __WALL, NULL),
    CALL(SHUT_IN_COLLECT, 2, SYS_kill, 1, SIGKILL),
    CALL(SHUT_IN_COLLECT, 0, SYS_geteuid, 0),
    CALL(SHUT_IN_COLLECT, 5, SYS_openat, AT_FDCWD, AN_ADDRESS, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
    CALL(SHUT_IN_COLLECT, 4, SYS_openat, A_DESCRIPTOR, AN_ADDRESS, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC),
    CALL(SHUT_IN_COLLECT, 2, SYS_ftruncate, A_DESCRIPTOR, 0),
    CALL(SHUT_IN_COLLECT, 6, SYS_lseek, A_DESCRIPTOR, 0, 0),
    CALL(SHUT_IN_COLLECT, 0, SYS_fchmod, A_DESCRIPTOR, 0400),

    /* The collection, and its log. */
    CALL(SHUT_IN_COLLECT, 0xd, SYS_openat, AT_FDCWD, AN_ADDRESS, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600),
    CALL(SHUT_IN_COLLECT, 0x3d, SYS_mmap, NULL, A_LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0),
    CALL(SHUT_IN_COLLECT, 0x3d, SYS_mmap, NULL, A_LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0),
    CALL(SHUT_IN_COLLECT, 1, SYS_clone,
         CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_UNTRACED, AN_ADDRESS),
    CALL(SHUT_IN_COLLECT, 2, SYS_ioctl, A_DESCRIPTOR, 0xc0606610 /* PAGEMAP_SCAN */, AN_ADDRESS),
    CALL(SHUT_IN_COLLECT, 2, SYS_ioctl, A_DESCRIPTOR, 0xc020aa00 /* UFFDIO_REGISTER */, AN_ADDRESS),
    CALL(SHUT_IN_COLLECT, 2, SYS_ioctl, A_DESCRIPTOR, 0xc018aa06 /* UFFDIO_WRITEPROTECT */, AN_ADDRESS),
    CALL(SHUT_IN_COLLECT, 0, SYS_mincore, AN_ADDRESS, A_LENGTH, AN_ADDRESS),
    CALL(SHUT_IN_COLLECT, 4, SYS_madvise, AN_ADDRESS, 0, MADV_NORMAL),
    CALL(SHUT_IN_COLLECT, 4, SYS_madvise, AN_ADDRESS, 0, 102 /* MADV_GUARD_INSTALL */),
    CALL(SHUT_IN_COLLECT, 4, SYS_madvise, AN_ADDRESS, A_LENGTH, MADV_DONTNEED),
    CALL(SHUT_IN_COLLECT, 4, SYS_madvise, AN_ADDRESS, A_LENGTH, 20 /* MADV_COLD */),
    CALL(SHUT_IN_COLLECT, 4, SYS_madvise, AN_ADDRESS, A_LENGTH, 22 /* MADV_POPULATE_READ */),
    CALL(SHUT_IN_COLLECT, 8, SYS_mremap, AN_ADDRESS, A_LENGTH, 2 * A_LENGTH, MREMAP_MAYMOVE),
    CALL(SHUT_IN_COLLECT, 3, SYS_eventfd2, 0, EFD_CLOEXEC),
    CALL(SHUT_IN_COLLECT, 2, SYS_epoll_ctl, A_DESCRIPTOR, EPOLL_CTL_MOD, A_DESCRIPTOR, AN_ADDRESS),
    CALL(SHUT_IN_COLLECT, 0, SYS_readlinkat, A_DESCRIPTOR, AN_ADDRESS, AN_ADDRESS, A_LENGTH),
    CALL(SHUT_IN_COLLECT, 4, SYS_kcmp, 1, 1, KCMP_VM, 0, 0),
    CALL(SHUT_IN_COLLECT, 1, SYS_prlimit64, 0, RLIMIT_AS, NULL, AN_ADDRESS),
    CALL(SHUT_IN_COLLECT, 1, SYS_prlimit64, 0, RLIMIT_DATA, AN_ADDRESS, NULL),
    CALL(SHUT_IN_COLLECT, 0, SYS_memfd_create, AN_ADDRESS, 1 /* MFD_CLOEXEC */),
    CALL(SHUT_IN_COLLECT, 0, SYS_pwrite64, A_DESCRIPTOR, AN_ADDRESS, A_LENGTH, 0),
    CALL(SHUT_IN_COLLECT, 0xc, SYS_mmap, AN_ADDRESS, A_LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, A_DESCRIPTOR, 0),
    CALL(SHUT_IN_COLLECT, 0, SYS_mprotect, AN_ADDRESS, A_LENGTH, PROT_READ | PROT_WRITE),
    CALL(SHUT_IN_COLLECT, 0, SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | 1 /* UFFD_USER_MODE_ONLY */),
    CALL(SHUT_IN_COLLECT, 2, SYS_fcntl, A_DESCRIPTOR, F_DUPFD_CLOEXEC, 100),
};

#undef CALL
#undef HEAP

#endif
