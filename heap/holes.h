/* holes.h: the parts of the window that the program has made unreadable (mprotect on pages of a block, guard pages
   in a stack that it has from malloc): to load from them would fault.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_HOLES_H
#define GLEANER_HOLES_H

#include "heap/cut.h"
#include "heap/maps.h"

struct holes {
    struct cut_range *hole; /* by ascending address, apart */
    size_t count, bytes_mapped;
};

/* Those of the given mappings.  False without memory. */
bool holes_find(struct holes *, const struct maps *);
void holes_free(struct holes *);

/* Cuts [from, *to) short at the first hole in it.  Where `from` lies in a hole, *to becomes the end of it (or stays,
   where it is nearer) and the result is false: not to be read. */
bool holes_cut(const struct holes *, uintptr_t from, uintptr_t *to);

#endif
