/* vet_filter.h: the quick part of the vetting sweep: which of the eight-byte windows of a run of bytes, one beginning at every byte,
   could be a pointer at all.

   1. A window passes as plain when its sixth byte (bits 40-47 of the value) is one of two, since the window of addresses is 1
      TiB long, and its fifth byte (bits 32-39) lies in one of a few ranges; as mangled when the two bytes that
      hold the pointer guard's highest bits, which an address leaves alone, agree with the guard.  Of random bytes one window in some
      10,000 passes.
   2. Written for AVX2, SSE2 and plain C; all find the same.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_VET_FILTER_H
#define GLEANER_VET_FILTER_H

#include "heap/base.h"

enum vet_filter_way { VET_FILTER_PLAIN_C, VET_FILTER_SSE2, VET_FILTER_AVX2 };

#define VET_FILTER_RANGES 4u

struct vet_filter {
    uint8_t sixth[2];
    uint8_t fifth_from[VET_FILTER_RANGES], fifth_width[VET_FILTER_RANGES]; /* modulo 256 */
    uint8_t guarded[2]; /* of a mangled pointer, at VET_GUARDED_AT and behind it */
    bool guard;         /* is there a guard? */
    enum vet_filter_way way;
};

#if defined(__x86_64__)
#define VET_GUARDED_AT 0u /* glibc rotates by 17 bits after the exclusive or */
#else
#define VET_GUARDED_AT 6u
#endif

#define VET_WINDOW 8u
#define VET_MANGLED 1u /* in a passed window: the mangled form; else the plain one */

struct vet_filter_range {
    uintptr_t from, to; /* addresses; nothing where they are equal */
};

/* For addresses in the ranges, all in 1 TiB and each in a quarter of it; `guard` 0: none.  The best way that this processor
   has, at most `at_best`. */
void vet_filter_start(struct vet_filter *, const struct vet_filter_range range[VET_FILTER_RANGES],
                      uintptr_t guard, enum vet_filter_way at_best);

/* Stores (offset << 1 | VET_MANGLED or 0) of all windows in the `bytes` at `at` that pass, in no order, and returns how many;
   `passed` must have room for 2 * bytes. */
size_t vet_filter(const struct vet_filter *, const uint8_t *at, size_t bytes, uint32_t *passed);

#endif
