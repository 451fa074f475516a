/* maps.h: the mappings of a process, from /proc/…/maps.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_MAPS_H
#define GLEANER_MAPS_H

#include "heap/base.h"

enum map_kind {
    MAP_KIND_ANONYMOUS, /* no file: heap, stacks, arenas; also shared anonymous (memfd, shm, /dev/zero) */
    MAP_KIND_FILE,
    MAP_KIND_DEVICE,    /* never to be touched */
    MAP_KIND_MAIN_STACK,
    MAP_KIND_KERNEL     /* vdso, vvar, vsyscall, uprobes */
};

struct map {
    uintptr_t from, to;
    uint8_t kind; /* enum map_kind */
    bool readable, writable, executable, shared;
};

struct maps {
    struct map *map; /* by ascending address */
    size_t count, room;
};

/* Reads the mappings of the process that `path` belongs to ("/proc/self/maps", or of a thread).  Raw system calls
   and mappings of its own only; opens one descriptor and closes it.  False without /proc or memory: `to` is empty. */
bool maps_read(struct maps *to, const char *path);
void maps_free(struct maps *);

/* The mapping around an address, or NULL; by binary search. */
const struct map *maps_find(const struct maps *, uintptr_t address);

#endif
