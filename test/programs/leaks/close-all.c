/* close-all.c: a program that closes every descriptor it does not know, again and again, as daemons do, while it changes what its old
   blocks point to (T17, H61).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "leaks.h"

#include <fcntl.h>

#define OLD 500
#define ROUNDS 15

static void **volatile old[OLD]; /* blocks of 16 pointers */

static void close_everything(void)
{
    for (int fd = 3; fd < 1100; fd++) close(fd);
    CHECK(syscall(SYS_close_range, 3, ~0u, 0) == 0 || errno == ENOSYS);
}

NOINLINE static void change(unsigned round)
{
    unsigned r = round * 7919 + 1;
    for (int i = 0; i < 2000; i++) {
        r = r * 1664525 + 1013904223;
        void **at = &old[(r >> 8) % OLD][(r >> 20) % 16];
        if (*at) CHECK(block_is(*at, ((struct block *)*at)->self));
        free(*at);
        *at = block_make(32 + r % 300);
    }
}

NOINLINE static void all_live(void)
{
    for (int i = 0; i < OLD; i++) {
        for (int k = 0; k < 16; k++) {
            struct block *b = old[i][k];
            if (!b) continue;
            CHECK(block_is(b, b->self));
            enum gleaner_state s = gleaner_state(b);
            if (s != GLEANER_OLD) FAIL("a block that an old one points to is %s", state_name(s));
        }
    }
}

int main(void)
{
    collections_are_there();
    for (int i = 0; i < OLD; i++) CHECK((old[i] = calloc(16, sizeof(void *))));
    majors(1);
    for (unsigned round = 0; round < ROUNDS; round++) {
        close_everything();
        int lowest = open("/dev/null", O_RDONLY);
        if (lowest != 3) FAIL("open gave %d, not 3", lowest);
        change(round);
        collect(GLEANER_MINOR);
        change(round + 100);
        if (round % 4 == 3) {
            collect(GLEANER_MAJOR);
        } else {
            collect(GLEANER_MINOR);
        }
        all_live();
    }
    controls_lose();
    scrub();
    majors(1);
    controls_are_lost();
    struct gleaner_leaks leaks = check_leaks();
    if (leaks.false_lost.blocks) FAIL("%zu live blocks were called lost", leaks.false_lost.blocks);
    return 0;
}
