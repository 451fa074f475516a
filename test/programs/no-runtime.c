/* no-runtime.c: operator new fails in a process that has no C++ runtime at all.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

int main(void)
{
    void *(*nothrow)(size_t, const void *) =
        (void *(*)(size_t, const void *))dlsym(RTLD_DEFAULT, "_ZnwmRKSt9nothrow_t");
    void *(*throwing)(size_t) = (void *(*)(size_t))dlsym(RTLD_DEFAULT, "_Znwm");
    if (!nothrow || !throwing || nothrow(SIZE_MAX / 2 - 1, "") != NULL) return 1;
    puts("null first");
    fflush(stdout);
    throwing(SIZE_MAX / 2 - 1);
    return 2;
}
