/* misuse.c: frees what is not its to free, in the way that its argument names.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char fixed[64] __attribute__((aligned(16)));
static void *volatile sink;
static void *hide(void *p)
{
    sink = p;
    return sink;
}

int main(int count, char **arguments)
{
    const char *how = count > 1 ? arguments[1] : "";
    char local[64] __attribute__((aligned(16)));
    char *p = hide(malloc(100)), *large = hide(malloc(1 << 20)), *medium = hide(malloc(5000));
    memset(p, 1, 100);
    if (strcmp(how, "double") == 0) {
        free(p);
        free(hide(p));
    } else if (strcmp(how, "double-medium") == 0) {
        free(medium);
        free(hide(medium));
    } else if (strcmp(how, "double-large") == 0) {
        free(large);
        free(hide(large));
    } else if (strcmp(how, "interior") == 0)
        free(hide(p + 16));
    else if (strcmp(how, "interior-large") == 0)
        free(hide(large + 4096));
    else if (strcmp(how, "misaligned") == 0)
        free(hide(p + 1));
    else if (strcmp(how, "stack") == 0)
        free(hide(local));
    else if (strcmp(how, "static") == 0)
        free(hide(fixed));
    else if (strcmp(how, "text") == 0)
        free(hide("text of the program"));
    else if (strcmp(how, "small-number") == 0)
        free(hide((void *)(uintptr_t)48));
    else if (strcmp(how, "realloc-static") == 0) {
        if (realloc(hide(fixed), 100) != NULL) return 4;
    } else if (strcmp(how, "realloc-freed") == 0) {
        free(p);
        sink = realloc(hide(p), 200);
    } else
        return 3;
    free(malloc(100));
    puts("went on");
    return 0;
}
