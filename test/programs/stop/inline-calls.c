/* inline-calls.c: threads that wait in system calls of their own, past libc and our wrappers, are left
   alone: the stop is incomplete, and they see no EINTR.  Also where earlier calls have left return addresses of our wrappers on
   the stack, in what is now an array that nothing was written to.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/syscall.h"
#include "program.h"
#include "thread_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

static int go_on; /* an eventfd, which ends both calls */
static atomic_int id[2];

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
    struct epoll_event ev = {.events = EPOLLIN};
    char unwritten[900];
    __asm__ volatile("" ::"r"(unwritten) : "memory");
    int fd = epoll_create1(0);
    CHECK(epoll_ctl(fd, EPOLL_CTL_ADD, go_on, &ev) == 0);
    atomic_store(&id[0], (int)syscall(SYS_gettid));
    long r = raw_syscall(SYS_epoll_pwait, fd, &ev, 1, -1, NULL, 8);
    if (r != 1) FAIL("epoll_pwait gave %ld", r);
    return NULL;
}

static __attribute__((noinline)) void *in_ppoll(void *unused)
{
    struct pollfd fd = {go_on, POLLIN, 0};
    char unwritten[900];
    __asm__ volatile("" ::"r"(unwritten) : "memory");
    atomic_store(&id[1], (int)syscall(SYS_gettid));
    long r = raw_syscall(SYS_ppoll, &fd, 1, NULL, NULL, 8);
    if (r != 1) FAIL("ppoll gave %ld", r);
    return NULL;
}

static void *in_used_stack(void *call)
{
    leave_return_addresses();
    void *(*in_call)(void *) = (void *(*)(void *))call;
    return in_call(NULL);
}

/* Until the thread sleeps in this call. */
static void wait_for_call(atomic_int *of, int call)
{
    char text[128];
    while (!atomic_load(of)) sched_yield();
    do {
        usleep(1000);
        CHECK(thread_file(atomic_load(of), "syscall", text, sizeof text));
    } while (text[0] < '0' || text[0] > '9' || atoi(text) != call);
}

int main(void)
{
    int (*stop)(long) = stopper_find();
    pthread_t t[2];
    uint64_t one = 1;
    CHECK((go_on = eventfd(0, 0)) >= 0);
    CHECK(pthread_create(&t[0], NULL, in_used_stack, (void *)in_epoll) == 0);
    CHECK(pthread_create(&t[1], NULL, in_used_stack, (void *)in_ppoll) == 0);
    wait_for_call(&id[0], SYS_epoll_pwait);
    wait_for_call(&id[1], SYS_ppoll);
    for (int i = 0; i < 3 && stop; i++) {
        if (stop(0) != 1) FAIL("a stop was complete");
    }
    CHECK(write(go_on, &one, sizeof one) == sizeof one);
    for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
    if (stop) stop_completely(stop, "without such calls");
    return 0;
}
