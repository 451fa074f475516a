/* module.h: which file was mapped at an address when a stack was taken.  Append-only: a module that
   was unloaded stays, so that old stacks keep their names. SPDX-License-Identifier:
   LGPL-2.1-or-later */
#ifndef GLEANER_MODULE_H
#define GLEANER_MODULE_H

#include "heap/base.h"

#define MODULE_MAX 4096    /* entries; how many more there were is counted */
#define MODULE_BUILD_ID 32 /* bytes kept of a GNU build id (20 in practice) */

struct module {
    uintptr_t start, end;     /* of its loaded segments */
    uintptr_t text, text_end; /* of the executable segment that held the address */
    uint64_t text_offset;     /* file offset of `text` */
    uintptr_t bias;           /* address minus ELF virtual address */
    const void *identity;     /* its link map: tells a reload at the same place apart */
    uint64_t first_seen;      /* nanoseconds since 1970 */
    uint32_t epoch;           /* module_epoch() then */
    uint8_t build_id_bytes;
    uint8_t build_id[MODULE_BUILD_ID];
    char path[]; /* terminated; "[vdso]" for the vdso */
};

/* The number of unloads so far: grows with module_changed. */
extern _Atomic uint32_t module_epoch_now;
static inline uint32_t module_epoch(void)
{
    return atomic_load_explicit(&module_epoch_now, memory_order_acquire);
}
void module_changed(void);

/* The number (from 1) of the module that is mapped at a code address now; 0 for addresses in no
   module (just-in-time code) or when the table is full.  Appends a module that is new.  Lock-free
   with glibc 2.35 or later (_dl_find_object); before that it takes the loader's lock by
   dl_iterate_phdr, so call it without a lock. */
uint32_t module_of(uintptr_t address);

/* A module by its number; NULL if there is none.  The main program is always 1.  Stays valid. */
const struct module *module_get(uint32_t number);
uint32_t module_count(void);
uint32_t module_dropped(void);

/* Makes the main program module 1; idempotent, called by whoever comes first. */
void module_start(void);

/* What the loader knows of an address. */
struct module_object {
    uintptr_t start, end;
    const void *link_map;
    const void *eh_frame_hdr; /* PT_GNU_EH_FRAME, NULL if none */
};

/* False if no object is mapped there, or if that cannot be known without a lock. Lock-free,
 * callable from a signal handler. */
bool module_object(uintptr_t address, struct module_object *to);
bool module_lock_free(void); /* is _dl_find_object there? */

#endif
