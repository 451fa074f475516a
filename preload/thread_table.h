/* thread_table.h: what a stop knows of each thread, by tid.

   1. Data.  Records of 64 bytes in up to four segments of growing size (2048 … 131072 records),
      each mapped when it is needed, each wiped by a fork.  A tid may lie in any of PROBES
      neighbouring records of each segment, so a search is bounded whatever is in the table.
   2. Synchronisation.  A record is claimed by compare-and-swap on its tid, from 0, by the thread
      itself or by the one that stops the world, and freed by the latter when the tid is no longer
      listed.  The handler looks itself up by gettid, not by a thread-local pointer: it also runs in
      threads that libc did not make, whose thread pointer is anybody's guess.
   3. When all records that a tid may use are taken, thread_enter returns NULL: the stop is
      incomplete.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_THREAD_TABLE_H
#define GLEANER_THREAD_TABLE_H

#include "heap/base.h"

enum thread_state {
    THREAD_SEEN,   /* listed, nothing sent yet */
    THREAD_SENT,   /* asked to stop */
    THREAD_PARKED, /* in the handler: `context` holds its registers */
    THREAD_CALLER, /* the thread that stops the world; `context` if it was in a handler */
    THREAD_INLINE, /* left in a system call that a signal would disturb; `sp` from the kernel */
    THREAD_HELD,   /* cannot answer: vfork's parent, or stopped by a debugger; `sp` if known */
    THREAD_SILENT, /* did not answer in time */
    THREAD_GONE    /* ended meanwhile */
};

struct thread_record {
    _Atomic uint32_t tid;
    _Atomic uint32_t ticket;     /* the last of our signals in this thread (blocking.h) */
    _Atomic uint32_t parked_for; /* number of the stop it parked for */
    uint32_t asked_for; /* number of the stop it was last sent; these below are the stopper's */
    uint32_t seen_in;
    uint32_t state;
    _Atomic(void *) context; /* ucontext_t of the interrupted thread, while parked */
    uintptr_t sp;
    uintptr_t stack_low, stack_high; /* by stack_bounds.h; 0, 0: unknown */
    uint64_t spare;
};
_Static_assert(sizeof(struct thread_record) == 64, "one line of the cache a thread");

/* The record of a tid; NULL if it has none.  Async-signal-safe, lock-free. */
struct thread_record *thread_find(uint32_t tid);

/* The same, made if there is none; NULL if the table is full or memory is refused. */
struct thread_record *thread_enter(uint32_t tid);

/* Calls `each` for every record.  Only the holder of the gate. */
void thread_each(void (*each)(struct thread_record *, void *), void *argument);

#endif
