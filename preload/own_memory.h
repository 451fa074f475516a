/* own_memory.h: memory of the library outside the window, which is no root: its writable data, stacks, pages that a fork wipes.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_OWN_MEMORY_H
#define GLEANER_OWN_MEMORY_H

#include "heap/cut.h"

/* As os_map, and noted; never to be unmapped but by own_unmap. Any thread. */
void *own_map(size_t bytes);
void own_unmap(void *, size_t bytes);

/* Notes a range that somebody else mapped; false if there is no room for it. */
bool own_memory_add(uintptr_t from, uintptr_t to);
void own_memory_remove(uintptr_t from);

/* All ranges, the library's own data first.  `room` of them at most; how many there are. */
size_t own_memory(struct cut_range *to, size_t room);

/* Does an address lie in the library's code? */
bool own_text_holds(uintptr_t address);

#define OWN_RANGES 64

#endif
