/* leak-api.c: gleaner.h's functions for collections and leaks, as a program uses them on itself.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gleaner.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct node {
    struct node *next;
};

static int failures;
#define HOLDS(x)                                                                                   \
    do {                                                                                           \
        if (!(x)) {                                                                                \
            printf("line %d: %s\n", __LINE__, #x);                                                 \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)

static __attribute__((noinline)) void scrub(void)
{
    volatile char dead[50000];
    for (size_t i = 0; i < sizeof dead; i++) dead[i] = 0;
}

#define KEY 0x5a5a5a5a5a5a5a5aull /* addresses that a collector must not find */
static uintptr_t hidden[200];

/* `n` lists of a head and a tail each; the heads' addresses stay in `hidden`. */
static __attribute__((noinline)) void lose(unsigned from, unsigned n, size_t bytes)
{
    for (unsigned i = from; i < from + n; i++) {
        struct node *head = calloc(1, bytes);
        head->next = calloc(1, bytes);
        hidden[i] = (uintptr_t)head ^ KEY;
    }
}

static __attribute__((noinline)) enum gleaner_state state_of(unsigned i)
{
    return gleaner_state((void *)(hidden[i] ^ KEY));
}

static __attribute__((noinline)) void free_again(unsigned i)
{
    free((void *)(hidden[i] ^ KEY));
}

static __attribute__((noinline)) int ignore(unsigned i)
{
    return gleaner_ignore((void *)(hidden[i] ^ KEY));
}

static void counts(void)
{
    struct gleaner_leaks leaks = {0}; /* no garbage, which may be the address of a lost block */
    HOLDS(gleaner_leak_check(0, &leaks) == 0);
    HOLDS(leaks.lost.blocks == 0 && leaks.false_lost.blocks == 0);
    lose(0, 10, 400);
    scrub();
    HOLDS(gleaner_leak_check(0, &leaks) == 0);
    HOLDS(leaks.lost.blocks == 20 && leaks.direct.blocks == 10 && leaks.indirect.blocks == 10);
    HOLDS(leaks.lost.bytes >= 20 * 400 && leaks.lost.bytes <= 20 * 464);
    HOLDS(leaks.lost.bytes == leaks.direct.bytes + leaks.indirect.bytes);
    HOLDS(leaks.possible.blocks == 0);

    scrub();
    unsigned long mark = gleaner_mark();
    HOLDS(mark != 0);
    HOLDS(gleaner_leak_check(mark, &leaks) == 0 && leaks.lost.blocks == 0);
    lose(10, 3, 5000);
    scrub();
    HOLDS(gleaner_leak_check(mark, &leaks) == 0);
    HOLDS(leaks.lost.blocks == 6 && leaks.direct.blocks == 3);
    HOLDS(gleaner_leak_check(0, &leaks) == 0 && leaks.lost.blocks == 26);
    HOLDS(gleaner_leak_check(mark, NULL) == 0);
}

static void states(void)
{
    static struct node *kept;
    kept = malloc(100);
    HOLDS(gleaner_state(kept) == GLEANER_YOUNG);
    HOLDS(gleaner_collect(GLEANER_MINOR) == 0);
    HOLDS(gleaner_state(kept) == GLEANER_OLD);
    HOLDS(gleaner_state(NULL) == GLEANER_NO_BLOCK);
    HOLDS(gleaner_state((char *)kept + 16) == GLEANER_NO_BLOCK);
    HOLDS(gleaner_state(&kept) == GLEANER_NO_BLOCK);
    HOLDS(gleaner_collect(GLEANER_MAJOR) == 0);
    HOLDS(gleaner_state(kept) == GLEANER_OLD);
    HOLDS(state_of(0) == GLEANER_LOST);
    HOLDS(gleaner_collect((enum gleaner_collection)7) == EINVAL);
    free(kept);
    HOLDS(gleaner_state(kept) == GLEANER_NO_BLOCK);
    kept = NULL;
}

static void ignoring(void)
{
    struct gleaner_leaks leaks = {0};
    scrub();
    unsigned long mark = gleaner_mark();
    lose(20, 2, 700);
    HOLDS(ignore(20) == 0);
    HOLDS(state_of(20) == GLEANER_IGNORED);
    HOLDS(gleaner_ignore((void *)&leaks) == EINVAL && gleaner_ignore(NULL) == EINVAL);
    scrub();
    HOLDS(gleaner_leak_check(mark, &leaks) == 0);
    HOLDS(leaks.lost.blocks == 2 && leaks.direct.blocks == 1);
    HOLDS(state_of(20) == GLEANER_IGNORED && state_of(21) == GLEANER_LOST);
}

