// Strings that grow by a few bytes, vectors that double, and one buffer that grows by fixed steps:
// what realloc costs, from 16 bytes to 64 MiB.
// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench.h"

enum { ROUNDS, STRINGS, STRING, VECTOR, BUFFER, STEP, PARAMS };
static struct bench_param param[PARAMS] = {
    [ROUNDS] = {"rounds", 60, 8, "times that all is done", 0},
    [STRINGS] = {"strings", 200, 200, "strings that grow side by side", 0},
    [STRING] = {"string", 6000, 4000, "length at which a string ends", 0},
    [VECTOR] = {"vector", 64, 16, "MiB to which the vector doubles", 0},
    [BUFFER] = {"buffer", 8, 4, "MiB to which the buffer grows", 0},
    [STEP] = {"step", 64, 64, "KiB of a step of the buffer", 0},
};

static uint64_t operations;

static void *grow(void *block, size_t size)
{
    block = escape(realloc(block, size));
    if (block == NULL) bench_fail("realloc to %zu bytes failed", size);
    operations++;
    return block;
}

struct string {
    unsigned char *text;
    size_t length;
};

// Grows all strings in turn by 1 to 48 bytes; the text's bytes follow from their index.
static void strings_run(uint64_t *random)
{
    size_t count = (size_t)param[STRINGS].value, unfinished = count;
    struct string *string = calloc(count, sizeof *string);
    if (string == NULL) bench_fail("out of memory");
    while (unfinished > 0)
        for (size_t i = 0; i < count; i++) {
            struct string *s = &string[i];
            if (s->length >= (size_t)param[STRING].value) continue;
            size_t more = rng_range(random, 1, 48);
            s->text = grow(s->text, s->length + more);
            for (size_t k = 0; k < more; k++) {
                s->text[s->length] = (unsigned char)(s->length + i);
                s->length++;
            }
            if (s->length >= (size_t)param[STRING].value) unfinished--;
        }
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < string[i].length; k++)
            if (string[i].text[k] != (unsigned char)(k + i)) bench_fail("a string changed");
        free(string[i].text);
    }
    free(string);
}

// Touches one word a page of what a step added, as appending would.
static void pages_fill(unsigned char *block, size_t from, size_t to)
{
    for (size_t at = from; at < to; at += 4096) block[at] = (unsigned char)(at >> 12);
}

static void pages_check(const unsigned char *block, size_t size)
{
    for (size_t at = 0; at < size; at += 4096)
        if (block[at] != (unsigned char)(at >> 12)) bench_fail("a grown block lost its content");
}

static void vector_run(void)
{
    size_t size = 4096;
    unsigned char *block = grow(NULL, size);
    pages_fill(block, 0, size);
    for (; size < (size_t)param[VECTOR].value << 20; size *= 2) {
        block = grow(block, size * 2);
        pages_fill(block, size, size * 2);
    }
    pages_check(block, size);
    free(block);
}

static void buffer_run(void)
{
    size_t size = 0, step = (size_t)param[STEP].value << 10;
    unsigned char *block = NULL;
    for (; size < (size_t)param[BUFFER].value << 20; size += step) {
        block = grow(block, size + step);
        pages_fill(block, size, size + step);
    }
    pages_check(block, size);
    free(block);
}

int main(int argc, char **argv)
{
    bench_args(argc, argv, param, PARAMS);
    uint64_t random = 1;
    for (long round = 0; round < param[ROUNDS].value; round++) {
        strings_run(&random);
        if (round % 4 == 0) vector_run();
        buffer_run();
    }
    return bench_done(operations);
}
