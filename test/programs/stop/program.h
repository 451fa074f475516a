/* program.h: what the test programs share.  A program ends with 0 if all went right, with or
   without the library; without it nothing stops.

   What stops the world is stop_for_test of fake-upper.c, or under the whole library collections, of
   which every eighth is a major one.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FAIL(...)                                                                                  \
    do {                                                                                           \
        dprintf(2, "%s:%d: ", __FILE__, __LINE__);                                                 \
        dprintf(2, __VA_ARGS__);                                                                   \
        dprintf(2, "\n");                                                                          \
        _exit(1);                                                                                  \
    } while (0)

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) FAIL("%s (errno %d)", #condition, errno);                                \
    } while (0)

static inline int64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static int (*stopper_collect)(int);

static inline int stopper_collects(long unused)
{
    static atomic_uint count;
    int error = stopper_collect(atomic_fetch_add(&count, 1) % 8 == 7);
    if (error != 0 && error != EAGAIN) FAIL("gleaner_collect gave %d", error);
    return error == 0 ? 2 : 1;
}

/* One stop: 2 if it was complete, 1 if not.  NULL without the library. */
__attribute__((noinline, unused)) static int (*stopper_find(void))(long)
{
    int (*stop)(long) = (int (*)(long))dlsym(RTLD_DEFAULT, "stop_for_test");
    stopper_collect = (int (*)(int))dlsym(RTLD_DEFAULT, "gleaner_collect");
    if (!stop && stopper_collect) stop = stopper_collects;
    if (getenv("LD_PRELOAD") && !stop) FAIL("the library is not there");
    return stop;
}

/* Until a stop is complete.  A thread that gets no processor within the time that a stop takes makes one incomplete, on a machine
   with other work; one that cannot be stopped makes all of them so. */
static inline void stop_completely(int (*stop)(long), const char *when)
{
    for (int tries = 0; tries < 50; tries++)
        if (stop(0) == 2) return;
    FAIL("50 stops were incomplete %s", when);
}

static struct {
    int (*stop)(long);
    long hold_us;
    int hz;
    atomic_int stops, incomplete;
    atomic_bool end;
    pthread_t thread;
} stopper;

static inline void *stopper_run(void *unused)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    while (!atomic_load(&stopper.end)) {
        int r = stopper.stop ? stopper.stop(stopper.hold_us) : 0;
        if (r == 2) atomic_fetch_add(&stopper.stops, 1);
        if (r == 1) atomic_fetch_add(&stopper.incomplete, 1);
        struct timespec ts = {0, 1000000000 / stopper.hz};
        nanosleep(&ts, NULL);
    }
    return NULL;
}

/* A thread that stops the world `hz` times a second, or as often as STOPS_A_SECOND says, for `hold_us`. */
static inline void stopper_start(int hz, long hold_us)
{
    const char *other_hz = getenv("STOPS_A_SECOND");
    stopper.stop = stopper_find();
    stopper.hz = other_hz ? atoi(other_hz) : hz;
    stopper.hold_us = hold_us;
    CHECK(pthread_create(&stopper.thread, NULL, stopper_run, NULL) == 0);
}

/* Were so many stops complete?  Else the program has shown nothing yet, and goes on: how many there are in some time is the machine's matter. */
static inline bool stopper_had(int least)
{
    static int64_t first;
    if (!stopper.stop || atomic_load(&stopper.stops) >= least) return true;
    if (first == 0) first = now_ns();
    if (now_ns() - first > 100000000000)
        FAIL("%d complete stops, %d incomplete", atomic_load(&stopper.stops), atomic_load(&stopper.incomplete));
    return false;
}

/* At least `least` stops were complete, or the test has shown nothing. */
static inline void stopper_end(int least)
{
    atomic_store(&stopper.end, true);
    pthread_join(stopper.thread, NULL);
    if (stopper.stop && atomic_load(&stopper.stops) < least) {
        FAIL("%d complete stops, %d incomplete", atomic_load(&stopper.stops),
             atomic_load(&stopper.incomplete));
    }
}

#endif
