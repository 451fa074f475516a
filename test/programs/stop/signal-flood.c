/* signal-flood.c: with the queue of signals full, a stop gives up in time and leaves the program
   alone; when there is room again it works (T28).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "program.h"

#include <sys/resource.h>

static atomic_bool end;

static void *idle(void *unused)
{
    while (!atomic_load(&end)) usleep(1000);
    return NULL;
}

int main(void)
{
    int (*stop)(long) = stopper_find();
    struct rlimit few = {200, 200};
    sigset_t rt;
    sigemptyset(&rt);
    sigaddset(&rt, SIGRTMIN);
    pthread_sigmask(SIG_BLOCK, &rt, NULL);
    pthread_t t;
    CHECK(pthread_create(&t, NULL, idle, NULL) == 0);
    CHECK(setrlimit(RLIMIT_SIGPENDING, &few) == 0);
    /* The limit is the user's: another process may make room between the filling and the stop. */
    int queued = 0, result = 2;
    for (int attempt = 0; attempt < 50 && result == 2; attempt++) {
        while (sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = queued}) == 0) queued++;
        CHECK(errno == EAGAIN);
        if (!stop) break;
        int64_t began = now_ns();
        result = stop(0);
        if (now_ns() - began > 2000000000) FAIL("a stop took seconds");
    }
    if (stop && result != 1) FAIL("stops were complete without their signal");
    for (int i = 0; i < queued; i++) {
        siginfo_t info;
        CHECK(sigwaitinfo(&rt, &info) == SIGRTMIN && info.si_value.sival_int == i);
    }
    if (stop) stop_completely(stop, "with room in the queue");
    atomic_store(&end, true);
    pthread_join(t, NULL);
    return 0;
}
