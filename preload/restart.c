/* restart.c: from restart to EINTR, in the registers that our handler returns to.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/restart.h"
#include "heap/syscall.h"
#include "preload/signal33.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>

/* Calls that may say EINTR when a handler without SA_RESTART ends them, and that SA_RESTART
   restarts (signal(7)).  A thread that was about to make one of them for the first time looks the
   same, and may be told EINTR as well. */
static bool may_be_interrupted(long nr)
{
    switch (nr) {
    case SYS_read:
    case SYS_readv:
    case SYS_write:
    case SYS_writev:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_accept:
    case SYS_accept4:
    case SYS_connect:
    case SYS_wait4:
    case SYS_waitid:
    case SYS_flock:
    case SYS_fcntl:
    case SYS_futex:
    case SYS_ioctl:
    case SYS_openat:
    case SYS_mq_timedreceive:
    case SYS_mq_timedsend:
    case SYS_getrandom:
    case SYS_splice:
    case SYS_sendfile:
        return true;
#ifdef SYS_open
    case SYS_open:
        return true;
#endif
    default:
        return false;
    }
}

/* Will a handler without SA_RESTART run as soon as ours has returned? */
static bool interruption_waits(const sigset_t *mask)
{
    uint64_t pending = 0, blocked;
    memcpy(&blocked, mask, sizeof blocked);
    raw_syscall(SYS_rt_sigpending, &pending, 8);
    pending &= ~blocked & ~((uint64_t)1 << (SIGNAL33 - 1));
    for (; pending; pending &= pending - 1) {
        struct signal33_action a;
        if (!signal33_action(__builtin_ctzll(pending) + 1, &a)) continue;
        if (a.handler != (void *)SIG_DFL && a.handler != (void *)SIG_IGN &&
            !(a.flags & SA_RESTART)) {
            return true;
        }
    }
    return false;
}

void restart_or_interrupt(void *context)
{
    ucontext_t *u = context;
    if (!u) return;
#if defined(__x86_64__)
    greg_t *r = u->uc_mcontext.gregs;
    if (!may_be_interrupted((long)r[REG_RAX])) return;
    static const unsigned char instruction[] = {0x0f, 0x05}; /* syscall */
    if (memcmp((const void *)r[REG_RIP], instruction, sizeof instruction) != 0) return;
    if (!interruption_waits(&u->uc_sigmask)) return;
    r[REG_RAX] = -EINTR;
    r[REG_RIP] += (greg_t)sizeof instruction;
#elif defined(__aarch64__)
    mcontext_t *m = &u->uc_mcontext;
    if (!may_be_interrupted((long)m->regs[8])) return;
    static const unsigned char instruction[] = {0x01, 0x00, 0x00, 0xd4}; /* svc #0 */
    if (memcmp((const void *)m->pc, instruction, sizeof instruction) != 0) return;
    if (!interruption_waits(&u->uc_sigmask)) return;
    m->regs[0] = (unsigned long long)-EINTR;
    m->pc += sizeof instruction;
#endif
}
