/* blocking_poll.c: waiting for descriptors.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/syscall.h"
#include "preload/blocking.h"

#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>

static int (*real_poll)(struct pollfd *, nfds_t, int);
static int (*real_poll_chk)(struct pollfd *, nfds_t, int, size_t);
static int (*real_ppoll)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);
static int (*real_ppoll_chk)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *,
                             size_t);
static int (*real_select)(int, fd_set *, fd_set *, fd_set *, struct timeval *);
static int (*real_pselect)(int, fd_set *, fd_set *, fd_set *, const struct timespec *,
                           const sigset_t *);
static int (*real_epoll_wait)(int, struct epoll_event *, int, int);
static int (*real_epoll_pwait)(int, struct epoll_event *, int, int, const sigset_t *);
static int (*real_epoll_pwait2)(int, struct epoll_event *, int, const struct timespec *,
                                const sigset_t *);

void blocking_poll_start(void)
{
    real_poll = blocking_real("poll");
    real_poll_chk = blocking_real("__poll_chk");
    real_ppoll = blocking_real("ppoll");
    real_ppoll_chk = blocking_real("__ppoll_chk");
    real_select = blocking_real("select");
    real_pselect = blocking_real("pselect");
    real_epoll_wait = blocking_real("epoll_wait");
    real_epoll_pwait = blocking_real("epoll_pwait");
    real_epoll_pwait2 = blocking_real("epoll_pwait2");
}

#define SIGSET_BYTES 8 /* of the kernel's sigset_t */

/* The form with a timeout in milliseconds: `call` uses `timeout`. */
#define UNTIL_MS(call)                                                                             \
    struct undisturbed since = undisturbed();                                                      \
    int64_t began = timeout > 0 ? blocking_now(CLOCK_MONOTONIC) : 0;                               \
    int asked = timeout, r = (call);                                                               \
    while (unlikely(r < 0) && errno == EINTR && eintr_was_ours(&since)) {                          \
        if (asked > 0) timeout = blocking_rest_ms(asked, began);                                   \
        r = (call);                                                                                \
    }                                                                                              \
    return r

/* The form with a timespec: `call` uses `timeout`. */
#define UNTIL_TIMESPEC(call)                                                                       \
    struct undisturbed since = undisturbed();                                                      \
    const struct timespec *asked = timeout;                                                        \
    struct timespec rest;                                                                          \
    bool timed = asked && (asked->tv_sec > 0 || asked->tv_nsec > 0);                               \
    int64_t began = timed ? blocking_now(CLOCK_MONOTONIC) : 0;                                     \
    int r = (call);                                                                                \
    while (unlikely(r < 0) && errno == EINTR && eintr_was_ours(&since)) {                          \
        if (timed) {                                                                               \
            rest = blocking_rest(asked, began);                                                    \
            timeout = &rest;                                                                       \
        }                                                                                          \
        r = (call);                                                                                \
    }                                                                                              \
    return r

static int raw_poll(struct pollfd *fds, nfds_t n, int timeout)
{
    struct timespec ts = {timeout / 1000, (long)(timeout % 1000) * 1000000};
    return (int)FALLBACK(SYS_ppoll, fds, n, timeout < 0 ? NULL : &ts, NULL, SIGSET_BYTES);
}

static int raw_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *t, const sigset_t *mask)
{
    struct timespec copy; /* the kernel writes the rest into its argument, libc's ppoll does not */
    if (t) copy = *t;
    return (int)FALLBACK(SYS_ppoll, fds, n, t ? &copy : NULL, mask, SIGSET_BYTES);
}

EXPORT int poll(struct pollfd *fds, nfds_t n, int timeout)
{
    UNTIL_MS(likely(real_poll) ? real_poll(fds, n, timeout) : raw_poll(fds, n, timeout));
}

ALSO_KNOWN_AS(poll, __poll);

int __poll_chk(struct pollfd *, nfds_t, int, size_t);
EXPORT int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t bytes)
{
    UNTIL_MS(likely(real_poll_chk) ? real_poll_chk(fds, n, timeout, bytes)
                                   : raw_poll(fds, n, timeout));
}

EXPORT int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
    UNTIL_TIMESPEC(likely(real_ppoll) ? real_ppoll(fds, n, timeout, mask)
                                      : raw_ppoll(fds, n, timeout, mask));
}

