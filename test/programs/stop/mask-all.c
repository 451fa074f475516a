/* mask-all.c: a thread that blocks every signal and waits for every signal, and never sees ours
   (T8).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "program.h"

static void *waiter(void *unused)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    for (;;) {
        siginfo_t info;
        int sig = sigwaitinfo(&all, &info);
        if (sig == SIGTERM) return NULL;
        FAIL("sigwaitinfo gave %d, errno %d", sig, errno);
    }
}

int main(void)
{
    pthread_t t;
    CHECK(pthread_create(&t, NULL, waiter, NULL) == 0);
    stopper_start(100, 0);
    struct timespec ts = {0, 700000000};
    nanosleep(&ts, NULL);
    while (!stopper_had(10)) usleep(1000);
    CHECK(pthread_kill(t, SIGTERM) == 0);
    pthread_join(t, NULL);
    stopper_end(10);
    /* A thread that cannot be stopped makes every stop incomplete; one that gets no processor in time, a few. */
    if (atomic_load(&stopper.incomplete) > atomic_load(&stopper.stops))
        FAIL("%d complete stops, %d incomplete", atomic_load(&stopper.stops), atomic_load(&stopper.incomplete));
    return 0;
}
