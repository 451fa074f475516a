/* descriptors.c: a program that closes everything, counts on the lowest free number, and on the end
   of pipes, in two threads, while snapshots are taken of it (T14, T17).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "program.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>

static atomic_bool end;

static void *sleeper(void *unused)
{
    while (!atomic_load(&end)) usleep(1000);
    return NULL;
}

static void end_of_pipe_is_seen(void)
{
    int p[2];
    char c;
    CHECK(pipe(p) == 0);
    CHECK(p[0] == 3 && p[1] == 4);
    close(p[1]);
    struct pollfd fd = {p[0], POLLIN, 0};
    /* Not only when the snapshot child ends, which may take a second.  (poll looks once more when its time is up.) */
    if (poll(&fd, 1, 700) != 1) FAIL("the end of the pipe took long");
    CHECK(fd.revents == POLLHUP && read(p[0], &c, 1) == 0);
    close(p[0]);
}

int main(int argc, char **argv)
{
    pthread_t t;
    if (argc > 1) CHECK(pthread_create(&t, NULL, sleeper, NULL) == 0);
    for (int64_t until = now_ns() + 1500000000; now_ns() < until;) {
        CHECK(syscall(SYS_close_range, 3, ~0u, 0) == 0);
        for (int i = 3; i < 10; i++) {
            int fd = open("/dev/null", O_RDONLY);
            if (fd != i) FAIL("open gave %d, not %d", fd, i);
        }
        for (int i = 3; i < 10; i++) CHECK(close(i) == 0);
        for (int i = 0; i < 3; i++) end_of_pipe_is_seen();
    }
    atomic_store(&end, true);
    if (argc > 1) pthread_join(t, NULL);
    return 0;
}