/* What was called lost and is freed all the same counts against the collector. */
static void proofs(void)
{
    struct gleaner_leaks leaks = {0};
    scrub();
    HOLDS(gleaner_collect(GLEANER_MAJOR) == 0);
    HOLDS(state_of(0) == GLEANER_LOST);
    free_again(0);
    HOLDS(gleaner_leak_check(0, &leaks) == 0);
    HOLDS(leaks.false_lost.blocks == 1 && leaks.false_lost.bytes >= 400 &&
          leaks.false_lost.bytes <= 464);
}

/* A page of a file that nobody wrote to in memory is no root unless it is named. */
static __attribute__((noinline)) void hide_in_file(int fd, unsigned i)
{
    uintptr_t p = hidden[i] ^ KEY;
    if (pwrite(fd, &p, sizeof p, 0) != sizeof p) abort();
}

static void roots(void)
{
    struct gleaner_leaks leaks = {0};
    char name[] = "/tmp/leak-api-XXXXXX";
    int fd = mkstemp(name);
    if (fd < 0 || unlink(name) != 0) abort();
    scrub();
    unsigned long mark = gleaner_mark();
    lose(30, 1, 900);
    hide_in_file(fd, 30);
    if (ftruncate(fd, 4096) != 0) abort();
    void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
    if (page == MAP_FAILED || *(volatile char *)page == 1) abort();
    scrub();
    HOLDS(gleaner_add_root(page, 4096) == 0);
    HOLDS(gleaner_leak_check(mark, &leaks) == 0 && leaks.lost.blocks == 0);
    HOLDS(state_of(30) == GLEANER_OLD);
    HOLDS(gleaner_remove_root(page, 4096) == 0);
    HOLDS(gleaner_remove_root(page, 4096) == EINVAL);
    HOLDS(gleaner_leak_check(mark, &leaks) == 0 && leaks.lost.blocks == 2);
    HOLDS(gleaner_add_root(page, 0) == EINVAL && gleaner_add_root(page, SIZE_MAX) == EINVAL);
    HOLDS(gleaner_remove_root(page, 0) == EINVAL && gleaner_add_root(NULL, 8) == EINVAL);
}

static void statistics(void)
{
    struct gleaner_statistics before, after;
    static void *blocks[100];
    gleaner_collect(GLEANER_MINOR);
    gleaner_statistics(&before);
    for (int i = 0; i < 100; i++) blocks[i] = malloc(64);
    HOLDS(gleaner_collect(GLEANER_MINOR) == 0);
    HOLDS(gleaner_collect(GLEANER_MAJOR) == 0);
    gleaner_statistics(&after);
    HOLDS(after.minor == before.minor + 1 && after.major == before.major + 1);
    HOLDS(after.incomplete == before.incomplete);
    HOLDS(after.live == before.live + 100 && after.live_bytes >= before.live_bytes + 6400);
    HOLDS(after.pause_ms_max >= after.pause_ms_median && after.pause_ms_max > 0);
    for (int i = 0; i < 100; i++) free(blocks[i]);
}

/* The first blocks of each size have round addresses, which other words may look like: they are not the ones to lose. */
static void *volatile first[5];
static void allocate_first(void)
{
    static const size_t sizes[] = {400, 700, 900, 5000, 64};
    for (unsigned i = 0; i < 5; i++) first[i] = malloc(sizes[i]);
}

int main(int count, char **arguments)
{
    if (!gleaner_leak_check) {
        puts("not there");
        return 0;
    }
    char *buffer = malloc(1024); /* stdio's own would be a block that comes later */
    allocate_first();
    setvbuf(stdout, buffer, _IOFBF, 1024);
    errno = 77;
    if (count > 1) { /* where nothing can be collected */
        struct gleaner_leaks leaks = {.lost = {1, 1}};
        HOLDS(gleaner_collect(GLEANER_MAJOR) == ENOTSUP);
        HOLDS(gleaner_mark() == 0);
        HOLDS(gleaner_leak_check(0, &leaks) == ENOTSUP && leaks.lost.blocks == 0);
    } else {
        counts();
        states();
        ignoring();
        proofs();
        roots();
        statistics();
    }
    HOLDS(errno == 77);
    if (failures == 0) puts("all hold");
    return failures != 0;
}
