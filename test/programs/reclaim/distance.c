/* distance.c: a library's blocks that only distances lead to stay as they are; what the program loses beside them comes back.

      distance           Prints "whole".
      distance-later     So, and loads the library itself, by the name without a version.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "../leaks/leaks.h"
#include "library-distance.h"

#include <dlfcn.h>

#define PATTERNS 64
#define LOST 1000 /* in a round, of the same size as the elements */
#define BYTES 512
#define ROUNDS 40

static struct pattern *patterns[PATTERNS];

#ifdef LATER
static struct pattern *(*make_one)(size_t);
static unsigned char *(*elements)(struct pattern *);

static void load(void)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/distance/libfontconfig.so", getenv("GLEANER_TEST_PROGRAMS"));
    void *library = dlopen(path, RTLD_NOW);
    CHECK(library);
    make_one = (struct pattern *(*)(size_t))dlsym(library, "pattern_make");
    elements = (unsigned char *(*)(struct pattern *))dlsym(library, "pattern_elements");
    CHECK(make_one && elements);
}
#else
#define make_one pattern_make
#define elements pattern_elements
static void load(void) {}
#endif

static unsigned char expected(int i, size_t at) { return (unsigned char)(at + (size_t)i * 7 + 1); }

NOINLINE static void make(void)
{
    for (int i = 0; i < PATTERNS; i++) {
        patterns[i] = make_one(BYTES);
        for (size_t k = 0; k < BYTES; k++) elements(patterns[i])[k] = expected(i, k);
    }
}

NOINLINE static void look(void)
{
    for (int i = 0; i < PATTERNS; i++)
        for (size_t k = 0; k < BYTES; k++)
            if (elements(patterns[i])[k] != expected(i, k)) FAIL("elements of a pattern have changed");
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
    load();
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
