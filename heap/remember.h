/* remember.h: which old memory may hold pointers to young blocks, without a write barrier.  DESIGN section 5.

   Two ways: a sweep of all old memory with a vectorised filter, or write tracking by userfaultfd (Linux 6.7).  Which is cheaper is found
   out while it runs, see remember.c; until then, and where tracking cannot be had, it is the sweep.  remember_words and remember_arm are
   called inside the pause (raw system calls, memory of its own that is gone before they return).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REMEMBER_H
#define GLEANER_REMEMBER_H

#include "heap/mark.h"

enum remember_way { REMEMBER_UNKNOWN, REMEMBER_SWEEP, REMEMBER_TRACK };

/* `forced`: REMEMBER_UNKNOWN for the cheaper one.  Where tracking cannot be had, it is the sweep in any case. Nothing is opened or
   measured before a heap is large enough for tracking to pay. */
void remember_start(enum remember_way forced);

/* The way of the next cycle. */
enum remember_way remember_way(void);

/* Hands the words of old live blocks (pools and large ones) that may point to a white block to the marker (mark_words): all such words,
   or, while pages are tracked, those on pages that were written since the collection before.  `guard` is the cut's pointer guard, 0: none.
   True if it was complete; false: nothing may be said of young blocks. */
bool remember_words(struct marker *, const struct white *young, uintptr_t guard, struct present *);

/* For `verify`: hands over all such words, in whichever way the cycle reads them, and changes nothing.  False without memory, or where not all could
   be looked at. */
bool remember_all_words(struct marker *, const struct white *young, uintptr_t guard, struct present *);

/* From now on what is needed for this is noted (remember_check.h); before the first cycle.  Right after remember_words: pages that were written and
   that tracking did not name, and the first of them; 0 where it sweeps. */
void remember_verify(bool);
uint64_t remember_unseen(struct present *, uintptr_t *first);

/* After a collection that was complete and has made all blocks old: chooses the way of the next cycle and arms tracking.  If it is not
   called after remember_words, the next cycle takes all old memory for written.  A major collection need not call it. */
void remember_arm(struct present *);

/* After every collection, outside the pause, in any thread of the program: opens the descriptor that tracking wants, or closes the one
   that it needs no more (the pause has a descriptor table of its own).  Raw system calls.  The holder of the gate. */
void remember_settle(void);

/* The descriptor that the pause needs in its table; -1: none. */
int remember_descriptor(void);

/* After a fork, in the child: what is tracked is the parent's. */
void remember_fork_child(void);

struct remember_stats {
    enum remember_way way;  /* of the next cycle */
    uint64_t bytes;         /* old memory in the last cycle, and */
    uint64_t bytes_scanned; /* what of it was read for words */
    uint64_t bytes_written; /* what was written between the last two cycles: counted by tracking, else
                               estimated; 0: unknown */
    /* As measured, 0: not yet: to read a KiB, to write to an armed page, to arm one. */
    double sweep_ns_per_kib, track_ns_per_page, arm_ns_per_page;
};
void remember_stats(struct remember_stats *);

#endif
