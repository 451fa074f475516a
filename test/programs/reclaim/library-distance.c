/* library-distance.c: a library that finds a block only by its distance from another one, as libfontconfig finds the elements of a pattern; it
   bears that one's name, by which the library knows it.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "library-distance.h"

#include <stdlib.h>

struct pattern {
    intptr_t elements; /* from the pattern's own address */
};

struct pattern *pattern_make(size_t bytes)
{
    struct pattern *p = malloc(sizeof *p);
    char *elements = malloc(bytes);
    if (!p || !elements) abort();
    p->elements = (intptr_t)((uintptr_t)elements - (uintptr_t)p);
    return p;
}

unsigned char *pattern_elements(struct pattern *p) { return (unsigned char *)((uintptr_t)p + (uintptr_t)p->elements); }
