/* remember_filter.h: which words of a page may point to young blocks, at the speed of memory.

   1. A bit for each unit of 32 KiB of the window says whether a young block lies in it (medium pools are eight units, a large
      block is all those that it touches).  For a gibibyte of heap that is 4 KiB, so it stays in the nearest cache.
   2. Words go by groups of 32 through vectors: does the word, or its demangled form, point between the first and the last of these units?
      Where none of a group does, which is the rule where words are no pointers or young blocks lie together, that was all.
   3. Else each word's unit is looked up, without a branch that depends on data: every second word of an old heap may be a
      pointer.
   The vectors are GCC's and clang's generic ones: SSE2, NEON, and AVX2 where the processor has it.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REMEMBER_FILTER_H
#define GLEANER_REMEMBER_FILTER_H

#include "heap/window.h"

#define FILTER_UNIT_SHIFT 15
#define FILTER_AREAS                                                                               \
    (WINDOW_LARGE_OFFSET + WINDOW_LARGE_BYTES) /* of the window: where blocks lie */
#define FILTER_UNITS (FILTER_AREAS >> FILTER_UNIT_SHIFT)
#define FILTER_GROUP 32u /* words */
#define FILTER_MOST 512u /* words a call */

struct filter {
    uintptr_t low,
        bytes; /* from the first young unit to the end of the last one; bytes 0: there is none */
    uintptr_t guard; /* of mark_demangled; 0: words are not demangled */
    uint64_t *unit;  /* FILTER_UNITS bits */
};

/* Sets the bits of the units that [from, from + bytes) touches, an address range in the window's areas. */
void filter_add(struct filter *, uintptr_t from, size_t bytes);

static inline bool filter_has(const struct filter *f, uintptr_t address) /* in the areas */
{
    uintptr_t unit = (address - window_base) >> FILTER_UNIT_SHIFT;
    return f->unit[unit / 64] >> unit % 64 & 1;
}

/* Looks at `n` words (a multiple of FILTER_GROUP, at most FILTER_MOST) from an address aligned to 32.  Writes the
   numbers of those of which a form lies in a young unit to `found`, which has room for FILTER_MOST, and returns how many. */
unsigned filter_words(const struct filter *, const uintptr_t *from, unsigned n, uint16_t *found);

/* For tests: without the instructions that not every processor has. */
void filter_baseline(bool);

#endif
