/* random.h: uniform random numbers, 64 at a time.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_RANDOM_H
#define GLEANER_RANDOM_H

#include "heap/base.h"

#define RANDOM_STREAMS 64

/* 64 independent xoshiro128+ generators (Blackman and Vigna, "Scrambled linear pseudorandom number
   generators", ACM TOMS 47, 2021), as a structure of arrays so that one loop advances them all by
   vector instructions; the arrangement is that of OCaml's memprof. */
struct random_streams {
    uint32_t s[4][RANDOM_STREAMS];
};

/* One step of splitmix64 (Steele, Lea, Flood, OOPSLA 2014): advances *state, returns 64 bits. */
uint64_t random_split_mix(uint64_t *state);

/* Fills the states from splitmix64 that starts at `seed`: stream 0 takes the first two outputs, low
   half first, and so on.  No state is all zeros. */
void random_seed(struct random_streams *, uint64_t seed);

/* The next output of every stream.  The lowest bits are the weakest (they are linear). */
void random_batch(struct random_streams *, uint32_t to[RANDOM_STREAMS]);

#endif
