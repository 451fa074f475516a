/* blocking_connect.c: accept and connect, which a signal ends only where the socket has a timeout.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/syscall.h"
#include "preload/blocking_transfer.h"

static int (*real_accept)(int, struct sockaddr *, socklen_t *);
static int (*real_accept4)(int, struct sockaddr *, socklen_t *, int);
static int (*real_connect)(int, const struct sockaddr *, socklen_t);

void blocking_connect_start(void)
{
    real_accept = blocking_real("accept");
    real_accept4 = blocking_real("accept4");
    real_connect = blocking_real("connect");
}

static int call_accept4(int fd, struct sockaddr *from, socklen_t *bytes, int flags)
{
    if (flags == 0 && likely(real_accept)) return real_accept(fd, from, bytes);
    return likely(real_accept4) ? real_accept4(fd, from, bytes, flags)
                                : (int)FALLBACK(SYS_accept4, fd, from, bytes, flags);
}

/* Where another thread takes the connection between the wait and the call, the call waits for the
   whole timeout again: accept has no MSG_DONTWAIT. */
static int do_accept(int fd, struct sockaddr *from, socklen_t *bytes, int flags)
{
    struct undisturbed since = undisturbed();
    int64_t began = transfer_began(since);
    int r = call_accept4(fd, from, bytes, flags);
    while (unlikely(r < 0) && errno == EINTR && eintr_was_ours(&since)) {
        if (began == 0) began = blocking_now(CLOCK_MONOTONIC_COARSE);
        if (transfer_wait(fd, false, began) < 0) return -1;
        r = call_accept4(fd, from, bytes, flags);
    }
    return r;
}

EXPORT int accept(int fd, struct sockaddr *from, socklen_t *bytes)
{
    return do_accept(fd, from, bytes, 0);
}

EXPORT int accept4(int fd, struct sockaddr *from, socklen_t *bytes, int flags)
{
    return do_accept(fd, from, bytes, flags);
}

static int call_connect(int fd, const struct sockaddr *to, socklen_t bytes)
{
    return likely(real_connect) ? real_connect(fd, to, bytes)
                                : (int)FALLBACK(SYS_connect, fd, to, bytes);
}

/* An interrupted connect goes on in the kernel, and a second call joins it.  One that runs out of
   time says EINPROGRESS; a local socket, EAGAIN.  (net/ipv4/af_inet.c, net/unix/af_unix.c) */
EXPORT int connect(int fd, const struct sockaddr *to, socklen_t bytes)
{
    struct undisturbed since = undisturbed();
    int64_t began = transfer_began(since);
    int r = call_connect(fd, to, bytes);
    while (unlikely(r < 0) && errno == EINTR && eintr_was_ours(&since)) {
        if (began == 0) began = blocking_now(CLOCK_MONOTONIC_COARSE);
        if (transfer_wait(fd, true, began) < 0) {
            if (errno == EAGAIN && to->sa_family != AF_UNIX) errno = EINPROGRESS;
            return -1;
        }
        r = call_connect(fd, to, bytes);
        if (r < 0 && errno == EISCONN) r = 0;
    }
    return r;
}

ALSO_KNOWN_AS(connect, __connect);
