/* blocking_sem.c: semaphores, message queues of System V, and asynchronous I/O.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef _FILE_OFFSET_BITS /* or the plain names become those with 64 */
#include "heap/syscall.h"
#include "preload/blocking.h"

#include <aio.h>
#include <semaphore.h>
#include <sys/msg.h>
#include <sys/sem.h>

static int (*real_sem_timedwait)(sem_t *, const struct timespec *);
static int (*real_sem_clockwait)(sem_t *, clockid_t, const struct timespec *);
static int (*real_semop)(int, struct sembuf *, size_t);
static int (*real_semtimedop)(int, struct sembuf *, size_t, const struct timespec *);
static ssize_t (*real_msgrcv)(int, void *, size_t, long, int);
static int (*real_msgsnd)(int, const void *, size_t, int);
static int (*real_aio_suspend)(const struct aiocb *const *, int, const struct timespec *);

void blocking_sem_start(void)
{
    real_sem_timedwait = blocking_real("sem_timedwait");
    real_sem_clockwait = blocking_real("sem_clockwait");
    real_semop = blocking_real("semop");
    real_semtimedop = blocking_real("semtimedop");
    real_msgrcv = blocking_real("msgrcv");
    real_msgsnd = blocking_real("msgsnd");
    real_aio_suspend = blocking_real("aio_suspend");
}

#define REPEAT(type, call)                                                                         \
    struct undisturbed since = undisturbed();                                                      \
    type r;                                                                                        \
    do r = (call);                                                                                 \
    while (unlikely(r < 0) && errno == EINTR && eintr_was_ours(&since));                           \
    return r

/* Absolute times.  What libc keeps in a sem_t is its own, so there is nothing to fall back to. */
EXPORT int sem_timedwait(sem_t *sem, const struct timespec *until)
{
    if (unlikely(!real_sem_timedwait)) return errno = ENOSYS, -1;
    REPEAT(int, real_sem_timedwait(sem, until));
}

EXPORT int sem_clockwait(sem_t *sem, clockid_t clock, const struct timespec *until)
{
    if (unlikely(!real_sem_clockwait)) return errno = ENOSYS, -1;
    REPEAT(int, real_sem_clockwait(sem, clock, until));
}

EXPORT int semop(int id, struct sembuf *ops, size_t n)
{
    REPEAT(int, likely(real_semop) ? real_semop(id, ops, n)
                                   : (int)FALLBACK(SYS_semtimedop, id, ops, n, NULL));
}

static int call_semtimedop(int id, struct sembuf *ops, size_t n, const struct timespec *t)
{
    if (likely(real_semtimedop)) return real_semtimedop(id, ops, n, t);
    return (int)FALLBACK(SYS_semtimedop, id, ops, n, t);
}

EXPORT int semtimedop(int id, struct sembuf *ops, size_t n, const struct timespec *timeout)
{
    struct undisturbed since = undisturbed();
    int64_t began = timeout ? blocking_now(CLOCK_MONOTONIC) : 0;
    int r = call_semtimedop(id, ops, n, timeout);
    while (unlikely(r < 0) && errno == EINTR && eintr_was_ours(&since)) {
        struct timespec rest;
        if (timeout) rest = blocking_rest(timeout, began);
        r = call_semtimedop(id, ops, n, timeout ? &rest : NULL);
    }
    return r;
}

EXPORT ssize_t msgrcv(int id, void *to, size_t bytes, long type, int flags)
{
    REPEAT(ssize_t, likely(real_msgrcv) ? real_msgrcv(id, to, bytes, type, flags)
                                        : FALLBACK(SYS_msgrcv, id, to, bytes, type, flags));
}

EXPORT int msgsnd(int id, const void *from, size_t bytes, int flags)
{
    REPEAT(int, likely(real_msgsnd) ? real_msgsnd(id, from, bytes, flags)
                                    : (int)FALLBACK(SYS_msgsnd, id, from, bytes, flags));
}

/* libc keeps the list of requests, so there is nothing to fall back to. */
EXPORT int aio_suspend(const struct aiocb *const list[], int n, const struct timespec *timeout)
{
    if (unlikely(!real_aio_suspend)) return errno = ENOSYS, -1;
    struct undisturbed since = undisturbed();
    int64_t began = timeout ? blocking_now(CLOCK_MONOTONIC) : 0;
    int r = real_aio_suspend(list, n, timeout);
    while (unlikely(r < 0) && errno == EINTR && eintr_was_ours(&since)) {
        struct timespec rest;
        if (timeout) rest = blocking_rest(timeout, began);
        r = real_aio_suspend(list, n, timeout ? &rest : NULL);
    }
    return r;
}

EXPORT int aio_suspend64(const struct aiocb64 *const list[], int n, const struct timespec *timeout)
{
    return aio_suspend((const struct aiocb *const *)(const void *)list, n, timeout);
}
