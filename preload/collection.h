/* collection.h: when collections run and who runs them: triggers, the stop, the snapshot child, what it found.

   One at a time, by the holder of the gate (stop.h).  Minor collections run in place, inside the pause.  Major ones are marked by
   a snapshot child where memory allows it, else in place; what the child finds it leaves in memory shared with the
   parent, which applies it at the next slow path, request or end.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_COLLECTION_H
#define GLEANER_COLLECTION_H

#include "heap/collect.h"
#include "preload/config.h"

/* From start-up, after dump_start succeeded. */
void collection_start(const struct config *);

/* Runs a collection now. `wait`: until its verdict is applied (a major by snapshot takes its time).  `urgent`: in spite
   of earlier stops that failed.  0; EAGAIN: incomplete, or another is under way and `wait` is false; ENOTSUP: never possible here;
   ENOMEM.  Any thread that holds no lock of ours; not in a signal handler. */
int collection_run(enum collection_kind, enum collection_trigger, bool wait, bool urgent);

/* Waits for the one that is under way, if any, and applies it.  As collection_run. */
void collection_settle(void);

/* Applies what a snapshot child has found since, if it has ended. Cheap where there is nothing. */
void collection_apply(void);

/* The tick hook's part: starts what is due. */
void collection_tick(uint64_t now);

struct stop_result;

/* Inside the pause of a dump with leaks, before its snapshot is taken: the cut. */
void collection_prepare_snapshot(const struct stop_result *);

/* In a snapshot child that writes a profile (dump --leaks): a major collection of this frozen copy, whose result
   the profile then shows.  False if it is incomplete. */
bool collection_in_snapshot(void);

/* May memory be looked at here (`collect` is not off), and how are present pages found? */
bool collection_possible(enum present_way *at_best);

/* After fork, in the child. */
void collection_forked(void);

/* Root ranges of the program.  0, ENOMEM, EINVAL. */
int collection_add_root(uintptr_t from, uintptr_t to);
int collection_remove_root(uintptr_t from, uintptr_t to);

/* Called after every collection (not in a signal handler, no lock held but the gate, possibly in any thread): the log.  NULL: nobody. */
extern void (*collection_done)(const struct collection *);

#endif
