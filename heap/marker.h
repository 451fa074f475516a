/* marker.h: the inside of a marker, for mark.c and mark_team.c.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_MARKER_H
#define GLEANER_MARKER_H

#include "heap/mark.h"

#define FOUND 32u
#define GREY 16u
#define STACK_FIRST (64 * KIB / sizeof(uint64_t))
#define LARGE_LOOK (256 * KIB) /* large blocks from here on are asked which of their pages there are */
#define AREA_SHIFT 38          /* small and medium areas are 256 GiB */
_Static_assert(WINDOW_SMALL_BYTES == (size_t)1 << AREA_SHIFT && WINDOW_MEDIUM_OFFSET == WINDOW_SMALL_BYTES &&
                   WINDOW_LARGE_OFFSET == 2 * WINDOW_SMALL_BYTES,
               "an offset's high bits say the area");

struct marker {
    struct white *white;
    uintptr_t guard;
    struct present present; /* a copy: each member of a team has what its latest look told */
    bool may_look;
    bool incomplete; /* something could not be looked at */
    uint64_t *stack;
    size_t depth, room;
    uintptr_t found[FOUND]; /* offsets in the window + 1; 0: none */
    unsigned found_at;
    uint64_t grey[GREY];
    unsigned grey_first, grey_count;
    uint64_t *flagged[2]; /* pools to be scanned again */
    size_t flagged_bytes[2];
    bool any_flagged, large_flagged;
    struct mark_team *team; /* NULL: alone */
    struct mark_stats stats;
};

/* Scans until the stack and both rings are empty; in a team also gives work away. */
void marker_drain(struct marker *);

/* Room for one more entry, or the block's pool is flagged. */
void marker_push(struct marker *, uint64_t entry);

/* mark_team.c: the team's members want work, and this one has more than it needs: gives the older half of its stack away. */
void mark_team_share(struct marker *);

#define MARK_PIECE 0xffu /* in the place of a class: an entry is the address of a block of an arena << 8 | this */

#define TEAM_SHARE_DEPTH 512u /* a stack that is deeper may be shared */

#endif
