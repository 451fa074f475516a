/* sizeclass.h: which slot size serves a request.

   Small classes go to 1 KiB, medium ones to 32 KiB.  Sizes are multiples of 16 (small) and of 128
   (medium), chosen so that no request over 128 bytes wastes more than an eighth of its slot, as
   OCaml's size classes are (runtime/caml/sizeclasses.h of OCaml 5 bounds the overhead to 10.1 %).
   Class 0 is none; the class number is what a block's state byte holds (state.h), so it must fit in
   six bits. The powers of two are among the sizes: aligned requests are served from them.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_SIZECLASS_H
#define GLEANER_SIZECLASS_H

#include "heap/hooks.h"

#define SMALL_MAX 1024u
#define MEDIUM_MAX 32768u
#define SMALL_CLASSES 27u /* classes 1 … 27 */
#define MEDIUM_CLASSES 32u
#define POOL_CLASSES (SMALL_CLASSES + MEDIUM_CLASSES) /* classes 1 … POOL_CLASSES have pools */

_Static_assert(POOL_CLASSES < HEAP_CLASS_LARGE, "a class number fits in six bits beside the large one");

/* Slot size of a class in bytes; 0 for class 0 and classes without pools. */
HIDDEN extern const uint16_t class_size[HEAP_CLASSES];

/* Class of a request of 16·i-15 … 16·i bytes (i up to 64; 0 is as 1). */
HIDDEN extern const uint8_t small_class_of[SMALL_MAX / 16 + 1];

/* Class of a request of 128·i-127 … 128·i bytes, i from 9 up. */
HIDDEN extern const uint8_t medium_class_of[MEDIUM_MAX / 128 + 1];

/* The class for `size` bytes, at most MEDIUM_MAX. */
static inline unsigned class_for(size_t size)
{
    return size <= SMALL_MAX ? small_class_of[(size + 15) / 16] : medium_class_of[(size + 127) / 128];
}

static inline bool class_is_medium(unsigned class) { return class > SMALL_CLASSES; }

/* The class for `size` bytes at a multiple of `alignment` (a power of two), 0 if only a large block
   can be so aligned. */
unsigned class_for_aligned(size_t alignment, size_t size);

/* offset / class_size[class] for offsets within a pool, by a multiplication: exact for every offset
   below 2^18, since the reciprocal's error times the offset stays under 2^-22, less than 1/size. */
HIDDEN extern const uint64_t class_reciprocal[HEAP_CLASSES];

static inline unsigned slot_of_offset(unsigned class, size_t offset)
{
    return (unsigned)((offset * class_reciprocal[class]) >> 40);
}

#endif
