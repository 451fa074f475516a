/* unjoined.c: as the result of a thread that has ended and was not joined (H29, H30).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#define STAYS /* in the stack of the thread, which libc keeps for the next one */
#include "place.h"

static pthread_t thread;
static volatile pid_t tid;

static void *run(void *block)
{
    tid = (pid_t)syscall(SYS_gettid);
    return block;
}

static void put(void *block)
{
    CHECK(pthread_create(&thread, NULL, run, block) == 0);
    while (!tid) short_sleep();
    wait_until_gone(tid);
}

static void *take(void)
{
    void *block;
    CHECK(pthread_join(thread, &block) == 0);
    return block;
}
