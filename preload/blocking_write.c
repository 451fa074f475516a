/* blocking_write.c: read and write on any descriptor, sendfile, getrandom.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef _FILE_OFFSET_BITS /* or the plain names become those with 64 */
#include "heap/syscall.h"
#include "preload/blocking_transfer.h"

#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

static ssize_t (*real_read)(int, void *, size_t);
static ssize_t (*real_read_chk)(int, void *, size_t, size_t);
static ssize_t (*real_readv)(int, const struct iovec *, int);
static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_writev)(int, const struct iovec *, int);
static ssize_t (*real_sendfile)(int, int, off_t *, size_t);
static ssize_t (*real_getrandom)(void *, size_t, unsigned);

void blocking_write_start(void)
{
    real_read = blocking_real("read");
    real_read_chk = blocking_real("__read_chk");
    real_readv = blocking_real("readv");
    real_write = blocking_real("write");
    real_writev = blocking_real("writev");
    real_sendfile = blocking_real("sendfile");
    real_getrandom = blocking_real("getrandom");
}

static ssize_t call_read(int fd, void *to, size_t bytes)
{
    return likely(real_read) ? real_read(fd, to, bytes) : FALLBACK(SYS_read, fd, to, bytes);
}

static ssize_t call_readv(int fd, const struct iovec *v, int n)
{
    return likely(real_readv) ? real_readv(fd, v, n) : FALLBACK(SYS_readv, fd, v, n);
}

static ssize_t call_write(int fd, const void *from, size_t bytes)
{
    return likely(real_write) ? real_write(fd, from, bytes) : FALLBACK(SYS_write, fd, from, bytes);
}

static ssize_t call_writev(int fd, const struct iovec *v, int n)
{
    return likely(real_writev) ? real_writev(fd, v, n) : FALLBACK(SYS_writev, fd, v, n);
}

/* A nonblocking attempt is made only on a socket with a timeout. */
static ssize_t attempt_read(const struct transfer *t, size_t done, bool nonblocking, size_t *asked)
{
    *asked = t->total;
    if (nonblocking) {
        struct msghdr m = {.msg_iov = (struct iovec *)t->vector, .msg_iovlen = t->count};
        return FALLBACK(SYS_recvmsg, t->fd, &m, MSG_DONTWAIT);
    }
    return t->count == 1 ? call_read(t->fd, t->vector->iov_base, t->vector->iov_len)
                         : call_readv(t->fd, t->vector, (int)t->count);
}

static COLD ssize_t read_on(int fd, const struct iovec *v, size_t n, struct undisturbed since,
                            int64_t began, ssize_t first)
{
    struct transfer t = {.fd = fd,
                         .began = began,
                         .vector = v,
                         .count = n,
                         .total = transfer_bytes(v, n),
                         .attempt = attempt_read};
    return transfer_go_on(&t, since, first);
}

EXPORT ssize_t read(int fd, void *to, size_t bytes)
{
    struct undisturbed since = undisturbed();
    int64_t began = transfer_began(since);
    ssize_t r = call_read(fd, to, bytes);
    if (likely(r >= 0) || errno != EINTR || !was_ours(&since, r)) return r;
    struct iovec v = {to, bytes};
    return read_on(fd, &v, 1, since, began, r);
}

ALSO_KNOWN_AS(read, __read);

ssize_t __read_chk(int, void *, size_t, size_t);
EXPORT ssize_t __read_chk(int fd, void *to, size_t bytes, size_t room)
{
    if (unlikely(bytes > room) && real_read_chk) return real_read_chk(fd, to, bytes, room);
    return read(fd, to, bytes);
}

EXPORT ssize_t readv(int fd, const struct iovec *v, int n)
{
    struct undisturbed since = undisturbed();
    int64_t began = transfer_began(since);
    ssize_t r = call_readv(fd, v, n);
    if (likely(r >= 0) || errno != EINTR || !was_ours(&since, r)) return r;
    return read_on(fd, v, (size_t)n, since, began, r);
}

