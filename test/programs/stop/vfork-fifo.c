/* vfork-fifo.c: a thread hangs in posix_spawn, whose child opens a pipe that nobody opens yet: it
   cannot be stopped.  Stops are incomplete then, short, and complete again afterwards (T9).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char fifo[64];

static void *spawner(void *unused)
{
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, fifo, O_RDONLY, 0);
    char *argv[] = {"/bin/true", NULL}, *envp[] = {NULL};
    pid_t pid;
    int status;
    CHECK(posix_spawn(&pid, argv[0], &actions, NULL, argv, envp) == 0);
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    return NULL;
}

int main(void)
{
    int (*stop)(long) = stopper_find();
    snprintf(fifo, sizeof fifo, "/tmp/vfork-fifo.%d", getpid());
    CHECK(mkfifo(fifo, 0600) == 0);
    pthread_t t;
    CHECK(pthread_create(&t, NULL, spawner, NULL) == 0);
    usleep(200000);
    for (int i = 0; i < 5 && stop; i++) {
        int64_t began = now_ns();
        if (stop(0) != 1) FAIL("a stop was complete");
        int64_t ms = (now_ns() - began) / 1000000;
        if (ms > 1000) FAIL("a stop took %d ms", (int)ms);
    }
    int w = open(fifo, O_WRONLY);
    pthread_join(t, NULL);
    close(w);
    unlink(fifo);
    if (stop && stop(0) != 2) FAIL("a stop was incomplete");
    return 0;
}
