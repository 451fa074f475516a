/* blocking_recv.c: receiving from sockets: EINTR where SO_RCVTIMEO is set, and parts where
   MSG_WAITALL asks for all.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/syscall.h"
#include "preload/blocking_transfer.h"

static ssize_t (*real_recv)(int, void *, size_t, int);
static ssize_t (*real_recv_chk)(int, void *, size_t, size_t, int);
static ssize_t (*real_recvfrom)(int, void *, size_t, int, struct sockaddr *, socklen_t *);
static ssize_t (*real_recvfrom_chk)(int, void *, size_t, size_t, int, struct sockaddr *,
                                    socklen_t *);
static ssize_t (*real_recvmsg)(int, struct msghdr *, int);
static int (*real_recvmmsg)(int, struct mmsghdr *, unsigned, int, struct timespec *);

void blocking_recv_start(void)
{
    real_recv = blocking_real("recv");
    real_recv_chk = blocking_real("__recv_chk");
    real_recvfrom = blocking_real("recvfrom");
    real_recvfrom_chk = blocking_real("__recvfrom_chk");
    real_recvmsg = blocking_real("recvmsg");
    real_recvmmsg = blocking_real("recvmmsg");
}

static ssize_t call_recvmsg(int fd, struct msghdr *m, int flags)
{
    return likely(real_recvmsg) ? real_recvmsg(fd, m, flags) : FALLBACK(SYS_recvmsg, fd, m, flags);
}

/* MSG_PEEK takes nothing away, so the whole is asked for again. */
static ssize_t attempt_recv(const struct transfer *t, size_t done, bool nonblocking, size_t *asked)
{
    const struct msghdr *form = t->other;
    struct msghdr m = *form;
    struct iovec one;
    const struct iovec *from;
    m.msg_iovlen = transfer_tail(t->vector, t->count, done, &one, &from);
    m.msg_iov = (struct iovec *)from;
    *asked = transfer_bytes(from, m.msg_iovlen);
    ssize_t r = call_recvmsg(t->fd, &m, t->flags | (nonblocking ? MSG_DONTWAIT : 0));
    if (r >= 0 && t->message) {
        t->message->msg_namelen = m.msg_namelen;
        t->message->msg_controllen = m.msg_controllen;
        t->message->msg_flags = m.msg_flags;
    }
    return r;
}

/* `form` is the message as the program gave it; `to` receives what the kernel changes in it. */
static COLD ssize_t recv_on(int fd, const struct msghdr *form, struct msghdr *to, int flags,
                            struct undisturbed since, int64_t began, ssize_t first)
{
    struct transfer t = {.fd = fd,
                         .whole = flags & MSG_WAITALL,
                         .began = began,
                         .flags = flags,
                         .vector = form->msg_iov,
                         .count = form->msg_iovlen,
                         .message = to,
                         .other = (void *)form,
                         .attempt = attempt_recv};
    t.total = transfer_bytes(t.vector, t.count);
    if (first >= 0 && (size_t)first == t.total) return first;
    if (flags & MSG_PEEK) first = -1; /* the bytes are still there: ask for the whole again */
    return transfer_go_on(&t, since, first);
}

/* Could the result be a consequence of a signal? */
static ALWAYS_INLINE bool suspect(ssize_t r, size_t asked, int flags)
{
    if (likely(r >= 0)) return unlikely(flags & MSG_WAITALL) && r > 0 && (size_t)r < asked;
    return errno == EINTR;
}

EXPORT ssize_t recvfrom(int fd, void *to, size_t bytes, int flags, struct sockaddr *from,
                        socklen_t *from_bytes)
{
    struct undisturbed since = undisturbed();
    int64_t began = transfer_began(since);
    socklen_t room = from && from_bytes ? *from_bytes : 0;
    ssize_t r = likely(real_recvfrom)
                    ? real_recvfrom(fd, to, bytes, flags, from, from_bytes)
                    : FALLBACK(SYS_recvfrom, fd, to, bytes, flags, from, from_bytes);
    if (!suspect(r, bytes, flags) || !was_ours(&since, r)) return r;
    struct iovec v = {to, bytes};
    struct msghdr form = {.msg_name = from, .msg_namelen = room, .msg_iov = &v, .msg_iovlen = 1};
    struct msghdr changed = form;
    if (from_bytes) changed.msg_namelen = *from_bytes;
    r = recv_on(fd, &form, &changed, flags, since, began, r);
    if (r >= 0 && from_bytes) *from_bytes = changed.msg_namelen;
    return r;
}

