/* inline-calls.c: threads that wait in system calls of their own, past libc and our wrappers, are left
   alone: the stop is incomplete, and they see no EINTR.  Also where earlier calls have left return addresses of our wrappers on
   the stack, in what is now an array that nothing was written to.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/syscall.h"
#include "program.h"

#include <sys/epoll.h>

static atomic_int ended;

static __attribute__((noinline)) void wrapped_calls(int depth)
{
    char frame[64];
    __asm__ volatile("" ::"r"(frame) : "memory");
    if (depth > 0) wrapped_calls(depth - 1);
    else usleep(1);
    __asm__ volatile("" ::"r"(frame) : "memory");
}

static void leave_return_addresses(void)
{
    for (int depth = 8; depth >= 0; depth--) wrapped_calls(depth);
}

static __attribute__((noinline)) void *in_epoll(void *unused)
{
    struct epoll_event ev;
    char unwritten[900];
    __asm__ volatile("" ::"r"(unwritten) : "memory");
    int fd = epoll_create1(0);
    long r = raw_syscall(SYS_epoll_pwait, fd, &ev, 1, 500, NULL, 8);
    if (r != 0) FAIL("epoll_pwait gave %ld", r);
    atomic_fetch_add(&ended, 1);
    return NULL;
}

static __attribute__((noinline)) void *in_nanosleep(void *unused)
{
    char unwritten[900];
    __asm__ volatile("" ::"r"(unwritten) : "memory");
    struct timespec ts = {0, 500000000};
    long r = raw_syscall(SYS_nanosleep, &ts, NULL);
    if (r != 0) FAIL("nanosleep gave %ld", r);
    atomic_fetch_add(&ended, 1);
    return NULL;
}

static void *in_used_stack(void *call)
{
    leave_return_addresses();
    void *(*in_call)(void *) = (void *(*)(void *))call;
    return in_call(NULL);
}

int main(void)
{
    int (*stop)(long) = stopper_find();
    pthread_t t[2];
    CHECK(pthread_create(&t[0], NULL, in_used_stack, (void *)in_epoll) == 0);
    CHECK(pthread_create(&t[1], NULL, in_used_stack, (void *)in_nanosleep) == 0);
    usleep(100000);
    for (int i = 0; i < 10 && stop && atomic_load(&ended) == 0; i++) {
        if (stop(0) != 1) FAIL("a stop was complete");
    }
    for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
    if (stop && stop(0) != 2) FAIL("a stop was incomplete");
    return 0;
}
