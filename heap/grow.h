/* grow.h: arrays that grow by mappings of their own: no allocator, no lock, usable while the world is stopped.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_GROW_H
#define GLEANER_GROW_H

#include "heap/os.h"

/* Bytes that an array with room for `room` items is mapped in. */
static inline size_t grow_bytes(size_t room, size_t item)
{
    return round_up(room * item, OS_PAGE);
}

/* Twice the room for items of `item` bytes, `first` at least; `count` of them are kept.  Returns the array, which has
   moved, or NULL without memory: then the old one is still there. */
static inline void *grow(void *old, size_t count, size_t *room, size_t item, size_t first)
{
    size_t more = *room ? *room * 2 : first;
    void *fresh = os_map(grow_bytes(more, item));
    if (!fresh) return NULL;
    if (old) {
        __builtin_memcpy(fresh, old, count * item);
        os_unmap(old, grow_bytes(*room, item));
    }
    *room = more;
    return fresh;
}

static inline void grow_free(void *array, size_t room, size_t item)
{
    if (array) os_unmap(array, grow_bytes(room, item));
}

#endif
