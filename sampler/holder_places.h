/* holder_places.h: what the memory is in which a word outside lies that holds a block: a thread's frames, its thread-local memory, a
   module's data, another mapping, the kernel.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_HOLDER_PLACES_H
#define GLEANER_HOLDER_PLACES_H

#include "heap/holders.h"
#include "heap/holders_retained.h"

enum holder_area_kind {
    AREA_FRAMES,    /* of a thread; its registers, too, where they were saved there */
    AREA_TLS,       /* of a thread, and libc's data of it */
    AREA_MODULE,    /* data of a module */
    AREA_MAPPING,
    AREA_KERNEL,
    AREA_IGNORED    /* blocks that the program told us to ignore, and what it mapped among them */
};

struct holder_area {
    enum holder_area_kind kind;
    const struct holders_thread *thread; /* of frames and TLS */
    uint32_t module;                     /* number (module.h) */
    uintptr_t from, to;                  /* of a mapping */
};

struct holder_places {
    const struct holders *holders;
    struct holder_area *area;
    uint32_t count;
    size_t room;
    uint32_t latest; /* index of the area that was found last */
    bool failed;     /* no memory for one: then it is area 0 */
};

/* The unit (holders_retained.h) around a place; its area is an index in `area`.  `user` is a struct holder_places, whose `holders`
   is set. */
struct holders_unit holder_place_unit(uint64_t place, void *user);

/* The number (module.h) of the module whose segments hold an address; 0: none.  The loader is asked where that takes no lock: in a
   snapshot child nobody would release it. */
uint32_t holder_module_around(uintptr_t address);

void holder_places_free(struct holder_places *);

#endif
