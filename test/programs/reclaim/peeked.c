/* peeked.c: blocks that are alive by what no collector can see, and are only read: by the program, or by the kernel, which must not be refused.
   They fill whole pages, so that the seals of the quarantine tell.

      peeked WHO BYTES   self, kernel; of each block.  Prints "whole".
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "../leaks/leaks.h"

#define BLOCKS 24
#define ROUNDS 8
#define OTHERS 200 /* that get what was taken */

static concealed kept[BLOCKS];
static size_t bytes;
static int pipe_ends[2];

static unsigned char expected(int i, size_t at) { return (unsigned char)(at / 64 + (size_t)i * 5 + 1); }

NOINLINE static void hide(void)
{
    for (int i = 0; i < BLOCKS; i++) {
        unsigned char *b = malloc(bytes);
        CHECK(b);
        kept[i] = conceal((struct block *)b);
    }
    for (int i = 0; i < BLOCKS; i++) {
        unsigned char *b = reveal(kept[i]);
        for (size_t k = 0; k < bytes; k++) b[k] = expected(i, k);
    }
}

NOINLINE static void peek(bool by_kernel)
{
    for (int i = 0; i < BLOCKS; i++) {
        const unsigned char *b = (const unsigned char *)reveal(kept[i]);
        for (size_t k = 0; k < bytes; k += 4096) {
            unsigned char byte = 0;
            if (by_kernel) {
                CHECK(write(pipe_ends[1], b + k, 1) == 1);
                CHECK(read(pipe_ends[0], &byte, 1) == 1);
            } else {
                byte = *(volatile const unsigned char *)(b + k);
            }
            if (byte != expected(i, k)) FAIL("a hidden block has changed");
        }
    }
}

NOINLINE static void others(void)
{
    static unsigned char *p[OTHERS];
    for (int i = 0; i < OTHERS; i++) {
        CHECK((p[i] = malloc(bytes)));
        memset(p[i], 0xee, bytes);
    }
    for (int i = 0; i < OTHERS; i++) free(p[i]);
}

int main(int argc, char **argv)
{
    bool by_kernel = argc > 1 && !strcmp(argv[1], "kernel");
    bytes = argc > 2 ? (size_t)atol(argv[2]) : 4096;
    CHECK(pipe(pipe_ends) == 0);
    collections_are_there();
    hide_from_one(hide); /* once they have been used their place is proven, however many collections there are */
    for (int round = 0; round < ROUNDS; round++) {
        scrub();
        peek(by_kernel);
        others();
        scrub();
        collect(GLEANER_MAJOR);
    }
    puts("whole");
    return 0;
}
