/* deepbind.c: a library opened with RTLD_DEEPBIND finds libc's malloc before ours; blocks cross the
   border in both directions: its blocks are freed, resized and asked about here, and ours there.  Built once more with a fixed address:
   then malloc's address is one in this program, for all.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int count, char **arguments)
{
    void *(*volatile by_address)(size_t) = malloc;
    free(by_address(10));
    void *library = dlopen(arguments[1], RTLD_NOW | RTLD_DEEPBIND);
    if (!library) {
        puts(dlerror());
        return 2;
    }
    char *(*make)(size_t) = (char *(*)(size_t))dlsym(library, "library_make");
    void (*drop)(void *) = (void (*)(void *))dlsym(library, "library_drop");
    void *(*resize)(void *, size_t) = (void *(*)(void *, size_t))dlsym(library, "library_resize");
    int foreign = 0;
    for (size_t n = 1; n < 3000000; n = n * 2 + 3) {
        char *p = make(n), *own = malloc(n);
        foreign += p != NULL;
        if (malloc_usable_size(p) < n || p[n - 1] != 7) return 3;
        p = realloc(p, n + 4000);
        if (!p || p[n - 1] != 7) return 4;
        free(p);
        p = make(n);
        if (realloc(p, 0) != NULL) return 5;
        drop(make(n));
        drop(malloc(n));
        drop(strdup("a block that libc allocates for us"));
        void *aligned = NULL;
        if (posix_memalign(&aligned, 256, n) != 0) return 6;
        drop(aligned);
        own = resize(own, n + 4000);
        if (!own || malloc_usable_size(own) < n + 4000) return 7;
        free(own);
    }
    free(malloc(10));
    puts(foreign > 10 ? "crossed" : "did not");
    return 0;
}
