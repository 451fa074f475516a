/* reclaim.h: the face of reclaim: lost blocks go back to the pools.  DESIGN section 7; HAZARDS C4, C5.

   1. A lost block is on trial until it meets the rules of eligible.h, is then condemned, and with its whole island (islands.h) quarantined: still
      allocated, contents kept, in every way a lost block.  A further complete major collection that does not reach it, and finds
      its contents unchanged, reclaims it (quarantine.h).
   2. Whoever frees, resizes or writes such a block meanwhile proves that it was not lost: a veto.  Its place (reclaim_place.h) never
      has a block reclaimed again.  A free that comes after it was reclaimed and before the slot is given out again is found by what is
      kept beside the slot (reclaimed.h), does no harm, and is a veto, too.  One veto after the first block was reclaimed ends it all, for
      this process and its children.
   3. Synchronisation.  All is decided by the holder of the collection gate, while the program runs; it and a free race for the
      block by one compare-and-swap (lost_claim).  Figures are atomic.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_RECLAIM_H
#define GLEANER_RECLAIM_H

#include "heap/eligible.h"
#include "heap/lost_record.h"
#include "heap/lost_records.h"

struct reclaim_options {
    uint64_t delay_ns;      /* nothing is quarantined before the process is so old; 0: none of the rules that wait */
    uint64_t age_ns;        /* since it was missed first */
    unsigned confirmations; /* complete major collections in a row, at different states of the stacks */
    unsigned trial;         /* blocks of its place that were condemned by earlier collections */
    unsigned share;         /* per cent of the live bytes that one collection may quarantine */
    bool any_stacks;        /* confirmations count at the same state of the stacks, too */
    bool any_contents;      /* contents may be such that nobody can look at them */
    bool seal;              /* whole pages of quarantined blocks are sealed (seal.h) */
    bool libraries;         /* blocks that the loader or libc allocated, too */
};

/* From start-up. */
void reclaim_start(const struct reclaim_options *);

/* Ends it for this process; quarantined blocks are lost ones again.  The first reason counts; a string that stays.  Any thread;
   calls the hook `reclaim_off`. */
void reclaim_stop(const char *why);

/* Was it started, and nothing has ended it? */
bool reclaim_is_on(void);

/* What a collection did. */
struct reclaim_did {
    uint64_t quarantined, quarantined_bytes, reclaimed, reclaimed_bytes;
};

/* Applies the rules to what a complete major collection has found, after lost_apply, with the same arguments. `tight`: memory is short, so that
   one collection may take half of the heap.  The holder of the gate. */
void reclaim_cycle(const struct verdict *, uint64_t time, uint32_t number, bool tight, struct reclaim_did *);

struct reclaim_figures {
    bool started;
    const char *off_why;                  /* NULL: it is on, or was never started */
    uint64_t reclaimed, reclaimed_bytes;  /* blocks and bytes given, in this process */
    uint64_t vetoes, vetoes_after;        /* blocks; those after the first was reclaimed */
    uint64_t sealed_bytes, sealed_ever;   /* of quarantined blocks, on pages that are sealed now; pages so far (seal.h) */
    uint64_t late;                        /* of them: were reclaimed already when the program freed or resized them */
    struct {
        uint64_t blocks, bytes;
    } rule[ELIGIBLE_RULES];               /* lost blocks by what keeps them, as of the latest collection; [0]: those in quarantine */
};
void reclaim_figures(struct reclaim_figures *);
void reclaim_of_class(unsigned class, uint64_t *blocks, uint64_t *bytes);

/* ---- what lost.c calls ---- */

/* A block is lost, newly: its trial begins. */
void reclaim_began(struct lost_trial *, uint32_t tag, const void *block);

/* A block on trial was proven not to be lost (a copy of its trial; the record has ended). */
void reclaim_proved(const struct lost_trial *, enum lost_proof);

/* A reclaimed one was. */
void reclaim_proved_late(uint32_t place, enum lost_proof);

/* After fork, in the child: counts from zero. */
void reclaim_fork_child(void);

#endif
