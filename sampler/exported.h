/* exported.h: names of the functions that modules export, from the tables that the loader uses, for texts that the process writes
   about itself.  dladdr knows no more and takes the loader's lock, which a thread may hold for ever.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_EXPORTED_H
#define GLEANER_EXPORTED_H

#include "heap/base.h"

struct exported; /* copies of tables, made as they are needed; memory by os_map */

/* NULL where memory or /proc/self/mem is not to be had: then nothing has a name.  One thread may use it. */
struct exported *exported_open(void);
void exported_close(struct exported *);

/* The name of the exported function of module `number` (module.h) that an address lies in: its length, and the name in `to`,
   cut to `bytes`; 0 if there is none, if the module is not mapped any more, or with a glibc before 2.35.  `exported` may be NULL. */
size_t exported_name(struct exported *, uint32_t number, uintptr_t address, char *to, size_t bytes);

#endif
