/* object.h: the ELF file of a module of a profile, found on this machine and checked to be the same
   build.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REPORT_OBJECT_H
#define GLEANER_REPORT_OBJECT_H

#include "report/model.h"

#include <elfutils/libdwfl.h>

enum object_state {
    OBJECT_OPEN,
    OBJECT_MISSING,     /* neither the file nor one of that build id was found */
    OBJECT_OTHER_BUILD, /* the file at its path is of another build, and the right one was not found
                         */
    OBJECT_NONE,        /* not a file: [vdso], anonymous memory */
};

struct object {
    Dwfl *dwfl;
    Dwfl_Module *module; /* its addresses are the file's own virtual addresses */
};

/* Looks at the module's path (under `root` too, if that is not NULL: the target's own view of the
   file system), then for its build id in the debug folders and, where DEBUGINFOD_URLS is set, at
   those servers.  Debug folders: those in GLEANER_DEBUG_PATH, separated by colons, and the system's. */
enum object_state object_open(const struct module *, const char *root, struct object *to);
void object_close(struct object *);

/* The file's virtual address of a place; false when no loaded segment of the file holds it. */
bool object_address(const struct object *, const struct place *, uint64_t *address);

#endif
