/* tag.h: the word beside a slot or large block (pool.h's entries, large_table.h's entry): the number of its tracked entry, or
   of its caller (caller.h), and what else is known of it.  It is meant only while the block is live; of a block whose state byte is
   not STATE_TRACKED it may be stale, save for a caller where collection was on from the start.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_TAG_H
#define GLEANER_TAG_H

#include "heap/base.h"

#define TAG_CALLER 0x80000000u  /* the number is a caller's */
#define TAG_IGNORED 0x40000000u /* never lost: a root (__lsan_ignore_object and the like) */
#define TAG_LOST 0x20000000u    /* there is a record of it in lost.h */
#define TAG_NUMBER 0x1fffffffu

/* The tracked entry of a tag, or 0; the caller, or 0. */
static inline uint32_t tag_entry(uint32_t tag) { return tag & TAG_CALLER ? 0 : tag & TAG_NUMBER; }
static inline uint32_t tag_caller(uint32_t tag) { return tag & TAG_CALLER ? tag & TAG_NUMBER : 0; }

/* Does it say what a free must hear of?  A live slot with such a tag is STATE_TRACKED.  TAG_LOST is none such: it may be left of a free that ran
   beside lost.c's make_lost. */
static inline bool tag_is_for_free(uint32_t tag) { return (tag & TAG_IGNORED) || tag_entry(tag) != 0; }

#endif
