/* dlclose.c: tells the sampler that a module may be gone. dlopen is not wrapped, since its search
   path depends on who calls it.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/blocking.h"
#include "sampler/sampler.h"

#include <dlfcn.h>

EXPORT int dlclose(void *handle)
{
    static _Atomic(void *) real; /* any thread may look it up */
    int (*call)(void *) = (int (*)(void *))atomic_load(&real);
    if (unlikely(!call)) {
        call = (int (*)(void *))blocking_real("dlclose");
        atomic_store(&real, (void *)call);
    }
    sampler_modules_changed();
    int r = call(handle);
    sampler_modules_changed();
    return r;
}
