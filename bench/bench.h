// What every benchmark program shares: parameters, a fixed random stream, checked blocks, threads.
// SPDX-License-Identifier: LGPL-2.1-or-later
#ifndef GLEANER_BENCH_H
#define GLEANER_BENCH_H

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// One parameter of a program: settable as `--name VALUE`; `--quick` takes the small default.
struct bench_param {
    const char *name;
    long full;
    long quick;
    const char *meaning;
    long value; // what the run uses, set by bench_args
};

__attribute__((noreturn, format(printf, 1, 2), unused)) static void bench_fail(const char *format,
                                                                               ...)
{
    va_list args;
    va_start(args, format);
    fputs("bench: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

// Reads the command line into `params` (`count` of them). Every value is at least 1; a word that is
// no parameter, or a bad value, ends the program with status 2.
__attribute__((unused)) static void bench_args(int argc, char **argv, struct bench_param *params,
                                               size_t count)
{
    bool quick = false;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--quick") == 0) quick = true;
    for (size_t k = 0; k < count; k++) params[k].value = quick ? params[k].quick : params[k].full;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) continue;
        if (strcmp(argv[i], "--help") == 0) {
            printf("usage: %s [--quick] [--PARAMETER VALUE]...\n", argv[0]);
            for (size_t k = 0; k < count; k++)
                printf("  --%-12s %s (default %ld, quick %ld)\n", params[k].name, params[k].meaning,
                       params[k].full, params[k].quick);
            exit(0);
        }
        size_t k = 0;
        while (k < count &&
               !(strncmp(argv[i], "--", 2) == 0 && strcmp(argv[i] + 2, params[k].name) == 0))
            k++;
        char *end = NULL;
        if (k == count || i + 1 == argc || (params[k].value = strtol(argv[i + 1], &end, 10)) < 1 ||
            *end != '\0') {
            fprintf(stderr, "%s: bad argument: %s (try --help)\n", argv[0], argv[i]);
            exit(2);
        }
        i++;
    }
}

// Tells the compiler that `p` is used and memory may change, so that no block can be optimised
// away.
static inline void *escape(void *p)
{
    __asm__ volatile("" : "+r"(p) : : "memory");
    return p;
}

// splitmix64 (Steele, Lea, Flood 2014): one word of state, any seed.
static inline uint64_t rng_next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

// Uniform in [low, high]; the multiply-shift bias is below 2^-32.
static inline size_t rng_range(uint64_t *state, size_t low, size_t high)
{
    return low + (size_t)(((rng_next(state) >> 32) * (uint64_t)(high - low + 1)) >> 32);
}

// A block's content is derived from its size and a tag: the first word (or byte) and the last byte,
// so that a check touches two cache lines at most. Two blocks that overlap fail it.
static inline uint64_t block_word(size_t size, uint64_t tag)
{
    return (tag + size) * UINT64_C(0xD1342543DE82EF95) + 1;
}

static inline void block_fill(void *block, size_t size, uint64_t tag)
{
    uint64_t word = block_word(size, tag);
    unsigned char *bytes = block;
    if (size == 0) return;
    bytes[size - 1] = (unsigned char)(word >> 56);
    if (size >= sizeof word) memcpy(bytes, &word, sizeof word - 1);
}

static inline void block_check(const void *block, size_t size, uint64_t tag)
{
    uint64_t word = block_word(size, tag);
    const unsigned char *bytes = block;
    if (size == 0) return;
    if (bytes[size - 1] != (unsigned char)(word >> 56) ||
        (size >= sizeof word && memcmp(bytes, &word, sizeof word - 1) != 0))
        bench_fail("a block of %zu bytes at %p changed while it was live", size, block);
}

static inline void *block_new(size_t size, uint64_t tag)
{
    void *block = escape(malloc(size));
    if (block == NULL) bench_fail("malloc(%zu) failed", size);
    block_fill(block, size, tag);
    return block;
}

static inline void block_delete(void *block, size_t size, uint64_t tag)
{
    block_check(block, size, tag);
    free(block);
}

__attribute__((unused)) static pthread_t thread_start(void *(*body)(void *), void *argument)
{
    pthread_t thread;
    int error = pthread_create(&thread, NULL, body, argument);
    if (error != 0) bench_fail("pthread_create: %s", strerror(error));
    return thread;
}

__attribute__((unused)) static void thread_wait(pthread_t thread)
{
    int error = pthread_join(thread, NULL);
    if (error != 0) bench_fail("pthread_join: %s", strerror(error));
}

// The program's one line on stdout: `count` allocations were made and freed.
__attribute__((unused)) static int bench_done(uint64_t count)
{
    printf("ops %" PRIu64 "\n", count);
    return fflush(stdout) == 0 ? 0 : 1;
}

#endif
