/* lost_place.h: where a lost block was allocated, as far as it is known.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_LOST_PLACE_H
#define GLEANER_LOST_PLACE_H

#include "heap/lost.h"

/* What is known of where a block was allocated. */
enum lost_where {
    LOST_NOWHERE,
    LOST_AT_SITE,  /* a site of site.h, with its stack */
    LOST_AT_CALLER /* malloc's caller, caller.h */
};

struct lost_place {
    enum lost_where where;
    uint32_t number; /* of the site or the caller; 0 nowhere */
};

/* The place that a live block's tag (tag.h) names: its tracked entry's site, or its caller. Any thread, no lock; exact while the
   block cannot be freed. */
struct lost_place lost_place_of(uint32_t tag);

/* The same for a block without an entry. */
struct lost_place lost_caller_of(uint32_t tag);

#endif
