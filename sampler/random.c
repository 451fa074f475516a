/* random.c: xoshiro128+, 64 streams in one loop.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sampler/random.h"

uint64_t random_split_mix(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void random_seed(struct random_streams *r, uint64_t seed)
{
    for (unsigned i = 0; i < RANDOM_STREAMS; i++) {
        uint64_t a = random_split_mix(&seed), b = random_split_mix(&seed);
        if ((a | b) == 0) a = 1; /* the one state from which the generator never leaves */
        r->s[0][i] = (uint32_t)a;
        r->s[1][i] = (uint32_t)(a >> 32);
        r->s[2][i] = (uint32_t)b;
        r->s[3][i] = (uint32_t)(b >> 32);
    }
}

void random_batch(struct random_streams *restrict r, uint32_t to[restrict RANDOM_STREAMS])
{
    for (unsigned i = 0; i < RANDOM_STREAMS; i++) {
        uint32_t s0 = r->s[0][i], s1 = r->s[1][i], s2 = r->s[2][i], s3 = r->s[3][i];
        to[i] = s0 + s3;
        s2 ^= s0;
        s3 ^= s1;
        r->s[0][i] = s0 ^ s3;
        r->s[2][i] = s2 ^ (s1 << 9);
        r->s[1][i] = s1 ^ s2;
        r->s[3][i] = s3 << 11 | s3 >> 21;
    }
}
