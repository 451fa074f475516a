/* plugin.c: a program without C++ opens a library with it; new fails in there.  The runtime is in
   nobody's scope but the library's.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char **arguments)
{
    void *library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        puts(dlerror());
        return 2;
    }
    int (*fails)(void) = (int (*)(void))dlsym(library, "plugin_fails");
    int caught = fails ? fails() : 0;
    puts(caught == 2 ? "caught" : "not caught");
    return caught != 2;
}
