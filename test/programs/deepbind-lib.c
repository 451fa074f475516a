/* deepbind-lib.c: the library of deepbind.c.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdlib.h>
#include <string.h>

char *library_make(size_t n);
void library_drop(void *p);
void *library_resize(void *p, size_t n);

char *library_make(size_t n)
{
    char *p = malloc(n);
    memset(p, 7, n);
    return p;
}

void library_drop(void *p)
{
    free(p);
}

void *library_resize(void *p, size_t n)
{
    return realloc(p, n);
}
