/* kernel_roots.h: pointers that only the kernel holds and shows.  Inside the pause.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_KERNEL_ROOTS_H
#define GLEANER_KERNEL_ROOTS_H

#include "heap/cut.h"

struct words {
    uintptr_t *word;
    uintptr_t *at; /* of each where it lies, as cut.h's word_at */
    size_t count, room; /* both lie in one mapping, from `word` on, of twice the room */
    bool incomplete; /* no memory, or a file could not be read */
};

/* Appends the data of every epoll descriptor of the process (fdinfo) and the sigev_value of every POSIX timer
   (/proc/…/timers; its absence is no error).  `thread`: a living thread of the process, in whose table the descriptors
   are looked up; ten times as fast where that is the calling thread.  Raw system calls and mappings of its own; the
   caller has a descriptor table of its own, or is the only thread.  What the words lie in is ours to leave out of the
   roots: roots_find does, for those of a cut. */
void kernel_roots(struct words *to, uint32_t thread);

void words_add(struct words *, uintptr_t word, uintptr_t at);
void words_free(struct words *);

#endif
