/* end-of-pipe.c: the snapshot child is held up while it works (SIGSTOP reaches it): the end of a pipe that the program
   closes meanwhile is seen at once, its other calls go on, and the collection ends well when the child may go on (T14, H65).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "leaks.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>

#define BALLAST 300000

static volatile bool end;
static char own_id[16];
static void *volatile all;
static volatile unsigned done;

static void *collector(void *unused)
{
    while (!end) {
        collect(GLEANER_MAJOR);
        done++;
    }
    return NULL;
}

/* A long list, so that marking takes a while. */
NOINLINE static void *ballast(void)
{
    void **first = NULL;
    for (int i = 0; i < BALLAST; i++) {
        void **b = malloc(48);
        CHECK(b);
        *b = first;
        first = b;
    }
    return first;
}

/* A child of any thread of ours, 0: none now. */
static pid_t snapshot_child(void)
{
    DIR *threads = opendir("/proc/self/task");
    struct dirent *e;
    pid_t found = 0;
    CHECK(threads);
    while ((e = readdir(threads)) && !found) {
        char path[300], text[64];
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/children", e->d_name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 && strcmp(e->d_name, own_id) == 0) SKIP("the kernel does not list children");
        ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
        if (fd >= 0) close(fd);
        if (n <= 0) continue;
        text[n] = 0;
        found = (pid_t)atoi(text);
    }
    closedir(threads);
    return found;
}

static bool is_stopped(pid_t pid)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0) return false;
    text[n] = 0;
    char *name_ends = strrchr(text, ')');
    return name_ends && name_ends[2] == 'T';
}

/* Holds a child up; 0 if it ended before. */
static pid_t hold_one(void)
{
    pid_t pid;
    while ((pid = snapshot_child()) == 0) sched_yield();
    if (kill(pid, SIGSTOP) != 0) return 0;
    for (int i = 0; i < 200; i++) {
        if (is_stopped(pid)) return pid;
        short_sleep();
    }
    kill(pid, SIGCONT); /* it may have got no processor to stop on */
    return 0;
}

int main(void)
{
    int ends_of_pipe[2], seen = 0;
    char c;
    collections_are_there();
    snprintf(own_id, sizeof own_id, "%d", getpid());
    all = ballast();
    pthread_t t;
    CHECK(pthread_create(&t, NULL, collector, NULL) == 0);
    for (int tries = 0; tries < 60 && seen < 3; tries++) {
        CHECK(pipe(ends_of_pipe) == 0);
        pid_t pid = hold_one();
        unsigned before = done;
        CHECK(close(ends_of_pipe[1]) == 0);
        struct pollfd fd = {ends_of_pipe[0], POLLIN, 0};
        bool held_up = pid && is_stopped(pid);
        int ended = poll(&fd, 1, held_up ? 20000 : 0);
        if (held_up) {
            CHECK(is_stopped(pid));
            if (ended != 1 || !(fd.revents & POLLHUP)) FAIL("the child holds the pipe");
            CHECK(read(ends_of_pipe[0], &c, 1) == 0);
            free(malloc(100000));
            CHECK(kill(pid, SIGCONT) == 0);
            while (done == before) short_sleep(); /* the collection has its end */
            seen++;
        }
        close(ends_of_pipe[0]);
    }
    end = true;
    pthread_join(t, NULL);
    if (!seen) FAIL("no snapshot child was seen at work");
    return 0;
}
