/* contents.h: which words of a white block can be looked at: of a large block those on pages that it has (to look at the others
   would make the system provide them), and of any block those outside of blind parts (white.h).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_CONTENTS_H
#define GLEANER_CONTENTS_H

#include "heap/white.h"

/* From this size on a block is asked which of its pages are present, as the marker does. */
#define CONTENTS_LARGE (256 * KIB)

struct contents {
    const struct white *white;
    struct ranges part; /* present runs of the blocks that are asked */
};

/* For the white blocks of `white`.  Raw system calls and mappings of its own; one descriptor meanwhile.  False without
   memory, then nothing is held. */
bool contents_make(struct contents *, const struct white *white);
void contents_free(struct contents *);

/* Where a block is blind in part, or so large: see contents_next. */
uintptr_t contents_ask(const struct contents *, const struct white_block *, uintptr_t *at);

/* Moves *at, in the block, to the first word from there on that can be looked at, and returns the end of those that
   follow it; 0 where there are no more. */
static inline uintptr_t contents_next(const struct contents *c, const struct white_block *b,
                                      uintptr_t *at)
{
    uintptr_t end = b->start + b->bytes;
    if (likely(b->bytes < CONTENTS_LARGE && !white_is_blind(c->white, b->start, b->bytes)))
        return *at < end ? end : 0;
    return contents_ask(c, b, at);
}

#endif
