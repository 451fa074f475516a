/* read-into-heap.c: the kernel writes into old blocks, by read, readv, recvmsg and io_uring's fixed buffers, while collections
   run: no call fails, no byte is wrong (T15, H56), and what a pointer that came by a pipe points to is alive.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "leaks.h"

#include <linux/io_uring.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define BYTES 8192
#define COLLECTIONS 24

static volatile bool end;
/* Held where a pointer is in a pipe only, and by the one who collects. */
static pthread_mutex_t cut = PTHREAD_MUTEX_INITIALIZER;

static void fill(unsigned char *p, unsigned seed)
{
    for (unsigned i = 0; i < BYTES; i++) p[i] = (unsigned char)(seed * 31 + i * 7 + i / 256);
}

static void compare(const unsigned char *p, unsigned seed, const char *how)
{
    for (unsigned i = 0; i < BYTES; i++) {
        if (p[i] != (unsigned char)(seed * 31 + i * 7 + i / 256)) FAIL("%s brought a wrong byte at %u", how, i);
    }
}

static unsigned char *old_block(void)
{
    unsigned char *p = malloc(BYTES * 4);
    CHECK(p);
    memset(p, 0, BYTES * 4);
    return p + BYTES; /* an interior pointer is all that is kept */
}

static void exactly(ssize_t n, const char *how)
{
    if (n != BYTES) FAIL("%s gave %zd, errno %d", how, n, errno);
}

static void *by_read(void *unused)
{
    int p[2];
    unsigned char *to = old_block(), from[BYTES];
    CHECK(pipe(p) == 0);
    for (unsigned seed = 0; !end; seed++) {
        fill(from, seed);
        exactly(write(p[1], from, BYTES), "write");
        exactly(read(p[0], to, BYTES), "read");
        compare(to, seed, "read");
    }
    return NULL;
}

static void *by_readv(void *unused)
{
    int p[2];
    unsigned char *to = old_block(), *second = old_block(), from[BYTES];
    CHECK(pipe(p) == 0);
    for (unsigned seed = 0; !end; seed++) {
        struct iovec v[2] = {{to, 100}, {second, BYTES - 100}};
        fill(from, seed);
        exactly(write(p[1], from, BYTES), "write");
        exactly(readv(p[0], v, 2), "readv");
        memmove(to + 100, second, BYTES - 100);
        compare(to, seed, "readv");
    }
    return NULL;
}

static void *by_recvmsg(void *unused)
{
    int s[2];
    unsigned char *to = old_block(), from[BYTES];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0);
    for (unsigned seed = 0; !end; seed++) {
        struct iovec v = {to, BYTES};
        struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
        fill(from, seed);
        exactly(send(s[1], from, BYTES, 0), "send");
        exactly(recvmsg(s[0], &m, MSG_WAITALL), "recvmsg");
        compare(to, seed, "recvmsg");
    }
    return NULL;
}

/* io_uring without its library: one entry at a time into a registered buffer. */
struct ring {
    int fd;
    struct io_uring_params p;
    char *sq, *cq;
    struct io_uring_sqe *sqe;
};

static bool ring_open(struct ring *r)
{
    memset(&r->p, 0, sizeof r->p);
    r->fd = (int)syscall(SYS_io_uring_setup, 4, &r->p);
    if (r->fd < 0 && (errno == ENOSYS || errno == EPERM)) return false; /* not in this kernel, or forbidden */
    CHECK(r->fd >= 0);
    r->sq = mmap(NULL, r->p.sq_off.array + r->p.sq_entries * sizeof(unsigned), PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_POPULATE, r->fd, IORING_OFF_SQ_RING);
    r->cq = mmap(NULL, r->p.cq_off.cqes + r->p.cq_entries * sizeof(struct io_uring_cqe), PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_POPULATE, r->fd, IORING_OFF_CQ_RING);
    r->sqe = mmap(NULL, r->p.sq_entries * sizeof *r->sqe, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, r->fd,
                  IORING_OFF_SQES);
    CHECK(r->sq != MAP_FAILED && r->cq != MAP_FAILED && (void *)r->sqe != MAP_FAILED);
    return true;
}

