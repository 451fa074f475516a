/* blocking_time.c: sleeping.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/syscall.h"
#include "preload/blocking.h"

#include <threads.h>
#include <unistd.h>

static int (*real_nanosleep)(const struct timespec *, struct timespec *);
static int (*real_clock_nanosleep)(clockid_t, int, const struct timespec *, struct timespec *);
static int (*real_thrd_sleep)(const struct timespec *, struct timespec *);

void blocking_time_start(void)
{
    real_nanosleep = blocking_real("nanosleep");
    real_clock_nanosleep = blocking_real("clock_nanosleep");
    real_thrd_sleep = blocking_real("thrd_sleep");
}

static int call_nanosleep(const struct timespec *t, struct timespec *rest)
{
    if (unlikely(!real_nanosleep)) return (int)FALLBACK(SYS_nanosleep, t, rest);
    return real_nanosleep(t, rest);
}

/* The kernel tells what is left, to the nanosecond. */
static int sleep_through(const struct timespec *t, struct timespec *rest)
{
    struct undisturbed since = undisturbed();
    struct timespec left;
    int r = call_nanosleep(t, &left);
    while (unlikely(r != 0) && errno == EINTR && eintr_was_ours(&since)) {
        struct timespec again = left;
        r = call_nanosleep(&again, &left);
    }
    if (r != 0 && errno == EINTR && rest) *rest = left;
    return r;
}

EXPORT int nanosleep(const struct timespec *t, struct timespec *rest)
{
    return sleep_through(t, rest);
}

ALSO_KNOWN_AS(nanosleep, __nanosleep);

/* libc's own goes by clock_nanosleep inside libc, which no wrapper sees; POSIX: returns the seconds
   left, rounded. */
EXPORT unsigned sleep(unsigned seconds)
{
    struct timespec t = {(time_t)seconds, 0}, rest = {0, 0};
    int e = errno;
    if (sleep_through(&t, &rest) != 0) {
        return (unsigned)rest.tv_sec + (rest.tv_nsec >= 500000000);
    }
    errno = e;
    return 0;
}

EXPORT int usleep(useconds_t us)
{
    struct timespec t = {us / 1000000, (long)(us % 1000000) * 1000};
    return sleep_through(&t, NULL);
}

static int call_clock_nanosleep(clockid_t clock, int flags, const struct timespec *t,
                                struct timespec *rest)
{
    if (unlikely(!real_clock_nanosleep)) {
        return (int)-raw_syscall(SYS_clock_nanosleep, clock, flags, t, rest);
    }
    return real_clock_nanosleep(clock, flags, t, rest);
}

EXPORT int clock_nanosleep(clockid_t clock, int flags, const struct timespec *t,
                           struct timespec *rest)
{
    struct undisturbed since = undisturbed();
    if (flags & TIMER_ABSTIME) {
        int r;
        do r = call_clock_nanosleep(clock, flags, t, rest);
        while (unlikely(r == EINTR) && eintr_was_ours(&since));
        return r;
    }
    struct timespec left;
    int r = call_clock_nanosleep(clock, flags, t, &left);
    while (unlikely(r == EINTR) && eintr_was_ours(&since)) {
        struct timespec again = left;
        r = call_clock_nanosleep(clock, flags, &again, &left);
    }
    if (r == EINTR && rest) *rest = left;
    return r;
}

/* -1: interrupted, another negative value: an error (C11 7.26.5.7). */
EXPORT int thrd_sleep(const struct timespec *t, struct timespec *rest)
{
    if (unlikely(!real_thrd_sleep)) return sleep_through(t, rest);
    struct undisturbed since = undisturbed();
    struct timespec left;
    int r = real_thrd_sleep(t, &left);
    while (unlikely(r == -1) && eintr_was_ours(&since)) {
        struct timespec again = left;
        r = real_thrd_sleep(&again, &left);
    }
    if (r == -1 && rest) *rest = left;
    return r;
}
