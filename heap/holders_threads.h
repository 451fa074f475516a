/* holders_threads.h: where the threads of a cut have their frames, and their thread-local memory.

   For the names of what holds a block, and for the choice between several; nothing else depends on it, so it may guess.  Around a
   stack pointer lies a run of present pages; frames reach from its beginning to the thread's control block, which on x86-64 is told
   by its two words that hold its own address (glibc's tcbhead_t, `tcb` and `self`), less the thread-local memory below it.  Where
   there is no such block (a coroutine's stack, a raw clone's) they reach some megabytes around the stack pointer.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_HOLDERS_THREADS_H
#define GLEANER_HOLDERS_THREADS_H

#include "heap/roots.h"

struct holders_thread {
    const struct cut_thread *thread;
    uintptr_t frames, frames_end; /* 0, 0: unknown */
    uintptr_t used;               /* from here on they are in use; before it lies what calls have left that returned */
    uintptr_t tls, tls_end;       /* thread-local memory, and libc's data of the thread; 0, 0: unknown */
    uintptr_t tp;                 /* 0: unknown */
};

struct holders_threads {
    struct holders_thread *by_frames, *by_tls; /* by ascending address */
    size_t count, bytes;
};

/* Of the threads of the cut whose roots these are.  One mapping; false without memory. */
bool holders_threads_find(struct holders_threads *, const struct cut *, const struct roots *);
void holders_threads_free(struct holders_threads *);

/* The thread in whose frames, or thread-local memory, an address lies; NULL if there is none. */
const struct holders_thread *holders_frames_at(const struct holders_threads *, uintptr_t address);
const struct holders_thread *holders_tls_at(const struct holders_threads *, uintptr_t address);

/* Index in by_frames of the first thread whose frames end after the address; `count` if there is none. */
size_t holders_frames_from(const struct holders_threads *, uintptr_t address);

#endif