int __ppoll_chk(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *, size_t);
EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
                       const sigset_t *mask, size_t bytes)
{
    UNTIL_TIMESPEC(likely(real_ppoll_chk) ? real_ppoll_chk(fds, n, timeout, mask, bytes)
                                          : raw_ppoll(fds, n, timeout, mask));
}

static int raw_select(int n, fd_set *r, fd_set *w, fd_set *e, struct timespec *t)
{
    return (int)FALLBACK(SYS_pselect6, n, r, w, e, t, NULL);
}

static int call_select(int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *t)
{
    if (likely(real_select)) return real_select(n, r, w, e, t);
    struct timespec ts;
    if (t) ts = (struct timespec){t->tv_sec, t->tv_usec * 1000};
    int result = raw_select(n, r, w, e, t ? &ts : NULL);
    if (t) *t = (struct timeval){ts.tv_sec, ts.tv_nsec / 1000};
    return result;
}

/* Linux leaves the rest in the timeout, but cut to microseconds; many interruptions would add up to
   an early return.  The sets are untouched after EINTR (fs/select.c, core_sys_select). */
EXPORT int select(int n, fd_set *readable, fd_set *writable, fd_set *other, struct timeval *timeout)
{
    struct undisturbed since = undisturbed();
    struct timespec asked = {0, 0};
    int64_t began = 0;
    if (timeout && (timeout->tv_sec > 0 || timeout->tv_usec > 0)) {
        asked = (struct timespec){timeout->tv_sec + timeout->tv_usec / 1000000,
                                  (long)(timeout->tv_usec % 1000000) * 1000};
        began = blocking_now(CLOCK_MONOTONIC);
    }
    int r = call_select(n, readable, writable, other, timeout);
    while (unlikely(r < 0) && errno == EINTR && eintr_was_ours(&since)) {
        if (timeout) {
            struct timespec rest = blocking_rest(&asked, began);
            rest.tv_nsec += 999; /* round up */
            *timeout = (struct timeval){rest.tv_sec + rest.tv_nsec / 1000000000,
                                        rest.tv_nsec % 1000000000 / 1000};
        }
        r = call_select(n, readable, writable, other, timeout);
    }
    return r;
}

ALSO_KNOWN_AS(select, __select);

static int raw_pselect(int n, fd_set *r, fd_set *w, fd_set *e, const struct timespec *t,
                       const sigset_t *mask)
{
    struct timespec copy;
    if (t) copy = *t;
    struct {
        const sigset_t *mask;
        size_t bytes;
    } with_size = {mask, SIGSET_BYTES};
    return (int)FALLBACK(SYS_pselect6, n, r, w, e, t ? &copy : NULL, &with_size);
}

EXPORT int pselect(int n, fd_set *readable, fd_set *writable, fd_set *other,
                   const struct timespec *timeout, const sigset_t *mask)
{
    UNTIL_TIMESPEC(likely(real_pselect) ? real_pselect(n, readable, writable, other, timeout, mask)
                                        : raw_pselect(n, readable, writable, other, timeout, mask));
}

EXPORT int epoll_wait(int fd, struct epoll_event *events, int n, int timeout)
{
    UNTIL_MS(likely(real_epoll_wait)
                 ? real_epoll_wait(fd, events, n, timeout)
                 : (int)FALLBACK(SYS_epoll_pwait, fd, events, n, timeout, NULL, SIGSET_BYTES));
}

EXPORT int epoll_pwait(int fd, struct epoll_event *events, int n, int timeout, const sigset_t *mask)
{
    UNTIL_MS(likely(real_epoll_pwait)
                 ? real_epoll_pwait(fd, events, n, timeout, mask)
                 : (int)FALLBACK(SYS_epoll_pwait, fd, events, n, timeout, mask, SIGSET_BYTES));
}

EXPORT int epoll_pwait2(int fd, struct epoll_event *events, int n, const struct timespec *timeout,
                        const sigset_t *mask)
{
    UNTIL_TIMESPEC(likely(real_epoll_pwait2) ? real_epoll_pwait2(fd, events, n, timeout, mask)
                                             : (int)FALLBACK(SYS_epoll_pwait2, fd, events, n,
                                                             timeout, mask, SIGSET_BYTES));
}
