/* pending-signal.c: only a queued signal that is blocked holds it (H42).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#define CANNOT_BE_KNOWN
#include "place.h"

#include <signal.h>

static sigset_t usr1;

static void put(void *block)
{
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    CHECK(sigprocmask(SIG_BLOCK, &usr1, NULL) == 0);
    CHECK(sigqueue(getpid(), SIGUSR1, (union sigval){.sival_ptr = block}) == 0);
}

static void *take(void)
{
    siginfo_t info;
    CHECK(sigwaitinfo(&usr1, &info) == SIGUSR1);
    return info.si_value.sival_ptr;
}
