/* eintr-matrix.c: every blocking call that a signal can interrupt, each in a thread, while the world
   stops 100 times a second: no EINTR, no early return, no short transfer.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "program.h"

#include <aio.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/msg.h>
#include <sys/random.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <threads.h>

#define MS 250
static const struct timespec wait_ts = {0, MS * 1000000};
static const struct timeval wait_tv = {0, MS * 1000};

/* The call gave `want` with errno `e` (0: as before the call), after the whole time. */
static void expect(const char *what, long got, long want, int e, int64_t began, int ms)
{
    int error = errno;
    int64_t passed = now_ns() - began;
    if (got != want || error != e) {
        FAIL("%s gave %ld, errno %d, after %ld ms", what, got, error, (long)(passed / 1000000));
    }
    if (passed < (int64_t)ms * 1000000) {
        FAIL("%s was %ld us too early", what, (long)(((int64_t)ms * 1000000 - passed) / 1000));
    }
    if (passed > (int64_t)ms * 1000000 + 3000000000) FAIL("%s was seconds too late", what);
}

#define TIMED(call, want, e) TIMED_FROM((void)0, call, want, e)

/* The same, where `helper` starts a thread whose own wait ends the call's. */
#define TIMED_FROM(helper, call, want, e)                                                          \
    do {                                                                                           \
        int64_t began_ = now_ns();                                                                 \
        helper;                                                                                    \
        errno = 0;                                                                                 \
        long r_ = (call);                                                                          \
        expect(#call, r_, want, e, began_, MS);                                                    \
    } while (0)

static struct timespec in_future(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    t.tv_nsec += MS * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_nsec -= 1000000000;
        t.tv_sec++;
    }
    return t;
}

static void sleeps(void)
{
    struct timespec abs;
    TIMED(nanosleep(&wait_ts, NULL), 0, 0);
    TIMED(clock_nanosleep(CLOCK_MONOTONIC, 0, &wait_ts, NULL), 0, 0);
    abs = in_future(CLOCK_MONOTONIC);
    TIMED(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &abs, NULL), 0, 0);
    TIMED(usleep(MS * 1000), 0, 0);
    TIMED(thrd_sleep(&wait_ts, NULL), 0, 0);
    TIMED(sleep(1), 0, 0);
}

static void polls(void)
{
    int p[2];
    CHECK(pipe(p) == 0);
    struct pollfd fd = {p[0], POLLIN, 0};
    TIMED(poll(&fd, 1, MS), 0, 0);
    TIMED(ppoll(&fd, 1, &wait_ts, NULL), 0, 0);
    fd_set set;
    struct timeval tv = wait_tv;
    FD_ZERO(&set);
    FD_SET(p[0], &set);
    TIMED(select(p[0] + 1, &set, NULL, NULL, &tv), 0, 0);
    CHECK(tv.tv_sec == 0 && tv.tv_usec == 0);
    FD_SET(p[0], &set);
    TIMED(pselect(p[0] + 1, &set, NULL, NULL, &wait_ts, NULL), 0, 0);
}

static void epolls(void)
{
    int p[2], e = epoll_create1(0);
    CHECK(pipe(p) == 0);
    struct epoll_event ev = {.events = EPOLLIN};
    CHECK(epoll_ctl(e, EPOLL_CTL_ADD, p[0], &ev) == 0);
    TIMED(epoll_wait(e, &ev, 1, MS), 0, 0);
    TIMED(epoll_pwait(e, &ev, 1, MS, NULL), 0, 0);
    TIMED(epoll_pwait2(e, &ev, 1, &wait_ts, NULL), 0, 0);
    TIMED(syscall(SYS_epoll_pwait, e, &ev, 1, MS, NULL, 8), 0, 0);
}

static void signal_waits(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGWINCH);
    TIMED(sigtimedwait(&set, NULL, &wait_ts), -1, EAGAIN);
}

static void *raise_later(void *thread)
{
    nanosleep(&wait_ts, NULL);
    pthread_kill(*(pthread_t *)thread, SIGUSR2);
    return NULL;
}

