/* stop.h: stopping every other thread of the process, unseen by the program.

   Use.  Take the gate; call stop_world with the work; leave the gate.  The work ("inside") runs
   while the others are parked, under these rules: raw system calls and memory of our own only; no
   libc, no allocation, no lock, no thread-local variable; it may run in another thread than the
   caller's.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_STOP_H
#define GLEANER_STOP_H

#include "preload/thread_table.h"

struct stop_result {
    bool complete;     /* every thread is parked: nothing of the program runs */
    bool no_proc;      /* /proc cannot be read: other threads are unknown and run on */
    unsigned threads;  /* listed, the caller among them */
    unsigned left;     /* THREAD_INLINE: not disturbed, and blocked in the kernel when seen */
    unsigned held;     /* THREAD_HELD: could not run when seen */
    unsigned silent;   /* THREAD_SILENT, or without a record: may be running now */
    unsigned listings; /* passes over /proc/self/task */
    uint64_t wait_ns;  /* from the first signal to the last answer */
};

struct stop_job {
    void (*inside)(const struct stop_result *, void *argument);
    void *argument;
    void *context; /* ucontext_t of the caller where it is in a signal handler; else NULL */
    bool urgent;   /* try in spite of earlier failures */
    bool deep;     /* the work needs more than a little stack, or a descriptor table of its own: run it in the helper even
                      where there is one thread */
    unsigned keep; /* a descriptor of the program's table, + 1, that the helper's has, too; 0: none */
};

/* Prepares stacks and looks up where libc and we ourselves lie; from start-up, after process_start
   and before another thread exists.  False if the system gives no memory, and in valgrind: never stop then. */
bool stop_start(void);

/* The gate: at most one thread of the process stops the world, dumps, or is in exec.  `take` waits;
   it returns false, and takes nothing, if the calling thread holds it already (exec in a handler
   that interrupted exec).  `try` does not wait, and is for signal handlers.  `leave` runs a request
   that came meanwhile (dump.h).  Never in a vfork child. */
bool stop_gate_take(void);
bool stop_gate_try(void);
void stop_gate_leave(void);

/* Stops the world, calls job->inside, lets go.  The caller holds the gate.  Bounded: after 200 ms
   the work is called all the same, with `complete` false.  Returns false, without having called
   anything, if the job is not urgent and earlier stops failed: after a failure it refuses for 1 s,
   then 2, 4, 8, and after the fifth in a row for good.  Failures of urgent jobs within such a time are not counted. */
bool stop_world(const struct stop_job *job);

/* Have five stops in a row failed, over 15 s at least? */
bool stop_is_given_up(void);

/* The signal handler's part: the calling thread was asked to park for stop `number`. */
void stop_arrived(uint32_t number, void *context);

/* Notes in the calling thread's record that one of our signals has run in it (blocking.h). `to_any`
   says that it was sent to the process: the kernel may have woken another thread for it in vain. */
struct thread_record *stop_note_signal(bool to_any);

/* Counts our signals in all threads; see blocking.h. */
extern _Atomic uint32_t stop_tickets;

/* The ticket of the latest signal that was sent to the process. */
extern _Atomic uint32_t stop_latest_to_any;

#endif
