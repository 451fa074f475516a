/* false_lost.h: by place, the blocks that were called lost and then freed, resized, written or read by the program: each is an error of
   the collector's, proven.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_FALSE_LOST_H
#define GLEANER_FALSE_LOST_H

#include "heap/hooks.h"
#include "sampler/lost_place.h"

#define FALSE_LOST_PLACES 4096u /* kept apart; what more there are count as LOST_NOWHERE */

/* The heap's hook: see hooks.h.  A block that a later collection reached is not counted: a stale word can do that, too. */
void false_lost_note(struct heap_thread_hook *hook, uint32_t tag, size_t given, int proof);

struct false_lost {
    struct lost_place place;
    uint64_t objects, bytes;
};

/* Any thread, and a snapshot child. */
void false_lost_each(void (*each)(const struct false_lost *, void *user), void *user);

#endif
