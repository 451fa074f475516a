/* seal_table.h: which pages are sealed: for seal.c, which looks, and seal_renew.c, which makes and dissolves.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_SEAL_TABLE_H
#define GLEANER_SEAL_TABLE_H

#include "heap/seal.h"

#define SEAL_PAGES (SEAL_MOST / OS_PAGE)
#define SEAL_RANGES 2048u /* each makes up to two mappings more, of some 65,000 that a process may have */

/* Whole pages of one mapping, by ascending address. */
struct seal_range {
    _Atomic uintptr_t from, to;
    uint32_t first; /* number of its first page in the arrays below */
};

struct seal_table {
    _Atomic uint32_t changes; /* stopped worlds that have changed it */
    _Atomic uint32_t count;
    uint32_t pages;
    struct seal_range range[SEAL_RANGES];
    uint64_t broken[SEAL_PAGES / 64];
    uint16_t returned[SEAL_PAGES]; /* bytes of the page that reclaimed slots had */
};

/* NULL: nothing is ever sealed. */
HIDDEN extern struct seal_table *seal_table;
HIDDEN extern _Atomic uint64_t seal_count; /* pages ever sealed */

static inline bool seal_is_broken(uint32_t page) { return seal_table->broken[page / 64] >> page % 64 & 1; }

/* Is the memory there locked (mlock)? */
bool seal_is_locked(uintptr_t address);

/* Empty memory, as the heap maps it. */
bool seal_make_plain(uintptr_t from, uintptr_t to);

/* The first range that ends after the address; `count` if there is none. */
uint32_t seal_from(uintptr_t address);

#endif
