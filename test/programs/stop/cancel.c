/* cancel.c: wrapped calls are cancellation points still, while the world stops.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "program.h"

#include <poll.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>

static int none[2], sockets[2], quiet[2];
static sem_t semaphore;

static void in_nanosleep(void)
{
    sleep(100);
}
static void in_usleep(void)
{
    usleep(100000000);
}
static void in_poll(void)
{
    poll(NULL, 0, -1);
}
static void in_pause(void)
{
    pause();
}
static void in_read(void)
{
    char c;
    if (read(none[0], &c, 1)) return;
}
static void in_recv(void)
{
    char c;
    recv(quiet[0], &c, 1, 0);
}
static void in_write(void)
{
    static char big[1 << 20];
    while (write(sockets[1], big, sizeof big) > 0) continue;
}
static void in_sem(void)
{
    struct timespec until = {INT32_MAX, 0};
    sem_timedwait(&semaphore, &until);
}
static void in_sigwait(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGWINCH);
    sigwaitinfo(&set, NULL);
}

static void clean(void *to)
{
    atomic_fetch_add((atomic_int *)to, 1);
}

static atomic_int cleanups;

static void *run(void *f)
{
    pthread_cleanup_push(clean, &cleanups);
    ((void (*)(void))f)();
    pthread_cleanup_pop(0);
    return NULL;
}

int main(void)
{
    static void (*const all[])(void) = {in_nanosleep, in_usleep, in_poll, in_pause,  in_read,
                                        in_recv,      in_write,  in_sem,  in_sigwait};
    enum { N = sizeof all / sizeof all[0] };
    CHECK(pipe(none) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, quiet) == 0);
    sem_init(&semaphore, 0, 0);
    stopper_start(200, 500);
    for (int turn = 0; turn < 10 || !stopper_had(20); turn++) {
        for (int i = 0; i < N; i++) {
            pthread_t t;
            void *r;
            int before = atomic_load(&cleanups);
            CHECK(pthread_create(&t, NULL, run, (void *)all[i]) == 0);
            usleep((unsigned)(turn * 700));
            CHECK(pthread_cancel(t) == 0 && pthread_join(t, &r) == 0);
            if (r != PTHREAD_CANCELED) FAIL("call %d was not cancelled", i);
            if (atomic_load(&cleanups) != before + 1) FAIL("no clean-up in call %d", i);
        }
    }
    stopper_end(20);
    return 0;
}
