/* vfork-fifo.c: a thread hangs in posix_spawn, whose child opens a pipe that nobody opens yet: it
   cannot be stopped.  Stops are incomplete then, short, and complete again afterwards (T9), also those that wait after a failure: five at
   once are one to them.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "program.h"
#include "thread_file.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char fifo[64];
static atomic_int id;

static void *spawner(void *unused)
{
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, fifo, O_RDONLY, 0);
    char *argv[] = {"/bin/true", NULL}, *envp[] = {NULL};
    pid_t pid;
    int status;
    atomic_store(&id, (int)syscall(SYS_gettid));
    CHECK(posix_spawn(&pid, argv[0], &actions, NULL, argv, envp) == 0);
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    return NULL;
}

/* Until the thread waits in vfork for its child to go on to another program. */
static void wait_until_it_hangs(void)
{
    char text[512];
    const char *at;
    while (!atomic_load(&id)) sched_yield();
    do {
        usleep(20000);
        CHECK(thread_file(atomic_load(&id), "stat", text, sizeof text));
        at = strrchr(text, ')');
    } while (!at || at[2] != 'D');
}

int main(void)
{
    int (*stop)(long) = stopper_find();
    snprintf(fifo, sizeof fifo, "/tmp/vfork-fifo.%d", getpid());
    CHECK(mkfifo(fifo, 0600) == 0);
    pthread_t t;
    CHECK(pthread_create(&t, NULL, spawner, NULL) == 0);
    wait_until_it_hangs();
    int64_t shortest = INT64_MAX; /* each waits no longer than it may, but the machine may have other work */
    for (int i = 0; i < 5 && stop; i++) {
        int64_t began = now_ns();
        if (stop(0) != 1) FAIL("a stop was complete");
        int64_t ms = (now_ns() - began) / 1000000;
        if (ms < shortest) shortest = ms;
    }
    if (stop && shortest > 1000) FAIL("each stop took %d ms or more", (int)shortest);
    int (*in_time)(long) = (int (*)(long))dlsym(RTLD_DEFAULT, "stop_in_time_for_test");
    if (in_time && in_time(0) != 0) FAIL("a stop did not wait after one that was incomplete");
    int w = open(fifo, O_WRONLY);
    pthread_join(t, NULL);
    close(w);
    unlink(fifo);
    for (int64_t late = now_ns() + 15000000000; in_time && in_time(0) != 2; usleep(100000))
        if (now_ns() > late) FAIL("no stop after five that were incomplete");
    if (stop) stop_completely(stop, "after posix_spawn");
    return 0;
}
