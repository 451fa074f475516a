/* unload-lib.c: a plugin that leaves blocks behind.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdlib.h>

void plugin_fill(void **to, int count, size_t bytes);

__attribute__((noinline, visibility("default"))) void plugin_fill(void **to, int count, size_t bytes)
{
    for (int i = 0; i < count; i++) to[i] = malloc(bytes);
}
