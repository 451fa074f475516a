/* blocking_signal.c: waiting for signals. sigwait goes on by itself after EINTR (glibc), and is
   left alone.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/syscall.h"
#include "preload/blocking.h"

#include <signal.h>
#include <unistd.h>

#define SIGSET_BYTES 8

static int (*real_sigtimedwait)(const sigset_t *, siginfo_t *, const struct timespec *);
static int (*real_sigwaitinfo)(const sigset_t *, siginfo_t *);
static int (*real_pause)(void);
static int (*real_sigsuspend)(const sigset_t *);
static int (*real_sigpause)(int, int);

void blocking_signal_start(void)
{
    real_sigtimedwait = blocking_real("sigtimedwait");
    real_sigwaitinfo = blocking_real("sigwaitinfo");
    real_pause = blocking_real("pause");
    real_sigsuspend = blocking_real("sigsuspend");
    real_sigpause = blocking_real("__sigpause");
}

static int call_sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *t)
{
    if (likely(real_sigtimedwait)) return real_sigtimedwait(set, info, t);
    return (int)FALLBACK(SYS_rt_sigtimedwait, set, info, t, SIGSET_BYTES);
}

EXPORT int sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *timeout)
{
    struct undisturbed since = undisturbed();
    bool timed = timeout && (timeout->tv_sec > 0 || timeout->tv_nsec > 0);
    int64_t began = timed ? blocking_now(CLOCK_MONOTONIC) : 0;
    int r = call_sigtimedwait(set, info, timeout);
    while (unlikely(r < 0) && errno == EINTR && eintr_was_ours(&since)) {
        struct timespec rest;
        if (timed) rest = blocking_rest(timeout, began);
        r = call_sigtimedwait(set, info, timed ? &rest : timeout);
    }
    return r;
}

ALSO_KNOWN_AS(sigtimedwait, __sigtimedwait);

EXPORT int sigwaitinfo(const sigset_t *set, siginfo_t *info)
{
    struct undisturbed since = undisturbed();
    int r;
    do {
        r = likely(real_sigwaitinfo) ? real_sigwaitinfo(set, info)
                                     : call_sigtimedwait(set, info, NULL);
    } while (unlikely(r < 0) && errno == EINTR && eintr_was_ours(&since));
    return r;
}

/* The three that follow return only when a handler has run. */
EXPORT int pause(void)
{
    struct undisturbed since = undisturbed();
    int r;
    do {
        r = likely(real_pause) ? real_pause()
                               : (int)FALLBACK(SYS_ppoll, NULL, 0, NULL, NULL, SIGSET_BYTES);
    } while (errno == EINTR && eintr_was_ours(&since));
    return r;
}

EXPORT int sigsuspend(const sigset_t *mask)
{
    struct undisturbed since = undisturbed();
    int r;
    do {
        r = likely(real_sigsuspend) ? real_sigsuspend(mask)
                                    : (int)FALLBACK(SYS_rt_sigsuspend, mask, SIGSET_BYTES);
    } while (errno == EINTR && eintr_was_ours(&since));
    return r;
}

ALSO_KNOWN_AS(sigsuspend, __sigsuspend);

/* `what` is a mask of BSD's (is_signal 0) or a signal (1).  The mask is swapped and swapped back by
   libc around each attempt, so a signal that comes between two attempts waits for the next. */
int __sigpause(int, int);
EXPORT int __sigpause(int what, int is_signal)
{
    if (unlikely(!real_sigpause)) return errno = ENOSYS, -1;
    struct undisturbed since = undisturbed();
    int r;
    do r = real_sigpause(what, is_signal);
    while (errno == EINTR && eintr_was_ours(&since));
    return r;
}

int __xpg_sigpause(int);
EXPORT int __xpg_sigpause(int sig)
{
    return __sigpause(sig, 1);
}

/* <signal.h> gives the plain name to __xpg_sigpause. */
int bsd_sigpause(int) __asm__("sigpause");
EXPORT int bsd_sigpause(int mask)
{
    return __sigpause(mask, 0);
}
