/* inline-calls.c: threads that wait in system calls of their own, past libc and our wrappers, are left
   alone: the stop is incomplete, and they see no EINTR.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/syscall.h"
#include "program.h"

#include <sys/epoll.h>

static atomic_int ended;

static void *in_epoll(void *unused)
{
    struct epoll_event ev;
    int fd = epoll_create1(0);
    long r = raw_syscall(SYS_epoll_pwait, fd, &ev, 1, 500, NULL, 8);
    if (r != 0) FAIL("epoll_pwait gave %ld", r);
    atomic_fetch_add(&ended, 1);
    return NULL;
}

static void *in_nanosleep(void *unused)
{
    struct timespec ts = {0, 500000000};
    long r = raw_syscall(SYS_nanosleep, &ts, NULL);
    if (r != 0) FAIL("nanosleep gave %ld", r);
    atomic_fetch_add(&ended, 1);
    return NULL;
}

int main(void)
{
    int (*stop)(long) = stopper_find();
    pthread_t t[2];
    CHECK(pthread_create(&t[0], NULL, in_epoll, NULL) == 0);
    CHECK(pthread_create(&t[1], NULL, in_nanosleep, NULL) == 0);
    usleep(100000);
    for (int i = 0; i < 10 && stop && atomic_load(&ended) == 0; i++) {
        if (stop(0) != 1) FAIL("a stop was complete");
    }
    for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
    if (stop && stop(0) != 2) FAIL("a stop was incomplete");
    return 0;
}