static void in_a_while(pthread_t *self, pthread_t *t)
{
    *self = pthread_self();
    CHECK(pthread_create(t, NULL, raise_later, self) == 0);
}

/* SIGUSR2 has a handler and is blocked everywhere. */
static void signal_waits_without_end(void)
{
    pthread_t self, t;
    sigset_t usr2, none;
    sigemptyset(&usr2);
    sigaddset(&usr2, SIGUSR2);
    TIMED_FROM(in_a_while(&self, &t), sigwaitinfo(&usr2, NULL), SIGUSR2, 0);
    pthread_join(t, NULL);
    sigfillset(&none);
    sigdelset(&none, SIGUSR2);
    TIMED_FROM(in_a_while(&self, &t), sigsuspend(&none), -1, EINTR);
    pthread_join(t, NULL);
    pthread_sigmask(SIG_UNBLOCK, &usr2, NULL);
    TIMED_FROM(in_a_while(&self, &t), pause(), -1, EINTR);
    pthread_join(t, NULL);
}

static void semaphores(void)
{
    sem_t s;
    sem_init(&s, 0, 0);
    struct timespec abs = in_future(CLOCK_REALTIME);
    TIMED(sem_timedwait(&s, &abs), -1, ETIMEDOUT);
    abs = in_future(CLOCK_MONOTONIC);
    TIMED(sem_clockwait(&s, CLOCK_MONOTONIC, &abs), -1, ETIMEDOUT);
    int word = 0;
    TIMED(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &wait_ts), -1, ETIMEDOUT);
}

static void *post_later(void *id)
{
    nanosleep(&wait_ts, NULL);
    struct sembuf up = {0, 1, 0};
    semop(*(int *)id, &up, 1);
    return NULL;
}

static void system_v(void)
{
    int id = semget(IPC_PRIVATE, 1, 0600);
    CHECK(id >= 0);
    struct sembuf down = {0, -1, 0};
    TIMED(semtimedop(id, &down, 1, &wait_ts), -1, EAGAIN);
    pthread_t t;
    TIMED_FROM(CHECK(pthread_create(&t, NULL, post_later, &id) == 0), semop(id, &down, 1), 0, 0);
    pthread_join(t, NULL);
    semctl(id, 0, IPC_RMID);
}

struct message {
    long type;
    char text[4];
};

static void *send_later(void *id)
{
    nanosleep(&wait_ts, NULL);
    struct message m = {1, "abc"};
    msgsnd(*(int *)id, &m, 4, 0);
    return NULL;
}

static void queues(void)
{
    int id = msgget(IPC_PRIVATE, 0600);
    CHECK(id >= 0);
    pthread_t t;
    struct message m;
    TIMED_FROM(CHECK(pthread_create(&t, NULL, send_later, &id) == 0), msgrcv(id, &m, 4, 0, 0), 4,
               0);
    pthread_join(t, NULL);
    msgctl(id, IPC_RMID, NULL);
}

static void asynchronous(void)
{
    aio_context_t context = 0;
    struct io_event ev;
    CHECK(syscall(SYS_io_setup, 4, &context) == 0);
    TIMED(syscall(SYS_io_getevents, context, 1, 1, &ev, &wait_ts), 0, 0);
    int p[2];
    char c;
    CHECK(pipe(p) == 0);
    struct aiocb cb = {.aio_fildes = p[0], .aio_buf = &c, .aio_nbytes = 1};
    const struct aiocb *list[] = {&cb};
    CHECK(aio_read(&cb) == 0);
    TIMED(aio_suspend(list, 1, &wait_ts), -1, EAGAIN);
    CHECK(write(p[1], "x", 1) == 1);
    while (aio_error(&cb) == EINPROGRESS) aio_suspend(list, 1, NULL);
}

