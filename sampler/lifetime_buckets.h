/* lifetime_buckets.h: how ages are kept: by a histogram in logarithmic steps, one in time and one in bytes that the process
   has allocated since the birth.  The report command reads the same steps from the profile.

   Time is counted in ticks of 1/64 second: steps of a quarter octave (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20 … ticks), so a
   step is at most a quarter of its age wide, up to 16 hours; what is older shares the last one.  Bytes are counted in units of
   4 KiB, in octaves (0, 1, 2, 4, 8 …), up to 2 PiB, which is as far as the clock goes (LIFETIME_CLOCK_BITS of lifetime.h).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_LIFETIME_BUCKETS_H
#define GLEANER_LIFETIME_BUCKETS_H

#include "heap/base.h"

#define LIFETIME_TICKS 64 /* a second; OS_TICKS of os.h */
#define LIFETIME_UNIT ((uint64_t)4096)
#define LIFETIME_TIMES 84
#define LIFETIME_SPANS 40

/* The step of an age, and the least age of a step; the next one's is the first that is not in it. */
static ALWAYS_INLINE unsigned lifetime_time_bucket(uint64_t ticks)
{
    if (ticks < 4) return (unsigned)ticks;
    unsigned octave = 63 - (unsigned)__builtin_clzll(ticks);
    unsigned i = 4 * (octave - 1) + (unsigned)(ticks >> (octave - 2) & 3);
    return i < LIFETIME_TIMES ? i : LIFETIME_TIMES - 1;
}

static inline uint64_t lifetime_time_least(unsigned bucket)
{
    if (bucket < 4) return bucket;
    return (uint64_t)(4 + bucket % 4) << (bucket / 4 - 1);
}

static ALWAYS_INLINE unsigned lifetime_span_bucket(uint64_t units)
{
    unsigned i = units ? 64 - (unsigned)__builtin_clzll(units) : 0;
    return i < LIFETIME_SPANS ? i : LIFETIME_SPANS - 1;
}

static inline uint64_t lifetime_span_least(unsigned bucket)
{
    return bucket ? (uint64_t)1 << (bucket - 1) : 0;
}

#endif
