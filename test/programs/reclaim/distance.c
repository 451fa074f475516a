/* distance.c: a library's blocks that only distances lead to stay as they are; what the program loses beside them comes back.

      distance     Prints "whole".
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "../leaks/leaks.h"
#include "library-distance.h"

#define PATTERNS 64
#define LOST 1000 /* in a round, of the same size as the elements */
#define BYTES 512
#define ROUNDS 40

static struct pattern *patterns[PATTERNS];

static unsigned char expected(int i, size_t at) { return (unsigned char)(at + (size_t)i * 7 + 1); }

NOINLINE static void make(void)
{
    for (int i = 0; i < PATTERNS; i++) {
        patterns[i] = pattern_make(BYTES);
        for (size_t k = 0; k < BYTES; k++) pattern_elements(patterns[i])[k] = expected(i, k);
    }
}

NOINLINE static void look(void)
{
    for (int i = 0; i < PATTERNS; i++)
        for (size_t k = 0; k < BYTES; k++)
            if (pattern_elements(patterns[i])[k] != expected(i, k)) FAIL("elements of a pattern have changed");
}

NOINLINE static void lose(void)
{
    for (int i = 0; i < LOST; i++) {
        char *p = malloc(BYTES);
        CHECK(p);
        memset(p, 0xee, BYTES);
    }
}

int main(void)
{
    collections_are_there();
    make();
    for (int round = 0; round < ROUNDS; round++) {
        scrub();
        lose();
        scrub();
        collect(GLEANER_MAJOR);
        look();
        usleep(20000); /* the rules count time */
    }
    puts("whole");
    return 0;
}
