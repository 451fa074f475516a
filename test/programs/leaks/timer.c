/* timer.c: only a timer's sigev_value holds it (T2, H40).  `thread`: of a timer that starts threads.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "place.h"

#include <signal.h>

static timer_t timer;
static volatile concealed arrived;
static sem_t came;

static void on_alarm(int sig, siginfo_t *info, void *context)
{
    arrived = conceal(info->si_value.sival_ptr);
    sem_post(&came);
}

static void on_thread(union sigval value)
{
    arrived = conceal(value.sival_ptr);
    scrub();
    sem_post(&came);
}

static void put(void *block)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM, .sigev_value.sival_ptr = block};
    struct sigaction action = {.sa_sigaction = on_alarm, .sa_flags = SA_SIGINFO};
    sem_init(&came, 0, 0);
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    if (strcmp(variant, "thread") == 0) {
        event.sigev_notify = SIGEV_THREAD;
        event.sigev_notify_function = on_thread;
    }
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
}

static void *take(void)
{
    struct itimerspec soon = {.it_value.tv_nsec = 1000000};
    CHECK(timer_settime(timer, 0, &soon, NULL) == 0);
    while (sem_wait(&came) != 0) continue;
    CHECK(timer_delete(timer) == 0);
    return reveal(arrived);
}
