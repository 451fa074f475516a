/* own-signals.c: while the world stops 100 times a second, a signal handler of the program (without
   SA_RESTART) still interrupts each blocking call, every time (the other half of T10); with
   SA_RESTART it interrupts what it would interrupt without us; and sigaction reports what was
   installed.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "program.h"
#include "thread_file.h"

#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>

static atomic_uint handled;
static void on_usr1(int sig)
{
    atomic_fetch_add(&handled, 1);
}
static void on_usr1_info(int sig, siginfo_t *info, void *context)
{
    if (info->si_signo != SIGUSR1 || info->si_pid != getpid() || !context) FAIL("wrong siginfo");
    atomic_fetch_add(&handled, 1);
}

static int pipe_of_nothing[2], epoll_fd, socket_fd[2];
static sem_t semaphore;
static const struct timespec long_ts = {20, 0};

static long do_nanosleep(void)
{
    return nanosleep(&long_ts, NULL);
}
static long do_clock_nanosleep(void)
{
    errno = clock_nanosleep(CLOCK_MONOTONIC, 0, &long_ts, NULL);
    return errno ? -1 : 0;
}
static long do_poll(void)
{
    return poll(NULL, 0, 20000);
}
static long do_ppoll(void)
{
    return ppoll(NULL, 0, &long_ts, NULL);
}
static long do_select(void)
{
    struct timeval tv = {20, 0};
    return select(0, NULL, NULL, NULL, &tv);
}
static long do_epoll(void)
{
    struct epoll_event ev;
    return epoll_wait(epoll_fd, &ev, 1, -1);
}
static long do_pause(void)
{
    return pause();
}
static long do_sigtimedwait(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGWINCH);
    return sigtimedwait(&set, NULL, &long_ts);
}
static long do_read(void)
{
    char c;
    return read(pipe_of_nothing[0], &c, 1);
}
static long do_recv(void)
{
    char c;
    return recv(socket_fd[0], &c, 1, 0); /* has SO_RCVTIMEO */
}
static long do_sem(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20;
    return sem_timedwait(&semaphore, &until);
}
static long do_usleep(void)
{
    return usleep(20000000);
}

static struct call {
    const char *name;
    long (*call)(void);
    bool restarts; /* SA_RESTART makes it go on */
} calls[] = {
    {"nanosleep", do_nanosleep, false}, {"clock_nanosleep", do_clock_nanosleep, false},
    {"poll", do_poll, false},           {"ppoll", do_ppoll, false},
    {"select", do_select, false},       {"epoll_wait", do_epoll, false},
    {"pause", do_pause, false},         {"sigtimedwait", do_sigtimedwait, false},
    {"recv", do_recv, false},           {"sem_timedwait", do_sem, false},
    {"usleep", do_usleep, false},       {"read", do_read, true},
};

static atomic_int tid;
static atomic_uint finished;

static void *caller(void *argument)
{
    struct call *c = argument;
    atomic_store(&tid, (int)syscall(SYS_gettid));
    errno = 0;
    long r = c->call();
    if (r != -1 || errno != EINTR) FAIL("%s gave %ld, errno %d", c->name, r, errno);
    atomic_fetch_add(&finished, 1);
    return NULL;
}

/* Where the thread sleeps in the kernel: what the kernel says of its call; false where it runs, parks or opens something.  Semaphores sleep
   in a futex, as parked threads do: in that of the semaphore's own word. */
static bool sleeps_in(int id, char *text, size_t bytes)
{
    unsigned long word = 0;
    if (!thread_file(id, "syscall", text, bytes) || text[0] < '0' || text[0] > '9' || atoi(text) == SYS_openat) return false;
    return atoi(text) != SYS_futex || (sscanf(text, "%*d %lx", &word) == 1 && word == (uintptr_t)&semaphore);
}

/* For good, as far as one can see: a new thread may wait for the lock of the address space, too, and a signal that comes before the call
   interrupts nothing. */
static bool asleep(int id)
{
    char once[128], again[128];
    if (!sleeps_in(id, once, sizeof once)) return false;
    usleep(2000);
    return sleeps_in(id, again, sizeof again) && strcmp(once, again) == 0;
}

