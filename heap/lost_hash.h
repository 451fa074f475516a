/* lost_hash.h: a number for the contents of a block, by which a later look tells whether anything was written.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_LOST_HASH_H
#define GLEANER_LOST_HASH_H

#include "heap/present.h"

/* Of the words of a block, at their places; never 0.  Words that are 0 do not count, so that a page which was never written counts like
   one of zeroes, which the kernel may make of it.  Pages that a large block does not have are not touched. */
#define LOST_HASH_LOOK (64 * KIB) /* from here on `present` is asked; below it may be NULL */
uint64_t lost_hash_of(struct present *, uintptr_t block, size_t bytes);

#endif
