/* meta.h: memory for the library's own structures: thread heaps, tables, tracked blocks, stacks.
   It is never returned, holds no pointer that a collector should follow, and lies in the window's
   tables, so that a scan of roots can leave it out by its address.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_META_H
#define GLEANER_META_H

#include "heap/base.h"

/* `bytes` of zeroed memory, aligned to 64; NULL when the system refuses.  Any thread, lock-free
   (a claim is one fetch-and-add, so a thread that vanishes in a fork can leave nothing locked). */
void *meta_alloc(size_t bytes);

/* After fork, in the child of a process with threads: the piece in use may be torn, a new one is begun. */
void meta_fork_child(void);

/* Does any of [from, to) lie in what was claimed so far? */
bool meta_reaches(uintptr_t from, uintptr_t to);

/* Bytes mapped for metadata by meta_alloc. */
size_t meta_bytes(void);

#endif
