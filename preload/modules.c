/* modules.c: dlclose is wrapped so that a stack's addresses stay with the module that was mapped
   when the stack was taken.  dlopen is not: it looks at who calls it (RUNPATH), and a wrapper would
   be the caller. SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/face.h"
#include "preload/scope.h"
#include "sampler/sampler.h"

#include <dlfcn.h>

EXPORT int dlclose(void *handle)
{
    static _Atomic(void *) next;
    int (*f)(void *) = (int (*)(void *))atomic_load_explicit(&next, memory_order_relaxed);
    if (!f) {
        f = (int (*)(void *))scope_next("dlclose");
        atomic_store_explicit(&next, (void *)(uintptr_t)f, memory_order_relaxed);
        if (!f) return -1;
    }
    sampler_modules_changed();
    int result = f(handle);
    sampler_modules_changed();
    return result;
}
