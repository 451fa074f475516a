/* take_cut.h: from a stopped world to the cut that the collector reads (heap/cut.h).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_TAKE_CUT_H
#define GLEANER_TAKE_CUT_H

#include "heap/cut.h"
#include "heap/roots.h"
#include "preload/stop.h"

/* Looks up what stays the same.  From start-up. */
void take_cut_start(void);

/* Inside the pause: fills the cut with every thread, what the kernel holds, our own memory, the program's root ranges; and for a snapshot
   (`frozen_follows`) with the words of what a fork does not freeze. The arrays stay ours and are used again.
   NULL, or why it cannot be had. */
const char *take_cut(struct cut *, const struct stop_result *, bool frozen_follows);

/* Was a parked thread of the latest cut interrupted in this library, so that the heap may be in the middle of a change? */
bool take_cut_found_us_at_work(void);

/* After fork, in the child. */
void take_cut_forked(void);

/* In a snapshot child of such a cut (the next cut then knows of it): has the fork left out memory that the pause did not scan?  0 if not; else how many ranges
   there are, of which at most `room` (64 or more) are stored. */
size_t take_cut_unfrozen(const struct cut *, struct cut_range *to, size_t room);

/* The mappings as they were in the pause of the latest such cut. */
struct maps *take_cut_maps(void);

/* The ranges that the pause has scanned since a fork does not freeze them. */
const struct cut_range *take_cut_unfrozen_known(size_t *n);

/* Ranges that a child reported: the next cuts scan them in the pause. */
void take_cut_scan_unfrozen(const struct cut_range *, size_t n);

/* Notes where the calling thread's stack lies, in its record.  From the thread itself; may allocate. */
void take_cut_note_stack(void);

/* Root ranges of the program: 0, ENOMEM, EINVAL (to remove: none such). */
int take_cut_add_root(uintptr_t from, uintptr_t to);
int take_cut_remove_root(uintptr_t from, uintptr_t to);

#endif
