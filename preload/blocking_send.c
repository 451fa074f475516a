/* blocking_send.c: sending to sockets.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/syscall.h"
#include "preload/blocking_transfer.h"

static ssize_t (*real_send)(int, const void *, size_t, int);
static ssize_t (*real_sendto)(int, const void *, size_t, int, const struct sockaddr *, socklen_t);
static ssize_t (*real_sendmsg)(int, const struct msghdr *, int);
static int (*real_sendmmsg)(int, struct mmsghdr *, unsigned, int);

void blocking_send_start(void)
{
    real_send = blocking_real("send");
    real_sendto = blocking_real("sendto");
    real_sendmsg = blocking_real("sendmsg");
    real_sendmmsg = blocking_real("sendmmsg");
}

static ssize_t call_sendmsg(int fd, const struct msghdr *m, int flags)
{
    return likely(real_sendmsg) ? real_sendmsg(fd, m, flags) : FALLBACK(SYS_sendmsg, fd, m, flags);
}

/* Ancillary data went with the first byte. */
static ssize_t attempt_send(const struct transfer *t, size_t done, bool nonblocking, size_t *asked)
{
    struct msghdr m = *t->message;
    struct iovec one;
    const struct iovec *from;
    m.msg_iovlen = transfer_tail(t->vector, t->count, done, &one, &from);
    m.msg_iov = (struct iovec *)from;
    if (done > 0) {
        m.msg_control = NULL;
        m.msg_controllen = 0;
    }
    *asked = transfer_bytes(from, m.msg_iovlen);
    return call_sendmsg(t->fd, &m, t->flags | (nonblocking ? MSG_DONTWAIT : 0));
}

static COLD ssize_t send_on(int fd, const struct msghdr *m, size_t total, int flags,
                            struct undisturbed since, int64_t began, ssize_t first)
{
    struct transfer t = {.fd = fd,
                         .writes = true,
                         .whole = true,
                         .began = began,
                         .flags = flags,
                         .vector = m->msg_iov,
                         .count = m->msg_iovlen,
                         .message = (struct msghdr *)m,
                         .total = total,
                         .attempt = attempt_send};
    return transfer_go_on(&t, since, first);
}

EXPORT ssize_t sendto(int fd, const void *from, size_t bytes, int flags, const struct sockaddr *to,
                      socklen_t to_bytes)
{
    struct undisturbed since = undisturbed();
    int64_t began = transfer_began(since);
    ssize_t r = likely(real_sendto) ? real_sendto(fd, from, bytes, flags, to, to_bytes)
                                    : FALLBACK(SYS_sendto, fd, from, bytes, flags, to, to_bytes);
    if (likely((size_t)r == bytes) || (r < 0 && errno != EINTR) || !was_ours(&since, r)) return r;
    struct iovec v = {(void *)from, bytes};
    struct msghdr m = {
        .msg_name = (void *)to, .msg_namelen = to_bytes, .msg_iov = &v, .msg_iovlen = 1};
    return send_on(fd, &m, bytes, flags, since, began, r);
}

EXPORT ssize_t send(int fd, const void *from, size_t bytes, int flags)
{
    struct undisturbed since = undisturbed();
    int64_t began = transfer_began(since);
    ssize_t r = likely(real_send) ? real_send(fd, from, bytes, flags)
                                  : FALLBACK(SYS_sendto, fd, from, bytes, flags, NULL, 0);
    if (likely((size_t)r == bytes) || (r < 0 && errno != EINTR) || !was_ours(&since, r)) return r;
    struct iovec v = {(void *)from, bytes};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
    return send_on(fd, &m, bytes, flags, since, began, r);
}

ALSO_KNOWN_AS(send, __send);

EXPORT ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
    struct undisturbed since = undisturbed();
    int64_t began = transfer_began(since);
    ssize_t r = call_sendmsg(fd, m, flags);
    if ((r < 0 && errno != EINTR) || likely(!was_ours(&since, r))) return r;
    size_t total = transfer_bytes(m->msg_iov, m->msg_iovlen);
    return (size_t)r == total ? r : send_on(fd, m, total, flags, since, began, r);
}

static int call_sendmmsg(int fd, struct mmsghdr *m, unsigned n, int flags)
{
    return likely(real_sendmmsg) ? real_sendmmsg(fd, m, n, flags)
                                 : (int)FALLBACK(SYS_sendmmsg, fd, m, n, flags);
}

static ssize_t attempt_sendmmsg(const struct transfer *t, size_t done, bool nonblocking,
                                size_t *asked)
{
    *asked = t->total - done;
    return call_sendmmsg(t->fd, (struct mmsghdr *)t->other + done, (unsigned)*asked,
                         t->flags | (nonblocking ? MSG_DONTWAIT : 0));
}

EXPORT int sendmmsg(int fd, struct mmsghdr *m, unsigned n, int flags)
{
    struct undisturbed since = undisturbed();
    int64_t began = transfer_began(since);
    int r = call_sendmmsg(fd, m, n, flags);
    if (likely((unsigned)r == n) || (r < 0 && errno != EINTR) || !was_ours(&since, r)) return r;
    struct transfer t = {.fd = fd,
                         .writes = true,
                         .whole = true,
                         .began = began,
                         .flags = flags,
                         .total = n,
                         .other = m,
                         .attempt = attempt_sendmmsg};
    return (int)transfer_go_on(&t, since, r);
}

ALSO_KNOWN_AS(sendmmsg, __sendmmsg);
