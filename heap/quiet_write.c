/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/quiet_write.h"
#include "heap/syscall.h"

#include <errno.h>
#include <signal.h>
#include <time.h>

#define BIT(signal) ((uint64_t)1 << ((signal)-1))
#define OF_WRITES (BIT(SIGXFSZ) | BIT(SIGPIPE))

struct quiet quiet_begin(void)
{
    struct quiet before = {0, 0};
    uint64_t block = OF_WRITES;
    raw_syscall(SYS_rt_sigprocmask, SIG_BLOCK, &block, &before.mask, sizeof block);
    /* What was not blocked is not pending. */
    if (before.mask & OF_WRITES) raw_syscall(SYS_rt_sigpending, &before.pending, sizeof before.pending);
    return before;
}

void quiet_end(struct quiet before)
{
    uint64_t pending = 0, ours;
    struct timespec at_once = {0, 0};
    raw_syscall(SYS_rt_sigpending, &pending, sizeof pending);
    ours = pending & OF_WRITES & ~before.pending;
    if (ours) raw_syscall(SYS_rt_sigtimedwait, &ours, 0L, &at_once, sizeof ours);
    raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before.mask, 0L, sizeof before.mask);
}

/* By two calls more only: a line may be written under a seccomp filter, which knows these. */
long quiet_write(int fd, const void *bytes, size_t n)
{
    struct quiet before = quiet_begin();
    long r = raw_syscall(SYS_write, fd, bytes, n);
    if (r == -EPIPE || r == -EFBIG) quiet_end(before);
    else raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before.mask, 0L, sizeof before.mask);
    return r;
}
