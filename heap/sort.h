/* sort.h: sorting without memory: qsort of glibc calls malloc.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_SORT_H
#define GLEANER_SORT_H

#include "heap/base.h"

/* Sorts `n` elements of `bytes` (at most SORT_MOST) each, ascending by `less`; equal ones in any order.  n log n comparisons,
   no recursion. */
#define SORT_MOST 128
void sort_in_place(void *array, size_t n, size_t bytes, bool (*less)(const void *, const void *));

#endif
