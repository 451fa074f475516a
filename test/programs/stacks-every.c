/* stacks-every.c: each block's stack is the one that it was allocated from, whichever function allocated it, from frames of whichever shape,
   for the first time or again.  To be run with sample:all,abort:no: an invalid free names the stack of the block around it, which is
   compared with glibc's backtrace.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include <execinfo.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DEPTH 60
extern void *_Znwm(size_t) __attribute__((weak));
extern void _ZdlPv(void *) __attribute__((weak));

static __thread void *expected[DEPTH + 4];
static __thread int depth;
static unsigned compared;
static int said; /* what the library says */

enum { MALLOC, CALLOC, REALLOC, GROWN, ALIGNED, NEW, WAYS };

/* Not inlined, and with a call after the allocation, so that none is a tail call. */
__attribute__((noinline)) static void *take(int way, size_t size)
{
    void *p = NULL, *small = way == GROWN ? malloc(8) : NULL;
    depth = backtrace(expected, DEPTH);
    switch (way) {
    case MALLOC: p = malloc(size); break;
    case CALLOC: p = calloc(1, size); break;
    case REALLOC: p = realloc(NULL, size); break;
    case GROWN: p = realloc(small, size); break;
    case ALIGNED: p = aligned_alloc(64, size & ~(size_t)63); break;
    case NEW: p = _Znwm ? _Znwm(size) : malloc(size); break;
    }
    __asm__ volatile("" : "+r"(p) : : "memory");
    return p;
}

/* The frames as the library prints them, the innermost one being `take`. */
static int read_frames(unsigned long *frames)
{
    static char text[16384];
    int n = 0;
    ssize_t bytes = pread(said, text, sizeof text - 1, 0);
    text[bytes > 0 ? bytes : 0] = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        int number;
        unsigned long address;
        if (sscanf(line, " #%d 0x%lx", &number, &address) == 2 && number == n && n < DEPTH) frames[n++] = address;
    }
    return n;
}

__attribute__((noinline)) static void check(int way, size_t size)
{
    void *p = take(way, size);
    unsigned long frames[DEPTH];
    if (ftruncate(said, 0) != 0 || lseek(said, 0, SEEK_SET) != 0) exit(2);
    free((char *)p + 16);
    int n = read_frames(frames);
    int bad = n != depth;
    for (int i = 1; i < n && !bad; i++) bad = frames[i] + 1 != (unsigned long)expected[i];
    if (bad) {
        printf("way %d, %zu bytes: %d frames, expected %d\n", way, size, n, depth);
        for (int i = 0; i < n || i < depth; i++)
            printf("  %lx %lx\n", i < n ? frames[i] + 1 : 0, i < depth ? (unsigned long)expected[i] : 0);
        fflush(stdout);
        exit(1);
    }
    compared++;
    if (way == NEW && _ZdlPv) _ZdlPv(p);
    else free(p);
}

__attribute__((noinline)) static void plain(int way, size_t size, unsigned more);

__attribute__((noinline)) static void with_array(int way, size_t size, unsigned more)
{
    char *room = __builtin_alloca(16 + more * 32);
    __asm__ volatile("" : : "r"(room) : "memory");
    if (more > 0) plain(way, size, more - 1);
    check(way, size);
    __asm__ volatile("" : : "r"(room) : "memory");
}

__attribute__((noinline)) static void aligned(int way, size_t size, unsigned more)
{
    _Alignas(64) char room[64];
    __asm__ volatile("" : : "r"(room) : "memory");
    if (more > 0) with_array(way, size, more - 1);
    check(way, size);
    check(way, size);
    __asm__ volatile("" : : "r"(room) : "memory");
}

__attribute__((noinline)) static void plain(int way, size_t size, unsigned more)
{
    if (more > 0) aligned(way, size, more - 1);
    check(way, size);
    __asm__ volatile("");
}

static void *all(void *unused)
{
    static const size_t sizes[] = {48, 900, 20000, 300000};
    for (volatile unsigned round = 0; round < 3; round++)
        for (volatile unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (volatile int way = 0; way < WAYS; way++)
                for (volatile unsigned more = 0; more < 5; more++) plain(way, sizes[i], more);
    return unused;
}

int main(void)
{
    pthread_t t;
    backtrace(expected, 2); /* loads libgcc */
    said = memfd_create("said", 0);
    if (said < 0 || dup2(said, 2) < 0) return 2;
    all(NULL);
    pthread_create(&t, NULL, all, NULL);
    pthread_join(t, NULL);
    printf("%u stacks\n", compared);
    return compared > 0 ? 0 : 3;
}