static void socket_timeouts(void)
{
    int s[2], l = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0);
    setsockopt(s[0], SOL_SOCKET, SO_RCVTIMEO, &wait_tv, sizeof wait_tv);
    setsockopt(s[0], SOL_SOCKET, SO_SNDTIMEO, &wait_tv, sizeof wait_tv);
    setsockopt(l, SOL_SOCKET, SO_RCVTIMEO, &wait_tv, sizeof wait_tv);
    char buffer[16];
    struct iovec v = {buffer, sizeof buffer};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
    TIMED(recv(s[0], buffer, sizeof buffer, 0), -1, EAGAIN);
    TIMED(read(s[0], buffer, sizeof buffer), -1, EAGAIN);
    TIMED(recvfrom(s[0], buffer, sizeof buffer, 0, NULL, NULL), -1, EAGAIN);
    TIMED(recvmsg(s[0], &m, 0), -1, EAGAIN);
    TIMED(readv(s[0], &v, 1), -1, EAGAIN);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    CHECK(bind(l, (void *)&address, sizeof address.sun_family) ==
          0); /* the kernel chooses a name */
    CHECK(listen(l, 1) == 0);
    TIMED(accept(l, NULL, NULL), -1, EAGAIN);
    static char fill[65536];
    while (send(s[0], fill, sizeof fill, MSG_DONTWAIT) > 0) continue;
    TIMED(send(s[0], fill, 1, 0), -1, EAGAIN);
    TIMED(write(s[0], fill, 1), -1, EAGAIN);
}

/* Transfers of BIG bytes through a reader, or writer, who takes its time. */
#define BIG (3u << 20)

struct other_side {
    int fd;
    bool writes;
    uint32_t sum;
};

static void *other_side(void *argument)
{
    struct other_side *o = argument;
    static _Thread_local unsigned char piece[32768];
    size_t done = 0;
    while (done < BIG) {
        struct timespec ts = {0, 2000000};
        nanosleep(&ts, NULL);
        size_t left = BIG - done;
        if (o->writes) {
            size_t want = left < sizeof piece ? left : sizeof piece;
            for (size_t i = 0; i < want; i++) piece[i] = (unsigned char)((done + i) * 7);
            ssize_t n = write(o->fd, piece, want);
            if (n <= 0) FAIL("the writing side: %zd, errno %d", n, errno);
            done += (size_t)n;
        } else {
            ssize_t n = read(o->fd, piece, left < sizeof piece ? left : sizeof piece);
            if (n <= 0) FAIL("the reading side: %zd after %zu, errno %d", n, done, errno);
            for (ssize_t i = 0; i < n; i++) {
                if (piece[i] != (unsigned char)((done + (size_t)i) * 7)) {
                    FAIL("a wrong byte at %zu", done + (size_t)i);
                }
            }
            done += (size_t)n;
        }
    }
    return NULL;
}

static unsigned char *pattern(void)
{
    unsigned char *p = malloc(BIG);
    for (size_t i = 0; i < BIG; i++) p[i] = (unsigned char)(i * 7);
    return p;
}

static void whole(const char *what, ssize_t n)
{
    if (n != (ssize_t)BIG) FAIL("%s moved %zd of %u, errno %d", what, n, BIG, errno);
}

#define WITH_OTHER_SIDE(fd, writes, call)                                                          \
    do {                                                                                           \
        struct other_side o_ = {fd, writes, 0};                                                    \
        pthread_t t_;                                                                              \
        CHECK(pthread_create(&t_, NULL, other_side, &o_) == 0);                                    \
        errno = 0;                                                                                 \
        whole(#call, call);                                                                        \
        pthread_join(t_, NULL);                                                                    \
    } while (0)

static void split(struct iovec v[5], unsigned char *p)
{
    static const size_t ends[] = {0, 10, 100001, 100001, 2000000, BIG};
    for (int i = 0; i < 5; i++) v[i] = (struct iovec){p + ends[i], ends[i + 1] - ends[i]};
}

static void transfers_to_pipe(void)
{
    int p[2];
    unsigned char *b = pattern();
    struct iovec v[5];
    split(v, b);
    CHECK(pipe(p) == 0);
    WITH_OTHER_SIDE(p[0], false, write(p[1], b, BIG));
    WITH_OTHER_SIDE(p[0], false, writev(p[1], v, 5));
}

static void transfers_to_socket(void)
{
    int s[2];
    unsigned char *b = pattern();
    struct iovec v[5];
    split(v, b);
    struct msghdr m = {.msg_iov = v, .msg_iovlen = 5};
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0);
    WITH_OTHER_SIDE(s[0], false, send(s[1], b, BIG, 0));
    WITH_OTHER_SIDE(s[0], false, sendto(s[1], b, BIG, 0, NULL, 0));
    WITH_OTHER_SIDE(s[0], false, sendmsg(s[1], &m, 0));
    FILE *f = tmpfile();
    CHECK(f && fwrite(b, 1, BIG, f) == BIG && fflush(f) == 0);
    off_t at = 0;
    WITH_OTHER_SIDE(s[0], false, sendfile(s[1], fileno(f), &at, BIG));
    CHECK(at == BIG);
}

