/* remember_sample.h: how many of the old pages are written from one collection to the next, from a sample of them.

   Write tracking would cost a fault for each page that is written, so whether it would be cheaper than the sweep depends on a number that is only
   known for sure while pages are tracked.  Instead some pages that the sweep passes are hashed, chosen by their addresses alone, and
   the next sweep looks which of those have changed: no fault, nothing armed, half a millisecond. When there are too many, half of
   them are dropped, again by their addresses, so that a heap of any size has 512 to 1024 samples, spread evenly (P. Flajolet, On Adaptive Sampling, Computing 43, 1990).  A page that
   was written with what was there before counts as unchanged, which understates the cost of tracking a little.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REMEMBER_SAMPLE_H
#define GLEANER_REMEMBER_SAMPLE_H

#include "heap/base.h"

#define SAMPLE_MOST 1024u

/* A sweep begins, or has ended.  Between them the pages are passed by ascending address. */
void sample_begin(void);
void sample_end(void);

/* Pages whose bits here are zero are samples. */
HIDDEN extern uint64_t sample_mask;
void sample_take(const uint64_t *page);

static inline bool sample_is(const uint64_t *page)
{
    /* Fibonacci hashing: D. Knuth, The Art of Computer Programming 3, 6.4. */
    return ((uintptr_t)page / OS_PAGE * 0x9e3779b97f4a7c15u & sample_mask) == 0;
}

static inline void sample_page(const uint64_t *page)
{
    if (unlikely(sample_is(page))) sample_take(page);
}

/* Of the samples of the sweep before, how many the latest one has found again, and how many of those had changed. */
void sample_result(unsigned *found, unsigned *changed);

/* What was noted is of no use any more. */
void sample_forget(void);

#endif