EXPORT ssize_t recv(int fd, void *to, size_t bytes, int flags)
{
    struct undisturbed since = undisturbed();
    int64_t began = transfer_began(since);
    ssize_t r = likely(real_recv) ? real_recv(fd, to, bytes, flags)
                                  : FALLBACK(SYS_recvfrom, fd, to, bytes, flags, NULL, NULL);
    if (!suspect(r, bytes, flags) || !was_ours(&since, r)) return r;
    struct iovec v = {to, bytes};
    struct msghdr form = {.msg_iov = &v, .msg_iovlen = 1};
    return recv_on(fd, &form, NULL, flags, since, began, r);
}

ALSO_KNOWN_AS(recv, __recv);

ssize_t __recv_chk(int, void *, size_t, size_t, int);
EXPORT ssize_t __recv_chk(int fd, void *to, size_t bytes, size_t room, int flags)
{
    if (unlikely(bytes > room) && real_recv_chk) return real_recv_chk(fd, to, bytes, room, flags);
    return recv(fd, to, bytes, flags);
}

ssize_t __recvfrom_chk(int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *);
EXPORT ssize_t __recvfrom_chk(int fd, void *to, size_t bytes, size_t room, int flags,
                              struct sockaddr *from, socklen_t *from_bytes)
{
    if (unlikely(bytes > room) && real_recvfrom_chk) {
        return real_recvfrom_chk(fd, to, bytes, room, flags, from, from_bytes);
    }
    return recvfrom(fd, to, bytes, flags, from, from_bytes);
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
    struct undisturbed since = undisturbed();
    int64_t began = transfer_began(since);
    struct msghdr form;
    if (unlikely(flags & MSG_WAITALL)) form = *m;
    ssize_t r = call_recvmsg(fd, m, flags);
    if (!suspect(r, SIZE_MAX, flags) || !was_ours(&since, r)) return r;
    if (r < 0) {
        form = *m; /* a call that fails changes nothing in it */
    } else if (form.msg_control && m->msg_controllen > 0) {
        return r; /* what came with descriptors ends where they were attached, as without us */
    }
    return recv_on(fd, &form, m, flags, since, began, r);
}

static int call_recvmmsg(int fd, struct mmsghdr *m, unsigned n, int flags, struct timespec *t)
{
    return likely(real_recvmmsg) ? real_recvmmsg(fd, m, n, flags, t)
                                 : (int)FALLBACK(SYS_recvmmsg, fd, m, n, flags, t);
}

#define KERNEL_ERESTARTSYS 512

/* An interruption after the first message is kept as the socket's error, raw (net/socket.c,
   do_recvmmsg), and comes back once. */
static ssize_t attempt_recvmmsg(const struct transfer *t, size_t done, bool nonblocking,
                                size_t *asked)
{
    *asked = t->total - done;
    struct mmsghdr *m = (struct mmsghdr *)(void *)t->vector + done;
    int flags = t->flags | (nonblocking ? MSG_DONTWAIT : 0);
    int r = call_recvmmsg(t->fd, m, (unsigned)*asked, flags, t->other);
    if (r < 0 && done > 0 && (errno == KERNEL_ERESTARTSYS || errno == EINTR)) {
        r = call_recvmmsg(t->fd, m, (unsigned)*asked, flags, t->other);
    }
    return r;
}

EXPORT int recvmmsg(int fd, struct mmsghdr *m, unsigned n, int flags, struct timespec *timeout)
{
    struct undisturbed since = undisturbed();
    int64_t began = transfer_began(since);
    int r = call_recvmmsg(fd, m, n, flags, timeout);
    if (likely((unsigned)r == n) || (r < 0 && errno != EINTR) || !was_ours(&since, r)) return r;
    struct transfer t = {.fd = fd,
                         .whole = !(flags & MSG_WAITFORONE),
                         .began = began,
                         .flags = flags,
                         .total = n,
                         .other = timeout,
                         .vector = (const struct iovec *)(const void *)m,
                         .attempt = attempt_recvmmsg};
    return (int)transfer_go_on(&t, since, r);
}
