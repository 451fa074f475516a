/* collect.h: collections: what they do with a cut, and what is known of them.  preload/collection.h stops the world and calls this.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_COLLECT_H
#define GLEANER_COLLECT_H

#include "heap/cut.h"
#include "heap/lost.h"
#include "heap/lost_record.h"
#include "heap/maps.h"
#include "heap/mark_team.h"
#include "heap/present.h"

enum collection_kind { COLLECTION_MINOR, COLLECTION_MAJOR };
enum collection_trigger { TRIGGER_REQUEST, TRIGGER_EXIT, TRIGGER_TIME, TRIGGER_GROWTH, TRIGGER_API, TRIGGER_MEMORY, TRIGGERS };

/* One collection, for the log and the profile.  Times in nanoseconds. */
struct collection {
    uint32_t number; /* from 1 */
    enum collection_kind kind;
    enum collection_trigger trigger;
    bool snapshot;   /* marked by a child */
    bool complete;
    const char *why_not; /* where it is not complete */
    uint64_t time;   /* since 1970, of the cut */
    uint64_t pause;  /* the whole stop, as the program felt it */
    uint64_t stop, roots, remember, mark, sweep; /* parts; roots and mark of a snapshot are outside the pause */
    uint64_t young, young_bytes;       /* blocks found young */
    uint64_t promoted, promoted_bytes; /* of them, reached */
    uint64_t lost, lost_bytes;         /* newly lost */
    bool reclaims;                     /* lost blocks are reclaimed: */
    uint64_t reclaimed, reclaimed_bytes, quarantined, quarantined_bytes; /* by it; of those quarantined, newly */
    uint64_t missed;                   /* with `verify`: young blocks that a full mark reached and this did not; not 0: a fault of ours */
    uintptr_t first_missed;
    uint64_t unseen;                   /* and pages that were written unseen (remember.h) */
    uintptr_t first_unseen;
};

/* Figures over all collections so far. */
struct collections {
    uint64_t minor, major, incomplete;
    uint64_t promoted_bytes;
    /* milliseconds: median, 99th percentile, maximum, over all of them (a histogram with 5 % steps) */
    struct collection_spread {
        double p50, p99, max;
    } pause, stop, mark;
    struct collection latest, latest_major; /* number 0: none yet */
};
void collections(struct collections *);

/* ---- what preload/collection.c calls ---- */

#define COLLECT_SHARED_MOST (256 * MIB) /* of shared memory, to be scanned in a pause */

struct collect_options {
    bool frozen;              /* in a snapshot child: what its copy froze; else everything, in a stopped process */
    enum present_way at_best; /* PRESENT_SCAN; tests: a lower one */
    struct maps *maps;        /* frozen: as they were in the pause; else NULL */
    const struct cut_range *unfrozen; /* frozen: what the pause has scanned because a fork does not freeze it */
    size_t n_unfrozen;
    bool vet;                 /* look for exotic pointers */
    bool reclaim;             /* and for what reclaim wants to know: islands, freed memory, the state of the stacks */
    unsigned helpers;         /* markers beside the caller, and how they are started (mark_team.h); 0, NULL: none */
    mark_start_helper *start_helper;
    struct pieces *pieces;    /* a major one: the program's arenas (arenas_mark.h); NULL: none */
    bool verify;              /* hold what a minor collection reached against a full mark; see `missed` */
};

/* Everything of a major collection but the stop: finds what is lost and writes it to `to` (done = 1 last). Inside a stopped world, or in a
   snapshot child. */
void collect_major(struct verdict *to, const struct cut *, const struct collect_options *);

/* A minor collection, inside the stopped world; fills `of` but its pause. */
void collect_minor(const struct cut *, const struct collect_options *, struct collection *of);

/* Before a major collection's marking, in the pause: makes all blocks old; fills young and young_bytes. */
void collect_age(struct collection *of);

/* In the pause: a number for where every thread is, by its registers, or where nothing more is known its stack pointer. */
uint32_t collect_stacks_state(const struct cut *);

/* Counts a collection that is over. The holder of the gate. */
void collect_count(const struct collection *);

/* CLOCK_MONOTONIC, in nanoseconds. */
uint64_t collect_clock(void);

/* After fork, in the child: nothing was collected yet. */
void collect_fork_child(void);

/* Was the block allocated before the latest collection?  False for one that is no live block. */
bool heap_is_old(const void *block);

#endif
