/* relay_library.h: libraries that export a function which calls back, for tests of code that comes and goes.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_TEST_RELAY_LIBRARY_H
#define GLEANER_TEST_RELAY_LIBRARY_H

#include <check.h>
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>

typedef void relay_fn(void (*)(void));

/* Opens one from the folder of the tests; *at: where it was mapped. */
static void *open_library(const char *name, uintptr_t *at)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", getenv("GLEANER_TEST_LIBRARIES"), name);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(library != NULL, "%s", dlerror());
    struct link_map *map;
    ck_assert_int_eq(dlinfo(library, RTLD_DI_LINKMAP, &map), 0);
    *at = map->l_addr;
    return library;
}

#endif
