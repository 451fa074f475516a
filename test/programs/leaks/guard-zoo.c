/* guard-zoo.c: memory that must not be touched, and memory that looks so and holds pointers (T20, H34-H37): a page of
   a block without access, guards inside a stack, files cut short under their mapping, a mapping of 16 TiB (or as many as the argument says), /dev/zero shared, a range
   whose faults somebody should serve and nobody does.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "leaks.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/utsname.h>

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102 /* Linux 6.13 */
#endif
#define PAGE 4096

enum { IN_BLOCK, IN_STACK, IN_HUGE, IN_ZERO, IN_READ_ONLY, PLACES };
static concealed hidden[PLACES];
static size_t huge_bytes = (size_t)16 << 40;
static char *block_with_hole;
static void *volatile *huge, *volatile *zero, *volatile *read_only;

NOINLINE static void *fresh(int place)
{
    struct block *b = block_make(80);
    hidden[place] = conceal(b);
    return b;
}

/* A pointer in the page of a block that is made PROT_NONE. */
NOINLINE static void hole_in_a_block(void)
{
    CHECK((block_with_hole = malloc(64 * PAGE)));
    memset(block_with_hole, 0x33, 64 * PAGE);
    char *page = (char *)(((uintptr_t)block_with_hole + 30 * PAGE) & ~(uintptr_t)(PAGE - 1));
    ((void **)page)[5] = fresh(IN_BLOCK);
    CHECK(mprotect(page, PAGE, PROT_NONE) == 0);
}

static void hole_is_closed(void)
{
    char *page = (char *)(((uintptr_t)block_with_hole + 30 * PAGE) & ~(uintptr_t)(PAGE - 1));
    CHECK(mprotect(page, PAGE, PROT_READ | PROT_WRITE) == 0);
    CHECK(block_is(((struct block **)page)[5], hidden[IN_BLOCK]));
}

static bool kernel_is_at_least(int major, int minor)
{
    struct utsname u;
    int a = 0, b = 0;
    CHECK(uname(&u) == 0 && sscanf(u.release, "%d.%d", &a, &b) == 2);
    return a > major || (a == major && b >= minor);
}

static sem_t ready, leave;

/* A thread whose stack has a guard of the new kind below what it uses, with the pointer above. */
static void *guarded(void *stack)
{
    if (madvise((char *)stack + 16 * PAGE, PAGE, MADV_GUARD_INSTALL) != 0 && kernel_is_at_least(6, 13)) {
        FAIL("no guard page can be installed, errno %d", errno);
    }
    struct block *volatile mine = fresh(IN_STACK);
    sem_post(&ready);
    while (sem_wait(&leave) != 0) continue;
    CHECK(block_is(mine, hidden[IN_STACK]));
    return NULL;
}

static pthread_t guarded_start(void)
{
    pthread_t t;
    pthread_attr_t a;
    size_t bytes = 64 * PAGE;
    void *stack = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    CHECK(stack != MAP_FAILED);
    memset((char *)stack + 14 * PAGE, 0, 4 * PAGE);
    sem_init(&ready, 0, 0);
    sem_init(&leave, 0, 0);
    pthread_attr_init(&a);
    CHECK(pthread_attr_setstack(&a, stack, bytes) == 0);
    CHECK(pthread_create(&t, &a, guarded, stack) == 0);
    pthread_attr_destroy(&a);
    while (sem_wait(&ready) != 0) continue;
    return t;
}

/* Files that end before their mapping does: loading from there is SIGBUS. */
static int cut_file(int flags)
{
    char name[] = "/tmp/guard-zoo-XXXXXX";
    int fd = mkstemp(name);
    CHECK(fd >= 0 && unlink(name) == 0 && ftruncate(fd, 16 * PAGE) == 0);
    char *p = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, flags, fd, 0);
    CHECK(p != MAP_FAILED);
    memset(p, 0x22, 16 * PAGE);
    CHECK(ftruncate(fd, PAGE) == 0);
    return fd;
}

static volatile bool end;

/* One that grows and shrinks all the time. */
static void *cutter(void *unused)
{
    int fd = cut_file(MAP_SHARED);
    while (!end) {
        CHECK(ftruncate(fd, 16 * PAGE) == 0);
        CHECK(pwrite(fd, "x", 1, 15 * PAGE) == 1);
        CHECK(ftruncate(fd, 0) == 0);
    }
    return NULL;
}

NOINLINE static void large_and_shared(void)
{
    huge = mmap(NULL, huge_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(huge != MAP_FAILED);
    huge[huge_bytes / 16 * 15 / sizeof *huge] = fresh(IN_HUGE);
    int fd = open("/dev/zero", O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    zero = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(zero != MAP_FAILED);
    zero[700] = fresh(IN_ZERO);
    close(fd);
    read_only = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(read_only != MAP_FAILED);
    read_only[3] = fresh(IN_READ_ONLY);
    CHECK(mprotect((void *)read_only, PAGE, PROT_READ) == 0);
}

/* Whoever loads from it waits for ever: nobody answers. */
static void unserved(void)
{
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    if (fd < 0) return; /* not allowed here: nothing that could be touched */
    struct uffdio_api api = {.api = UFFD_API};
    CHECK(ioctl(fd, UFFDIO_API, &api) == 0);
    char *p = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED);
    p[3 * PAGE] = 1; /* one page is there */
    struct uffdio_register r = {.range = {(uintptr_t)p, 8 * PAGE}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    CHECK(ioctl(fd, UFFDIO_REGISTER, &r) == 0);
}

NOINLINE static void all_live(void)
{
    static const char *const name[] = {"the block held by a page of a block without access",
                                       "the block held by a stack with guards", "the block held by a sparse mapping",
                                       "the block held by /dev/zero", "the block held by a page that is read-only"};
    for (int i = 0; i < PLACES; i++) EXPECT_STATE(hidden[i], GLEANER_OLD, name[i]);
}

int main(int argc, char **argv)
{
    if (argc > 1) huge_bytes = (size_t)atoi(argv[1]) << 40;
    collections_are_there();
    hole_in_a_block();
    pthread_t t = guarded_start(), c;
    cut_file(MAP_SHARED);
    cut_file(MAP_PRIVATE);
    large_and_shared();
    unserved();
    CHECK(pthread_create(&c, NULL, cutter, NULL) == 0);
    controls_lose();
    scrub();
    majors(6);
    all_live();
    controls_are_lost();
    end = true;
    pthread_join(c, NULL);
    sem_post(&leave);
    pthread_join(t, NULL);
    hole_is_closed();
    CHECK(block_is(huge[huge_bytes / 16 * 15 / sizeof *huge], hidden[IN_HUGE]));
    CHECK(block_is(zero[700], hidden[IN_ZERO]) && block_is(read_only[3], hidden[IN_READ_ONLY]));
    return 0;
}
