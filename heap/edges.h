/* edges.h: the white blocks that a word points to, by the marker's rules (mark.h): the interior of a block in the
   plain and the demangled form, and the end of a large block where no other starts.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_EDGES_H
#define GLEANER_EDGES_H

#include "heap/mark.h"
#include "heap/rank.h"

#define EDGE_FORMS 2u /* plain, demangled */

/* A bit for each form in which the word is an address in the window. */
static inline unsigned edge_forms(uintptr_t word, uintptr_t guard)
{
    unsigned forms = mark_plain(word) - window_base < WINDOW_TABLES_OFFSET;
    if (mark_demangled(word, guard) - window_base < WINDOW_TABLES_OFFSET && guard) forms |= 2;
    return forms;
}

/* The white block in this form of the word, and its number; false if there is none. */
static inline bool edge_target(const struct rank *r, uintptr_t word, uintptr_t guard, unsigned form,
                               struct white_block *b, uint32_t *number)
{
    uintptr_t address = form == 0 ? mark_plain(word) : mark_demangled(word, guard);
    if (unlikely(!white_find(r->white, address, b))) {
        if (address - window_base <= WINDOW_LARGE_OFFSET || address % OS_PAGE != 0) return false;
        if (!white_find(r->white, address - 1, b)) return false;
    }
    __builtin_prefetch((const void *)b->start);
    if (!white_is(r->white, b)) return false;
    *number = rank_of(r, b->area, b->granule);
    return true;
}

#endif