static int ring_read(struct ring *r, int fd, void *to)
{
    unsigned tail = *(unsigned *)(r->sq + r->p.sq_off.tail), mask = *(unsigned *)(r->sq + r->p.sq_off.ring_mask);
    struct io_uring_sqe *e = &r->sqe[tail & mask];
    memset(e, 0, sizeof *e);
    e->opcode = IORING_OP_READ_FIXED;
    e->fd = fd;
    e->addr = (uintptr_t)to;
    e->len = BYTES;
    ((unsigned *)(r->sq + r->p.sq_off.array))[tail & mask] = tail & mask;
    __atomic_store_n((unsigned *)(r->sq + r->p.sq_off.tail), tail + 1, __ATOMIC_RELEASE);
    long n;
    do n = syscall(SYS_io_uring_enter, r->fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0);
    while (n < 0 && errno == EINTR); /* inside this loop it may: the call is not one that a program repeats blindly */
    CHECK(n >= 0);
    unsigned *head = (unsigned *)(r->cq + r->p.cq_off.head);
    while (__atomic_load_n((unsigned *)(r->cq + r->p.cq_off.tail), __ATOMIC_ACQUIRE) == *head) short_sleep();
    struct io_uring_cqe *c = (struct io_uring_cqe *)(r->cq + r->p.cq_off.cqes) +
                             (*head & *(unsigned *)(r->cq + r->p.cq_off.ring_mask));
    int result = c->res;
    __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
    return result;
}

static void *by_ring(void *unused)
{
    struct ring r;
    int p[2];
    unsigned char *to = old_block(), from[BYTES];
    if (!ring_open(&r)) return NULL;
    struct iovec v = {to, BYTES};
    CHECK(pipe(p) == 0);
    if (syscall(SYS_io_uring_register, r.fd, IORING_REGISTER_BUFFERS, &v, 1) != 0) {
        CHECK(errno == ENOMEM || errno == EPERM); /* RLIMIT_MEMLOCK */
        return NULL;
    }
    for (unsigned seed = 0; !end; seed++) {
        fill(from, seed);
        exactly(write(p[1], from, BYTES), "write");
        exactly(ring_read(&r, p[0], to), "io_uring");
        compare(to, seed, "io_uring");
    }
    return NULL;
}

/* A young block's address reaches an old block through a pipe. */
static void *by_pointer(void *unused)
{
    int p[2];
    struct block **old = calloc(64, sizeof *old);
    concealed which[64] = {0};
    CHECK(old && pipe(p) == 0);
    for (unsigned i = 0; !end; i = (i + 1) % 64) {
        if (old[i]) {
            enum gleaner_state s = gleaner_state(old[i]);
            if (!block_is(old[i], which[i])) FAIL("a block that came by a pipe has changed");
            if (s != GLEANER_OLD && s != GLEANER_YOUNG) FAIL("a block that came by a pipe is %s", state_name(s));
            free(old[i]);
        }
        pthread_mutex_lock(&cut);
        struct block *young = block_make(48);
        which[i] = conceal(young);
        CHECK(write(p[1], &young, sizeof young) == sizeof young);
        young = NULL;
        CHECK(read(p[0], &old[i], sizeof young) == sizeof young);
        pthread_mutex_unlock(&cut);
        short_sleep();
    }
    return NULL;
}

int main(void)
{
    static void *(*const all[])(void *) = {by_read, by_readv, by_recvmsg, by_ring, by_pointer};
    enum { EACH = 3, N = EACH * COUNT(all) };
    pthread_t t[N];
    collections_are_there();
    for (int i = 0; i < N; i++) CHECK(pthread_create(&t[i], NULL, all[i % COUNT(all)], NULL) == 0);
    for (int i = 0; i < COLLECTIONS; i++) {
        pthread_mutex_lock(&cut);
        collect(i % 4 == 3 ? GLEANER_MAJOR : GLEANER_MINOR);
        pthread_mutex_unlock(&cut);
        short_sleep();
    }
    end = true;
    for (int i = 0; i < N; i++) pthread_join(t[i], NULL);
    struct gleaner_leaks leaks = check_leaks();
    if (leaks.false_lost.blocks) FAIL("%zu live blocks were called lost", leaks.false_lost.blocks);
    return 0;
}
