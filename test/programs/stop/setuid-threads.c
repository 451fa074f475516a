/* setuid-threads.c: setuid and setgid act on all threads, by the same signal 33 that we use (T26).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "program.h"

static atomic_bool end;

static void *idle(void *unused)
{
    while (!atomic_load(&end)) {
        CHECK(getuid() == geteuid());
        usleep(500);
    }
    return NULL;
}

int main(void)
{
    pthread_t t[16];
    stopper_start(100, 0);
    for (int i = 0; i < 16; i++) CHECK(pthread_create(&t[i], NULL, idle, NULL) == 0);
    for (int64_t until = now_ns() + 1500000000; now_ns() < until || !stopper_had(10);) {
        CHECK(setgid(getgid()) == 0);
        CHECK(setuid(getuid()) == 0);
        CHECK(setresuid(-1, getuid(), -1) == 0);
        usleep(100);
    }
    atomic_store(&end, true);
    for (int i = 0; i < 16; i++) pthread_join(t[i], NULL);
    stopper_end(10);
    return 0;
}