static void same(const unsigned char *p)
{
    for (size_t i = 0; i < BIG; i++) {
        if (p[i] != (unsigned char)(i * 7)) FAIL("received a wrong byte at %zu", i);
    }
}

static void transfers_from_socket(void)
{
    int s[2];
    unsigned char *b = malloc(BIG);
    struct iovec v[5];
    split(v, b);
    struct msghdr m = {.msg_iov = v, .msg_iovlen = 5};
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0);
    WITH_OTHER_SIDE(s[0], true, recv(s[1], b, BIG, MSG_WAITALL));
    same(b);
    memset(b, 0, BIG);
    WITH_OTHER_SIDE(s[0], true, recvmsg(s[1], &m, MSG_WAITALL));
    same(b);
}

static void *send_datagrams(void *fd)
{
    for (int i = 0; i < 8; i++) {
        struct timespec ts = {0, 30000000};
        nanosleep(&ts, NULL);
        CHECK(send(*(int *)fd, "x", 1, 0) == 1);
    }
    return NULL;
}

static void many_messages(void)
{
    int s[2];
    char c[8];
    struct iovec v[8];
    struct mmsghdr m[8];
    memset(m, 0, sizeof m);
    for (int i = 0; i < 8; i++) {
        v[i] = (struct iovec){&c[i], 1};
        m[i].msg_hdr.msg_iov = &v[i];
        m[i].msg_hdr.msg_iovlen = 1;
    }
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, s) == 0);
    pthread_t t;
    CHECK(pthread_create(&t, NULL, send_datagrams, &s[0]) == 0);
    int n = recvmmsg(s[1], m, 8, 0, NULL);
    if (n != 8) FAIL("recvmmsg gave %d, errno %d", n, errno);
    pthread_join(t, NULL);
}

static void random_bytes(void)
{
    size_t n = 16u << 20;
    char *p = malloc(n);
    ssize_t r = getrandom(p, n, 0);
    if (r != (ssize_t)n) FAIL("getrandom gave %zd, errno %d", r, errno);
}

static void nothing(int sig) {}

static void *run(void *f)
{
    ((void (*)(void))f)();
    return NULL;
}

int main(int argc, char **argv)
{
    static void (*const all[])(void) = {sleeps,
                                        polls,
                                        epolls,
                                        signal_waits,
                                        signal_waits_without_end,
                                        semaphores,
                                        system_v,
                                        queues,
                                        asynchronous,
                                        socket_timeouts,
                                        transfers_to_pipe,
                                        transfers_to_socket,
                                        transfers_from_socket,
                                        many_messages,
                                        random_bytes};
    enum { N = sizeof all / sizeof all[0] };
    pthread_t t[N];
    sigset_t block;
    signal(SIGUSR2, nothing);
    sigemptyset(&block);
    sigaddset(&block, SIGUSR2);
    sigaddset(&block, SIGWINCH);
    pthread_sigmask(SIG_BLOCK, &block, NULL);
    int hz = argc > 1 ? atoi(argv[1]) : 100;
    stopper_start(hz, hz > 50 ? 1000 : 0);
    do {
        for (int i = 0; i < N; i++) CHECK(pthread_create(&t[i], NULL, run, (void *)all[i]) == 0);
        for (int i = 0; i < N; i++) pthread_join(t[i], NULL);
    } while (!stopper_had(20));
    stopper_end(20);
    return 0;
}
