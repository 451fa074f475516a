/* coarse_clock.h: CLOCK_MONOTONIC_COARSE in ticks (os.h), for who asks at each malloc and free.

   The kernel writes that clock down, every few milliseconds, in a page that it maps into each process ([vvar]) and that the
   vdso reads: the call takes some 5 ns, as much as a malloc and a free.  So a reading is kept together with the two words that it
   was read from, and is good until one of them changes.  Where they lie is no promise of the kernel's: they are looked for at the start, and a
   reading is kept only if they say the same as the call that took it.  Where they are not found, or say something else (a time
   namespace), each reading is a call.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_COARSE_CLOCK_H
#define GLEANER_COARSE_CLOCK_H

#include "heap/os.h"

/* A thread's last reading; begins zeroed. */
struct coarse_clock {
    uint64_t seconds, nanoseconds; /* as in the kernel's words */
    uint32_t ticks; /* since the base of coarse_clock_start */
};

struct coarse_words {
    _Atomic uint64_t seconds, nanoseconds;
};
HIDDEN extern const struct coarse_words *coarse_words; /* never NULL; what says no time is never equal */

/* Looks for the words; `base`: what is to be 0, of os_ticks.  Once, while there is one thread. */
void coarse_clock_start(uint64_t base);

/* Is the reading the present one? */
static ALWAYS_INLINE bool coarse_is_good(const struct coarse_clock *c)
{
    const struct coarse_words *now = coarse_words;
    return likely(atomic_load_explicit(&now->nanoseconds, memory_order_relaxed) == c->nanoseconds &&
                  atomic_load_explicit(&now->seconds, memory_order_relaxed) == c->seconds);
}

/* Reads the clock anew if the reading is not the present one any more. */
void coarse_clock_anew(struct coarse_clock *);

static ALWAYS_INLINE void coarse_clock_read(struct coarse_clock *c)
{
    if (!coarse_is_good(c)) coarse_clock_anew(c);
}

#endif
