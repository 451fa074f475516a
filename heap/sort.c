/* sort.c: J. W. J. Williams' heapsort (Comm. ACM 7, 1964), the one that is n log n on every input and needs no further memory.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/sort.h"

static void sift(char *a, size_t at, size_t n, size_t bytes,
                 bool (*less)(const void *, const void *))
{
    char moved[SORT_MOST];
    __builtin_memcpy(moved, a + at * bytes, bytes);
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && less(a + child * bytes, a + (child + 1) * bytes)) child++;
        if (!less(moved, a + child * bytes)) break;
        __builtin_memcpy(a + at * bytes, a + child * bytes, bytes);
    }
    __builtin_memcpy(a + at * bytes, moved, bytes);
}

void sort_in_place(void *array, size_t n, size_t bytes, bool (*less)(const void *, const void *))
{
    char *a = array, last[SORT_MOST];
    for (size_t i = n / 2; i-- > 0;) sift(a, i, n, bytes, less);
    while (n > 1) {
        n--;
        __builtin_memcpy(last, a + n * bytes, bytes);
        __builtin_memcpy(a + n * bytes, a, bytes);
        __builtin_memcpy(a, last, bytes);
        sift(a, 0, n, bytes, less);
    }
}
