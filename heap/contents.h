/* contents.h: which words of a block can be looked at: of a large block those on pages that it has (to look at the others
   would make the system provide them), and of any block those that the program has not made unreadable.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_CONTENTS_H
#define GLEANER_CONTENTS_H

#include "heap/holes.h"
#include "heap/white.h"

/* From this size on a block is asked which of its pages are present. */
#define CONTENTS_LARGE (256 * KIB)

struct contents {
    struct holes holes;
    struct cut_range *part; /* present runs of the white blocks that are asked, by ascending address */
    size_t parts, room;
    bool no_room;
};

/* For the white blocks of `white`; `maps` are the process's mappings.  Raw system calls and mappings of its own; false
   without memory, then nothing is held. */
bool contents_make(struct contents *, const struct white *white, const struct maps *maps);
void contents_free(struct contents *);

/* Moves *at, in the block, to the first word from there on that can be looked at, and returns the end of those that
   follow it; 0 where there are no more. */
uintptr_t contents_ask(const struct contents *, const struct white_block *, uintptr_t *at);

static inline uintptr_t contents_next(const struct contents *c, const struct white_block *b, uintptr_t *at)
{
    uintptr_t end = b->start + b->bytes;
    if (likely(b->bytes < CONTENTS_LARGE && c->holes.count == 0)) return *at < end ? end : 0;
    return contents_ask(c, b, at);
}

#endif
