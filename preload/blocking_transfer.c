/* blocking_transfer.c: the loop that finishes a transfer.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/blocking_transfer.h"
#include "heap/syscall.h"

#include <poll.h>
#include <sys/stat.h>
#include <sys/time.h>

size_t transfer_bytes(const struct iovec *vector, size_t count)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) n += vector[i].iov_len;
    return n;
}

size_t transfer_tail(const struct iovec *vector, size_t count, size_t done, struct iovec *one,
                     const struct iovec **from)
{
    size_t i = 0;
    while (i < count && done >= vector[i].iov_len) done -= vector[i++].iov_len;
    if (done == 0 || i == count) {
        *from = vector + i;
        return count - i;
    }
    *one = (struct iovec){(char *)vector[i].iov_base + done, vector[i].iov_len - done};
    *from = one;
    return 1;
}

/* SO_RCVTIMEO or SO_SNDTIMEO in nanoseconds; 0: none, or no socket. */
static int64_t timeout_of(int fd, bool writes)
{
    struct timeval tv = {0, 0};
    socklen_t n = sizeof tv;
    if (raw_syscall(SYS_getsockopt, fd, SOL_SOCKET, writes ? SO_SNDTIMEO : SO_RCVTIMEO, &tv, &n)) {
        return 0;
    }
    return (int64_t)tv.tv_sec * 1000000000 + (int64_t)tv.tv_usec * 1000;
}

#define COARSE_NS 10000000 /* the coarsest tick, HZ=100: rather late than early */

int transfer_wait(int fd, bool writes, int64_t began)
{
    int64_t timeout = timeout_of(fd, writes);
    if (timeout == 0) return 0;
    int64_t rest = began + timeout + COARSE_NS - blocking_now(CLOCK_MONOTONIC_COARSE);
    if (rest > 0) {
        struct pollfd p = {.fd = fd, .events = writes ? POLLOUT : POLLIN};
        int64_t ms = rest / 1000000 + 1;
        int n = poll(&p, 1, ms < INT32_MAX ? (int)ms : INT32_MAX); /* our own: undisturbed */
        if (n != 0) return n;
    }
    errno = EAGAIN;
    return -1;
}

static bool is_regular(int fd)
{
    struct stat st;
    return raw_syscall(SYS_fstat, fd, &st) == 0 && S_ISREG(st.st_mode);
}

ssize_t transfer_go_on(struct transfer *t, struct undisturbed since, ssize_t first)
{
    int e = errno;
    size_t done = first > 0 ? (size_t)first : 0;
    if (t->began == 0) t->began = blocking_now(CLOCK_MONOTONIC_COARSE);
    /* A file's write is not interrupted: a part is a full disk, or RLIMIT_FSIZE, which would send a
     * signal. */
    if (done > 0 && (!t->whole || is_regular(t->fd))) return first;
    for (;;) {
        size_t asked = 0;
        int ready = transfer_wait(t->fd, t->writes, t->began);
        ssize_t r = ready < 0 ? -1 : t->attempt(t, done, ready > 0, &asked);
        if (r > 0) {
            done += (size_t)r;
            if (!t->whole || done >= t->total) break;
            if ((size_t)r == asked || was_ours(&since, r)) continue;
            break;
        }
        if (r == 0) break;
        if (errno == EINTR && was_ours(&since, r)) continue;
        if (ready > 0 && errno == EAGAIN) continue; /* somebody else was faster */
        if (done == 0) return -1;
        break;
    }
    errno = e;
    return (ssize_t)done;
}
