/* vet_memory.h: the memory that the vetting sweep looks at: all roots (blind parts of the window are among them), and our blocks
   that are not lost; where it is wanted freed memory, too.  Never our tables, and no lost block.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_VET_MEMORY_H
#define GLEANER_VET_MEMORY_H

#include "heap/cut.h"
#include "heap/roots.h"
#include "heap/white.h"

enum vet_memory { VET_MEMORY_USED, VET_MEMORY_BOTH, VET_MEMORY_FREED };

/* Calls `look` for every run of bytes, at least eight and 8-aligned.  `goes_on`: in the process's memory the run may
   follow the one before it (either may be a copy that lies elsewhere).  Freed memory is: free slots, but for those that were
   reclaimed (what lost blocks held speaks for nobody); free pools and freed large blocks as far as their pages are there; what is
   unused of the threads' stacks.  Raw system calls and
   mappings of its own; two descriptors meanwhile.  False where something could not be looked at. */
bool vet_memory_each(const struct white *, struct roots *, const struct cut *, enum vet_memory which,
                     void (*look)(const uint8_t *at, size_t bytes, bool goes_on, void *user),
                     void *user);

#endif
