/* edges.h: the white blocks that a word points to, by the marker's rules (mark.h): the interior of a block in the
   plain and the demangled form, and of a large block its end, too.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_EDGES_H
#define GLEANER_EDGES_H

#include "heap/mark.h"
#include "heap/rank.h"

/* Forms 0, 1: plain, and the byte before it; 2, 3: the same of the demangled word. */
#define EDGE_FORMS 4u

static inline unsigned edge_in_window(uintptr_t address)
{
    uintptr_t offset = address - window_base;
    if (likely(offset >= WINDOW_TABLES_OFFSET)) return 0;
    return offset > WINDOW_LARGE_OFFSET && offset % OS_PAGE == 0 ? 3 : 1;
}

/* A bit for each form in which the word may point to a block. */
static inline unsigned edge_forms(uintptr_t word, uintptr_t guard)
{
    unsigned forms = edge_in_window(mark_plain(word));
    return unlikely(guard) ? forms | edge_in_window(mark_demangled(word, guard)) << 2 : forms;
}

/* The white block in this form of the word, and its number; false if there is none. */
static inline bool edge_target(const struct rank *r, uintptr_t word, uintptr_t guard, unsigned form,
                               struct white_block *b, uint32_t *number)
{
    uintptr_t address = (form < 2 ? mark_plain(word) : mark_demangled(word, guard)) - form % 2;
    if (!white_find(r->white, address, b)) return false;
    __builtin_prefetch((const void *)b->start);
    if (!white_is(r->white, b)) return false;
    *number = rank_of(r, b->area, b->granule);
    return true;
}

#endif
