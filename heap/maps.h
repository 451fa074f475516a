/* maps.h: the mappings of a process, from /proc/…/maps.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_MAPS_H
#define GLEANER_MAPS_H

#include "heap/base.h"

enum map_kind {
    MAP_KIND_ANONYMOUS, /* no file: heap, stacks, arenas; also memory with a name (memfd, shm, /dev/zero) */
    MAP_KIND_FILE,
    MAP_KIND_DEVICE,    /* never to be touched */
    MAP_KIND_MAIN_STACK,
    MAP_KIND_KERNEL,    /* vdso, vvar, vsyscall, uprobes */
    MAP_KIND_RING       /* of io_uring or kernel AIO: memory of the kernel that holds user_data */
};

struct map {
    uintptr_t from, to;
    uint8_t kind; /* enum map_kind */
    bool readable, writable, executable, shared;
    bool cut_short; /* has a file (or memfd, or shm) that somebody may truncate, after which loads end in SIGBUS */
    uint8_t use;    /* 0; left to roots.c */
};

struct maps {
    struct map *map; /* by ascending address */
    size_t count, room;
    bool no_memory; /* why maps_read said false */
};

/* Reads the mappings of the process that `path` belongs to ("/proc/self/maps"; "/proc/thread-self/maps" works also
   after the main thread has ended).  Leaves out the memory that it maps for the list itself.  Raw system calls and
   mappings of its own only; opens one descriptor and closes it.  False without /proc or memory (no_memory): `to` is empty. */
bool maps_read(struct maps *to, const char *path);
void maps_free(struct maps *);

/* The mapping around an address, or NULL; by binary search. */
const struct map *maps_find(const struct maps *, uintptr_t address);

/* Index of the first mapping that ends after `address`; `count` if there is none. */
size_t maps_from(const struct maps *, uintptr_t address);

#endif
