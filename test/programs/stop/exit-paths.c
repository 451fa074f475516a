/* exit-paths.c: the ways in which a program ends, while the world stops and snapshots are taken
   (T30). run.c sees that no child is left over.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "program.h"

static void *worker_that_exits(void *unused)
{
    usleep(300000);
    exit(0);
}

static void *idle(void *unused)
{
    for (;;) usleep(1000);
    return NULL;
}

static void leave(int sig)
{
    _exit(0);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "return";
    pthread_t t;
    stopper_start(200, 0);
    CHECK(pthread_create(&t, NULL, idle, NULL) == 0);
    if (strcmp(how, "main-thread-first") == 0) {
        CHECK(pthread_create(&t, NULL, worker_that_exits, NULL) == 0);
        pthread_exit(NULL);
    }
    usleep(300000);
    if (strcmp(how, "handler") == 0) {
        signal(SIGALRM, leave);
        alarm(1);
        for (;;) pause();
    }
    if (strcmp(how, "quick_exit") == 0) quick_exit(0);
    if (strcmp(how, "exit") == 0) exit(0);
    return 0;
}