static void wait_until_asleep(void)
{
    while (!atomic_load(&tid)) sched_yield();
    while (!asleep(atomic_load(&tid))) usleep(200);
}

static void interrupt(struct call *c, unsigned turn)
{
    pthread_t t;
    atomic_store(&tid, 0);
    unsigned before = atomic_load(&finished), handled_before = atomic_load(&handled);
    CHECK(pthread_create(&t, NULL, caller, c) == 0);
    wait_until_asleep();
    usleep(turn * 977 % 12000); /* anywhere between two stops */
    CHECK(pthread_kill(t, SIGUSR1) == 0);
    int64_t sent = now_ns();
    while (atomic_load(&finished) == before) {
        if (now_ns() - sent > 15000000000) FAIL("%s did not see the program's signal", c->name);
        usleep(500);
    }
    pthread_join(t, NULL);
    CHECK(atomic_load(&handled) == handled_before + 1);
}

static void reports_what_was_installed(void)
{
    struct sigaction a = {.sa_handler = on_usr1, .sa_flags = SA_NODEFER}, old;
    sigaddset(&a.sa_mask, SIGHUP);
    CHECK(sigaction(SIGUSR2, &a, &old) == 0 && old.sa_handler == SIG_DFL);
    CHECK(sigaction(SIGUSR2, NULL, &old) == 0 && old.sa_handler == on_usr1);
    CHECK((old.sa_flags & (SA_NODEFER | SA_SIGINFO | SA_RESTART)) == SA_NODEFER);
    CHECK(sigismember(&old.sa_mask, SIGHUP) && !sigismember(&old.sa_mask, SIGINT));
    a.sa_flags = SA_SIGINFO;
    a.sa_sigaction = on_usr1_info;
    CHECK(sigaction(SIGUSR2, &a, &old) == 0 && old.sa_handler == on_usr1);
    CHECK(signal(SIGUSR2, SIG_IGN) == (void (*)(int))(void *)on_usr1_info);
    CHECK(signal(SIGUSR2, on_usr1) == SIG_IGN);
    CHECK(signal(SIGUSR2, SIG_DFL) == on_usr1);
    CHECK(sigaction(SIGKILL, &a, NULL) == -1 && errno == EINVAL);
    CHECK(sigaction(33, &a, NULL) == -1 && errno == EINVAL);
    CHECK(signal(77, on_usr1) == SIG_ERR && errno == EINVAL);
    a.sa_flags = (int)(SA_SIGINFO | SA_RESETHAND);
    CHECK(sigaction(SIGUSR1, &a, NULL) == 0 && raise(SIGUSR1) == 0);
    CHECK(sigaction(SIGUSR1, NULL, &old) == 0 && old.sa_handler == SIG_DFL);
}

int main(void)
{
    sigset_t winch;
    sigemptyset(&winch);
    sigaddset(&winch, SIGWINCH);
    pthread_sigmask(SIG_BLOCK, &winch, NULL);
    reports_what_was_installed();
    struct epoll_event ev = {.events = EPOLLIN};
    struct timeval tv = {20, 0};
    epoll_fd = epoll_create1(0);
    CHECK(pipe(pipe_of_nothing) == 0);
    CHECK(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, pipe_of_nothing[0], &ev) == 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, socket_fd) == 0);
    setsockopt(socket_fd[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
    stopper_start(100, 4000);
    for (unsigned turn = 0; turn < 10 || !stopper_had(20); turn++) {
        struct sigaction a = {.sa_handler = on_usr1};
        if (turn % 3 == 1) {
            a.sa_flags = SA_SIGINFO;
            a.sa_sigaction = on_usr1_info;
        }
        if (turn % 3 == 2) a.sa_flags = SA_RESTART;
        sigaction(SIGUSR1, &a, NULL);
        for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
            if (turn % 3 == 2 && calls[i].restarts) continue;
            interrupt(&calls[i], turn + (unsigned)i * 10);
        }
    }
    stopper_end(20);
    return 0;
}