static ssize_t attempt_write(const struct transfer *t, size_t done, bool nonblocking, size_t *asked)
{
    struct iovec one;
    const struct iovec *from;
    size_t n = transfer_tail(t->vector, t->count, done, &one, &from);
    *asked = transfer_bytes(from, n);
    if (nonblocking) {
        struct msghdr m = {.msg_iov = (struct iovec *)from, .msg_iovlen = n};
        return FALLBACK(SYS_sendmsg, t->fd, &m, MSG_DONTWAIT);
    }
    return n == 1 ? call_write(t->fd, from->iov_base, from->iov_len)
                  : call_writev(t->fd, from, (int)n);
}

static COLD ssize_t write_on(int fd, const struct iovec *v, size_t n, size_t total,
                             struct undisturbed since, int64_t began, ssize_t first)
{
    struct transfer t = {.fd = fd,
                         .writes = true,
                         .whole = true,
                         .began = began,
                         .vector = v,
                         .count = n,
                         .total = total,
                         .attempt = attempt_write};
    return transfer_go_on(&t, since, first);
}

EXPORT ssize_t write(int fd, const void *from, size_t bytes)
{
    struct undisturbed since = undisturbed();
    int64_t began = transfer_began(since);
    ssize_t r = call_write(fd, from, bytes);
    if (likely((size_t)r == bytes) || (r < 0 && errno != EINTR) || !was_ours(&since, r)) return r;
    struct iovec v = {(void *)from, bytes};
    return write_on(fd, &v, 1, bytes, since, began, r);
}

ALSO_KNOWN_AS(write, __write);

EXPORT ssize_t writev(int fd, const struct iovec *v, int n)
{
    struct undisturbed since = undisturbed();
    int64_t began = transfer_began(since);
    ssize_t r = call_writev(fd, v, n);
    if ((r < 0 && errno != EINTR) || likely(!was_ours(&since, r))) return r;
    size_t total = transfer_bytes(v, (size_t)n);
    return (size_t)r == total ? r : write_on(fd, v, (size_t)n, total, since, began, r);
}

struct file_part {
    int in;
    off_t *offset;
};

static ssize_t call_sendfile(int out, int in, off_t *offset, size_t bytes)
{
    return likely(real_sendfile) ? real_sendfile(out, in, offset, bytes)
                                 : FALLBACK(SYS_sendfile, out, in, offset, bytes);
}

/* The kernel has moved the offset by what was sent. */
static ssize_t attempt_sendfile(const struct transfer *t, size_t done, bool nonblocking,
                                size_t *asked)
{
    const struct file_part *p = t->other;
    *asked = t->total - done;
    return call_sendfile(t->fd, p->in, p->offset, *asked);
}

EXPORT ssize_t sendfile(int out, int in, off_t *offset, size_t bytes)
{
    struct undisturbed since = undisturbed();
    int64_t began = transfer_began(since);
    ssize_t r = call_sendfile(out, in, offset, bytes);
    if (likely((size_t)r == bytes) || (r < 0 && errno != EINTR) || !was_ours(&since, r)) return r;
    struct file_part p = {in, offset};
    struct stat st;
    /* Into a pipe it returns when the pipe is full, without us too. */
    bool pipe = raw_syscall(SYS_fstat, out, &st) == 0 && S_ISFIFO(st.st_mode);
    struct transfer t = {.fd = out,
                         .writes = true,
                         .whole = !pipe,
                         .began = began,
                         .total = bytes,
                         .other = &p,
                         .attempt = attempt_sendfile};
    return transfer_go_on(&t, since, r);
}

ALSO_KNOWN_AS(sendfile, sendfile64); /* off_t has 64 bits on our machines */

/* More than 256 bytes at once are interruptible (getrandom(2)). */
EXPORT ssize_t getrandom(void *to, size_t bytes, unsigned flags)
{
    struct undisturbed since = undisturbed();
    size_t done = 0;
    ssize_t r;
    do {
        r = likely(real_getrandom)
                ? real_getrandom((char *)to + done, bytes - done, flags)
                : FALLBACK(SYS_getrandom, (char *)to + done, bytes - done, flags);
        if (r > 0) done += (size_t)r;
    } while (unlikely(done < bytes) && (r > 0 || (r < 0 && errno == EINTR)) && was_ours(&since, r));
    return done > 0 ? (ssize_t)done : r;
}
