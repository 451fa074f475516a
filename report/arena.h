/* arena.h: memory that is freed all at once, with a limit for what an untrusted file may ask for.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REPORT_ARENA_H
#define GLEANER_REPORT_ARENA_H

#include <stddef.h>

struct arena_chunk;
struct arena {
    struct arena_chunk *chunks; /* newest first; the newest is being filled */
    size_t used, room;          /* of the newest chunk */
    size_t total, limit;        /* bytes asked of malloc; 0: no limit */
};

/* Zeroed memory, aligned to 16.  NULL when the limit would be passed or malloc fails. */
void *arena_try(struct arena *, size_t bytes);

/* The same, but never NULL: ends the program when there is no memory. For arenas without a limit.
 */
void *arena_need(struct arena *, size_t count, size_t bytes);

void arena_free(struct arena *);

#endif
