/* unload.c: loads plugins in turn, takes blocks through each, and unloads it, so that the next one
   may lie at the same addresses: unload PLUGIN...
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static void *held[16][100];

int main(int argc, char **argv)
{
    for (int i = 1; i < argc && i <= 16; i++) {
        void *plugin = dlopen(argv[i], RTLD_NOW);
        if (!plugin) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        void (*fill)(void **, int, size_t);
        *(void **)&fill = dlsym(plugin, "plugin_fill");
        fill(held[i - 1], 100, 1000u * (unsigned)i);
        dlclose(plugin);
    }
    return 0;
}
