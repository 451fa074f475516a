/* leaks.h: what the programs share that ask for collections and know what must come out.

   A block is known again by its header.  Its address is kept beside the place under test only in a form that no collector
   follows: exclusive-or with a key.  What a function leaves in dead stack frames and in registers is
   wiped by scrub().  In every program some blocks are really lost: a collector that finds everything alive
   has not passed.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef LEAKS_H
#define LEAKS_H

#include "gleaner.h"

#include <alloca.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define UNUSED __attribute__((unused))
#define NOINLINE __attribute__((noinline))

__attribute__((format(printf, 2, 3), noreturn)) static inline void ends(int status, const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    if (n > (int)sizeof line - 2) n = sizeof line - 2;
    line[n++] = '\n';
    if (write(1, line, (size_t)n) < 0) status = 1;
    _exit(status);
}

/* One line of what went wrong; the exit status is 1. */
#define FAIL(format, ...) ends(1, "%s:%d: " format, __FILE__, __LINE__ __VA_OPT__(, ) __VA_ARGS__)
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) FAIL("%s (errno %d)", #condition, errno);                                \
    } while (0)

/* The kernel or the machine cannot do what is under test: status 77. */
#define SKIP(reason) ends(77, "SKIP: %s", reason)

/* Addresses that no collector can read: also the low 48 bits, either half, and any rotation by 17 of it lie outside of the heap. */
typedef uint64_t concealed;
static volatile uint64_t leaks_key = 0x00c3a9e517d2b86f;

static inline concealed conceal(const volatile void *p)
{
    return (uint64_t)(uintptr_t)p ^ leaks_key;
}

static inline void *reveal(concealed c)
{
    return (void *)(uintptr_t)(c ^ leaks_key);
}

/* Wipes `bytes` of the stack below the caller, and the registers that a call may change. */
NOINLINE UNUSED static void scrub_stack(size_t bytes)
{
    volatile char *deep = alloca(bytes);
    for (size_t i = 0; i < bytes; i++) deep[i] = 0;
}

