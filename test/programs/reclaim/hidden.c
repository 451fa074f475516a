/* hidden.c: blocks that are alive by what no collector can see: exclusive-or with a key, a pipe, a file.  They are used again and again, from
   behind every collection, and must be whole; beside them others are really lost.

      hidden PLACE MILLISECONDS   xor, pipe, file; how long each batch lies hidden.  Prints how many blocks came back.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "../leaks/leaks.h"

#define BATCH 50
#define ROUNDS 6
#define ENOUGH 15 /* collections in which a good part of what is lost comes back, also on a slow machine */

static concealed check[BATCH];
static concealed kept[BATCH]; /* xor */
static int to, from;          /* pipe, file */
static const char *place;

NOINLINE static void hide(void)
{
    for (int i = 0; i < BATCH; i++) {
        struct block *b = block_make(40 + (size_t)i * 24);
        check[i] = conceal(b);
        if (!strcmp(place, "xor")) kept[i] = conceal(b);
        else if (!strcmp(place, "pipe")) CHECK(write(to, &b, sizeof b) == sizeof b);
        else CHECK(pwrite(to, &b, sizeof b, i * (off_t)sizeof b) == sizeof b);
    }
}

NOINLINE static void take(void)
{
    for (int i = 0; i < BATCH; i++) {
        struct block *b;
        if (!strcmp(place, "xor")) b = reveal(kept[i]);
        else if (!strcmp(place, "pipe")) CHECK(read(from, &b, sizeof b) == sizeof b);
        else CHECK(pread(from, &b, sizeof b, i * (off_t)sizeof b) == sizeof b);
        if (!block_is(b, check[i])) FAIL("a hidden block has changed");
        for (size_t k = 0; k < 16; k++) CHECK(b->rest[k] == 0x33);
        free(b);
    }
}

NOINLINE static void leak(void)
{
    for (int i = 0; i < 200; i++) block_make(100 + (size_t)i % 7 * 50);
}

static long now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Time passes, and collections, so many at least; others allocate and free, and would be given what was taken from us. */
NOINLINE static void wait(long ms, int least)
{
    for (long end = now_ms() + ms; now_ms() < end || least > 0; least--) {
        scrub();
        collect(GLEANER_MAJOR);
        for (int i = 0; i < 2000; i++) {
            unsigned char *p = malloc(16 + (size_t)i % 1300);
            CHECK(p);
            memset(p, 0xee, 16 + (size_t)i % 1300);
            free(p);
        }
        leak();
        usleep(20000);
    }
}

int main(int argc, char **argv)
{
    int fds[2];
    place = argc > 1 ? argv[1] : "xor";
    long ms = argc > 2 ? atol(argv[2]) : 100;
    collections_are_there();
    if (!strcmp(place, "pipe")) {
        CHECK(pipe(fds) == 0);
        from = fds[0];
        to = fds[1];
    } else {
        from = to = memfd_create("hidden", MFD_CLOEXEC);
    }
    for (int round = 0; round < ROUNDS; round++) {
        hide();
        scrub();
        /* The last lie much longer: by then their place is known. */
        if (round == ROUNDS - 1) wait(10 * ms, ENOUGH);
        else wait(ms, 1);
        take();
    }
    puts("whole");
    return 0;
}
