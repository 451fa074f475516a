/* blocking_transfer.h: going on with a transfer that a signal of ours cut short.

   A transfer is described once, by the slow path of its wrapper; `attempt` moves what is left of
   it.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_BLOCKING_TRANSFER_H
#define GLEANER_BLOCKING_TRANSFER_H

#include "preload/blocking.h"

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

struct transfer {
    int fd;
    bool writes;   /* which of the socket's timeouts counts, and what to poll for */
    bool whole;    /* the caller is owed all of it: a part is a consequence of our signal */
    size_t total;  /* bytes, or messages */
    int64_t began; /* transfer_began */
    int flags;
    const struct iovec *vector;
    size_t count;
    struct msghdr *message; /* the program's; where the call has one */
    void *other;            /* what else an attempt needs */
    /* Moves what is left after `done`, or a part of it; `*asked` says how much that was. Blocks,
       unless told not to. */
    ssize_t (*attempt)(const struct transfer *, size_t done, bool nonblocking, size_t *asked);
};

/* When the call began, for socket timeouts.  Read only once a signal of ours has ever been sent:
   before that it costs nothing, and a timeout that the very first one interrupts counts from there.
 */
static ALWAYS_INLINE int64_t transfer_began(struct undisturbed since)
{
    return likely(since.tickets == 0) ? 0 : blocking_now(CLOCK_MONOTONIC_COARSE);
}

/* `first` is the result of the call that `was_ours`; returns what the whole call shall return,
   errno with it. */
ssize_t transfer_go_on(struct transfer *t, struct undisturbed since, ssize_t first);

/* The elements of a vector after its first `done` bytes: whole elements, or, where `done` lies
   inside one, the rest of that one alone (in *one).  Returns how many; `*from` is the first of
   them. */
size_t transfer_tail(const struct iovec *vector, size_t count, size_t done, struct iovec *one,
                     const struct iovec **from);

size_t transfer_bytes(const struct iovec *vector, size_t count);

/* Waits until the socket is ready or its timeout, counted from `began`, is over.  1: it has a
   timeout and is ready; 0: it has none, so block as usual; -1: errno is EAGAIN (over), or EINTR. */
int transfer_wait(int fd, bool writes, int64_t began);

#endif