static inline void scrub_registers(void)
{
#if defined __x86_64__
    __asm__ volatile("xor %%eax, %%eax\n\txor %%ecx, %%ecx\n\txor %%edx, %%edx\n\t"
                     "xor %%esi, %%esi\n\txor %%edi, %%edi\n\txor %%r8d, %%r8d\n\t"
                     "xor %%r9d, %%r9d\n\txor %%r10d, %%r10d\n\txor %%r11d, %%r11d\n\t"
                     "pxor %%xmm0, %%xmm0\n\tpxor %%xmm1, %%xmm1\n\tpxor %%xmm2, %%xmm2\n\t"
                     "pxor %%xmm3, %%xmm3\n\tpxor %%xmm4, %%xmm4\n\tpxor %%xmm5, %%xmm5\n\t"
                     "pxor %%xmm6, %%xmm6\n\tpxor %%xmm7, %%xmm7\n\tpxor %%xmm8, %%xmm8\n\t"
                     "pxor %%xmm9, %%xmm9\n\tpxor %%xmm10, %%xmm10\n\tpxor %%xmm11, %%xmm11\n\t"
                     "pxor %%xmm12, %%xmm12\n\tpxor %%xmm13, %%xmm13\n\tpxor %%xmm14, %%xmm14\n\t"
                     "pxor %%xmm15, %%xmm15"
                     :
                     :
                     : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "xmm0", "xmm1",
                       "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
                       "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "cc");
    if (__builtin_cpu_supports("avx")) {
        /* The upper halves: a memcpy of libc's leaves its bytes there. */
        __asm__ volatile(".byte 0xc5, 0xfc, 0x77" /* vzeroall */ ::: "memory");
    }
#elif defined __aarch64__
    __asm__ volatile("mov x9, 0\n\tmov x10, 0\n\tmov x11, 0\n\tmov x12, 0\n\tmov x13, 0\n\t"
                     "mov x14, 0\n\tmov x15, 0\n\tmovi v0.16b, 0\n\tmovi v1.16b, 0\n\t"
                     "movi v2.16b, 0\n\tmovi v3.16b, 0"
                     :
                     :
                     : "x9", "x10", "x11", "x12", "x13", "x14", "x15", "v0", "v1", "v2", "v3");
#endif
}

UNUSED static void scrub(void)
{
    scrub_stack(65536);
    scrub_registers();
}

/* Blocks. */
struct block {
    uint64_t magic;
    concealed self; /* so that a copy is told from the block */
    unsigned char rest[];
};
#define BLOCK_MAGIC 0x6b636f6c62207369 /* no address */

/* A block of at least 32 bytes whose bytes are all known: none is left from an earlier owner. */
NOINLINE UNUSED static struct block *block_make(size_t bytes)
{
    struct block *b = malloc(bytes);
    CHECK(b);
    memset(b, 0x33, malloc_usable_size(b));
    b->magic = BLOCK_MAGIC;
    b->self = conceal(b);
    return b;
}

UNUSED static bool block_is(const struct block *b, concealed which)
{
    return b == reveal(which) && b->magic == BLOCK_MAGIC && b->self == which;
}

/* Collections. */
UNUSED static void collections_are_there(void)
{
    if (!gleaner_collect || !gleaner_state || !gleaner_leak_check) FAIL("the library has no collections");
}

/* One complete collection.  One that is not (a thread answered late on a loaded machine) is repeated. */
NOINLINE UNUSED static void collect(enum gleaner_collection kind)
{
    for (int tries = 0; tries < 30; tries++) {
        int error = gleaner_collect(kind);
        if (error == 0) return;
        if (error != EAGAIN) FAIL("gleaner_collect gave %d", error);
        struct timespec ts = {0, 20000000};
        nanosleep(&ts, NULL);
    }
    FAIL("no collection was complete, 30 times");
}

/* Hides blocks, by `hide`, and has one collection look: one, whatever comes by the clock or by growth.  Where reclaim does not wait, the first
   puts them in quarantine, and a second takes them, before anybody could use them. */
NOINLINE UNUSED static void hide_from_one(void (*hide)(void))
{
    for (int tries = 0; tries < 100; tries++) {
        struct gleaner_statistics before, after;
        gleaner_statistics(&before);
        hide();
        scrub();
        collect(GLEANER_MAJOR);
        gleaner_statistics(&after);
        if (after.major == before.major + 1 && after.incomplete == before.incomplete) return;
    }
    FAIL("there was always more than one collection");
}

/* The same with a complete check. */
NOINLINE UNUSED static struct gleaner_leaks check_leaks(void)
{
    struct gleaner_leaks leaks;
    for (int tries = 0; tries < 30; tries++) {
        int error = gleaner_leak_check(0, &leaks);
        if (error == 0) return leaks;
        if (error != EAGAIN) FAIL("gleaner_leak_check gave %d", error);
        struct timespec ts = {0, 20000000};
        nanosleep(&ts, NULL);
    }
    FAIL("no leak check was complete, 30 times");
}

static inline void *leaks_collect_both(void *unused)
{
    collect(GLEANER_MINOR);
    collect(GLEANER_MAJOR);
    return NULL;
}

/* `n` major collections, each after a minor one; every other by another thread. */
NOINLINE UNUSED static void majors(int n)
{
    for (int i = 0; i < n; i++) {
        if (i % 2) {
            pthread_t t;
            CHECK(pthread_create(&t, NULL, leaks_collect_both, NULL) == 0);
            CHECK(pthread_join(t, NULL) == 0);
        } else {
            leaks_collect_both(NULL);
        }
    }
}

UNUSED static const char *state_name(enum gleaner_state s)
{
    static const char *const names[] = {"no block", "young", "old", "lost", "possibly lost", "ignored"};
    return (size_t)s < COUNT(names) ? names[s] : "unknown";
}

#define EXPECT_STATE(which, want, what)                                                            \
    do {                                                                                           \
        enum gleaner_state s_ = gleaner_state(reveal(which));                                      \
        if (s_ != (want)) FAIL("%s is %s, not %s", what, state_name(s_), state_name(want));        \
    } while (0)

/* Of one block: half of its address may stand somewhere by chance, or in what calls have left on the stack, and it is possibly lost then. */
#define EXPECT_LOST(which, what)                                                                   \
    do {                                                                                           \
        if (gleaner_state(reveal(which)) != GLEANER_POSSIBLY_LOST) EXPECT_STATE(which, GLEANER_LOST, what); \
    } while (0)

/* Are lost blocks given back? Then a lost one may be none any more, or another's. */
UNUSED static bool reclaiming(void)
{
    const char *conf = getenv("GLEANER_CONF");
    return conf && strstr(conf, "collect:reclaim,reclaim_delay:0");
}

/* Blocks that are really lost.  A dead stack slot may hold one or two alive. */
#define CONTROLS 20
static concealed leaks_control[CONTROLS];

NOINLINE UNUSED static void controls_lose(void)
{
    for (int i = 0; i < CONTROLS; i++) leaks_control[i] = conceal(block_make(48 + (size_t)i * 40));
}

UNUSED static void controls_are_lost(void)
{
    int lost = 0;
    if (reclaiming()) return;
    for (int i = 0; i < CONTROLS; i++) lost += gleaner_state(reveal(leaks_control[i])) == GLEANER_LOST;
    if (lost < CONTROLS - 2) FAIL("only %d of %d lost blocks were found", lost, CONTROLS);
}

UNUSED static void short_sleep(void)
{
    struct timespec ts = {0, 1000000};
    nanosleep(&ts, NULL);
}

/* Waits until a thread of ours is gone from the kernel's view. */
UNUSED static void wait_until_gone(pid_t tid)
{
    while (syscall(SYS_tgkill, getpid(), tid, 0) == 0) short_sleep();
}

#endif
