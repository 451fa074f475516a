/* kernel_roots.h: pointers that only the kernel holds and shows.  Inside the pause.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_KERNEL_ROOTS_H
#define GLEANER_KERNEL_ROOTS_H

#include "heap/base.h"

struct words {
    uintptr_t *word;
    size_t count, room;
    bool incomplete; /* no memory, or a file could not be read */
};

/* Appends the data of every epoll descriptor of the process (fdinfo) and the sigev_value of every POSIX timer
   (/proc/…/timers; its absence is no error).  `thread`: any living thread of the process, for /proc/self/task/THREAD.  Raw system
   calls and mappings of its own; the caller has a descriptor table of its own, or is the only thread. */
void kernel_roots(struct words *to, uint32_t thread);

/* What a parked thread's signal frame holds: appends the addresses of ranges of words to `ranges`: general and vector registers, the alternate
   stack's address.  `context` is its ucontext_t.  Calls `each` with ranges of words that lie in the frame, and `word` with
   single ones. */
void registers_each(const void *context, void (*each)(const uintptr_t *from, const uintptr_t *to, void *user), void *user);

/* The interrupted stack pointer, and the alternate stack in force (0, 0: none). */
uintptr_t registers_sp(const void *context);
void registers_alternate(const void *context, uintptr_t *low, uintptr_t *high);

void words_add(struct words *, uintptr_t);
void words_free(struct words *);

#endif
