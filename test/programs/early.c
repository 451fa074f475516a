/* early.c: allocates before everything else runs and after everything else has run, and while
   libraries come and go.  Argument: a library to open and close.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *before_constructors, *in_constructor;

static char *note(const char *text)
{
    char *p = malloc(strlen(text) + 1);
    strcpy(p, text);
    return p;
}

static void preinit(int count, char **arguments, char **environment)
{
    before_constructors = note("preinit");
}
__attribute__((section(".preinit_array"), used)) static void (*preinit_entry)(int, char **,
                                                                              char **) = preinit;

__attribute__((constructor)) static void construct(void)
{
    in_constructor = note("constructor");
}

__attribute__((destructor)) static void destruct(void)
{
    free(before_constructors);
    free(note("destructor"));
    puts("destructor ran");
    fflush(stdout);
}

int main(int count, char **arguments)
{
    if (strcmp(before_constructors, "preinit") != 0 || strcmp(in_constructor, "constructor") != 0)
        return 1;
    free(in_constructor);
    for (int i = 0; i < 100 && count > 1; i++) {
        void *library = dlopen(arguments[1], RTLD_NOW);
        if (!library) {
            puts(dlerror());
            return 2;
        }
        if (dlsym(library, "no_such_symbol") || !dlerror()) return 3;
        dlclose(library);
    }
    return 0;
}
