/* tracked.c: a program whose heap grows and changes while its pages are write-protected for the collector: values stay, system calls
   write where they should, closed descriptors and forks do no harm, and the collector has one descriptor, out of the way.
   Under remember:sweep there is none.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include <dirent.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void fail(const char *what, long n)
{
    printf("%s (%ld)\n", what, n);
    exit(1);
}

struct node {
    struct node *next, *fresh;
    uint64_t check;
    char read[40];
};

static uint64_t check_of(const struct node *n)
{
    return (uintptr_t)n * 0x9e3779b97f4a7c15u;
}

/* A list that grows; each round gives some of its old nodes new blocks, by a store and by read(2). */
static void grow(struct node **list, unsigned nodes, int zero)
{
    for (unsigned i = 0; i < nodes; i++) {
        struct node *n = calloc(1, sizeof *n);
        if (!n) fail("no memory", i);
        n->next = *list;
        n->check = check_of(n);
        *list = n;
    }
    unsigned k = 0;
    for (struct node *n = *list; n; n = n->next) {
        if (n->check != check_of(n)) fail("a node was damaged", k);
        if (n->fresh && *(uint64_t *)n->fresh != check_of(n)) fail("a new block was damaged", k);
        if (k++ % 97 != 0) continue;
        free(n->fresh);
        uint64_t *fresh = malloc(24 + k % 2000);
        *fresh = check_of(n);
        n->fresh = (struct node *)fresh;
        memset(n->read, 1, sizeof n->read);
        if (read(zero, n->read, sizeof n->read) != sizeof n->read) fail("read(2) failed", k);
        for (unsigned i = 0; i < sizeof n->read; i++)
            if (n->read[i] != 0) fail("read(2) wrote nothing", i);
    }
}

/* Descriptors of userfaultfd, and the lowest of their numbers. */
static unsigned count(int *number)
{
    unsigned n = 0;
    DIR *d = opendir("/proc/self/fd");
    if (!d) fail("no /proc", 0);
    for (struct dirent *e; (e = readdir(d));) {
        char to[64] = "";
        if (readlinkat(dirfd(d), e->d_name, to, sizeof to - 1) < 0 || !strstr(to, "userfaultfd"))
            continue;
        *number = atoi(e->d_name);
        n++;
    }
    closedir(d);
    return n;
}

static int supported(void)
{
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | 1);
    struct uffdio_api api = {.api = UFFD_API,
                             .features = 1 << 13 | 1 << 15}; /* WP_UNPOPULATED, WP_ASYNC: 6.7 */
    int yes = fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0;
    if (fd >= 0) close(fd);
    return yes;
}

static void *work(void *unused)
{
    struct node *list = NULL;
    int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    for (unsigned i = 0; i < 40; i++) grow(&list, 2000, zero);
    close(zero);
    return list;
}

int main(int argc, char **argv)
{
    const char *conf = getenv("GLEANER_CONF");
    int tracked = conf && strstr(conf, "track") && supported(), number = -1;
    unsigned threads = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
    static struct node *list;
    int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    for (unsigned i = 0; i < 30; i++) grow(&list, 3000, zero);
    if (count(&number) != (unsigned)tracked) fail("descriptors", count(&number));
    if (tracked && (number < 200 || fcntl(number, F_GETFD) != FD_CLOEXEC))
        fail("the descriptor is in the way", number);
    pthread_t t[16];
    for (unsigned i = 0; i < threads; i++) pthread_create(&t[i], NULL, work, NULL);
    for (unsigned i = 0; i < 10; i++) grow(&list, 3000, zero);
    if (tracked) close(number); /* as a daemon closes whatever it finds */
    for (unsigned i = 0; i < 20; i++) grow(&list, 3000, zero);
    for (unsigned i = 0; i < threads; i++) pthread_join(t[i], NULL);
    if (count(&number) != (unsigned)tracked)
        fail("descriptors after one was closed", count(&number));
    pid_t pid = fork();
    if (pid == 0) {
        for (unsigned i = 0; i < 20; i++) grow(&list, 3000, zero);
        if (count(&number) != (unsigned)tracked) fail("descriptors of the child", count(&number));
        exit(0);
    }
    int status = 1;
    for (unsigned i = 0; i < 10; i++) grow(&list, 3000, zero);
    if (waitpid(pid, &status, 0) != pid || status != 0) fail("the child", status);
    for (unsigned i = 0; i < 10; i++) grow(&list, 3000, zero);
    if (count(&number) != (unsigned)tracked) fail("descriptors after a fork", count(&number));
    puts("all there");
    return 0;
}
