/* retention.c: numbers, times, text and random bits that live blocks are full of hide less than one lost block in
   a thousand (T25, H75).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "leaks.h"

#define NOISE_BLOCKS 1024
#define NOISE_WORDS 8192 /* 64 KiB */
#define LOST 10000

static uint64_t *volatile noise[NOISE_BLOCKS];
static concealed lost[LOST];
static uint64_t state = 88172645463325252;

static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static uint64_t value(int kind)
{
    union {
        double d;
        uint64_t u;
    } number;
    uint64_t r = next();
    switch (kind) {
    case 0:
        return r;
    case 1: /* a double */
        number.d = (double)(int64_t)r / 1e9;
        return number.u;
    case 2: /* nanoseconds since 1970, these years */
        return 1700000000000000000 + r % 100000000000000000;
    case 3: /* two small numbers */
        return (r & 0xffff) << 32 | (r >> 16 & 0xfffff);
    case 4: /* letters */
        return (r & 0x0f0f0f0f0f0f0f0f) | 0x6060606060606060;
    default: /* Cyrillic in UTF-8 */
        return (r & 0x1f001f001f001f00) | 0x80d080d080d080d0;
    }
}

NOINLINE static void fill(void)
{
    for (int i = 0; i < NOISE_BLOCKS; i++) {
        CHECK((noise[i] = malloc(NOISE_WORDS * 8)));
        for (int k = 0; k < NOISE_WORDS; k++) noise[i][k] = value(i % 6);
    }
}

NOINLINE static void lose(void)
{
    for (int i = 0; i < LOST; i++) lost[i] = conceal(block_make(32 + next() % 400));
}

int main(void)
{
    collections_are_there();
    fill();
    lose();
    scrub();
    majors(2);
    int hidden = 0;
    for (int i = 0; i < LOST; i++) hidden += gleaner_state(reveal(lost[i])) != GLEANER_LOST;
    if (hidden > LOST / 1000) FAIL("%d of %d lost blocks are hidden", hidden, LOST);
    for (int i = 0; i < NOISE_BLOCKS; i++) {
        if (gleaner_state(noise[i]) != GLEANER_OLD) FAIL("a block of numbers is %s", state_name(gleaner_state(noise[i])));
    }
    return 0;
}
