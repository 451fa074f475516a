/* scope.h: whose malloc is it?  Other allocators in the process: ones that come before us in the
   symbol scope, ones that come after, and the pointers that are theirs.

   1. Data.  One byte says who serves the process; addresses of the next functions in the scope are
      looked up once.
   2. Synchronisation.  Every value is idempotent: two threads that look it up store the same.
   3. Rules.  Never guess: a pointer outside the window goes to the first `free` of the scope where
      that is not ours (an executable with a malloc of its own), else to the next
      one after us (libraries opened with RTLD_DEEPBIND, blocks from before us).  Only an address
      that no allocator can have given is called an invalid free: misaligned, in the first 64 KiB,
      in the image of a loaded object, on the calling thread's stack.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_SCOPE_H
#define GLEANER_SCOPE_H

#include "heap/hooks.h"

enum scope_mode {
    SCOPE_UNKNOWN,   /* nobody has looked yet */
    SCOPE_OURS,      /* the scope's first malloc is ours */
    SCOPE_OTHER,     /* it is another's: ours serves who asks for it by name, operators pass on */
    SCOPE_SANITIZER, /* a sanitizer's runtime needs every block: everything passes on */
};

/* Read by operator new and the slower calls; set by scope_find. */
extern __attribute__((visibility("hidden"))) unsigned char scope_mode_now;

/* Looks, if nobody has, and tells.  Takes no lock and calls nobody, so it works in the first malloc. */
enum scope_mode scope_find(void);

/* Looks up what a foreign pointer will need, so that a later free need not take the loader's lock.
 */
void scope_start(void);

/* Which sanitizer was found; NULL if none. */
const char *scope_sanitizer(void);

/* The hooks of heap/hooks.h for pointers that are not ours. */
void scope_foreign_free(void *);
void *scope_foreign_realloc(void *, size_t);
size_t scope_foreign_size(const void *);

/* The elsewhere hook, where a sanitizer serves.  malloc's fast path pays nothing for that: in such a
   process no thread has a heap. */
heap_malloc_of *scope_elsewhere(void);

/* Allocation by whom the mode names, called as the last thing (a sanitizer takes who calls it for the program, and goes on by frame
   pointers, which our frames do not keep): the sanitizer's, or (operators only) the scope's first. */
void *scope_malloc(size_t size);
void *scope_calloc(size_t count, size_t size);
void *scope_aligned(size_t alignment, size_t size);

/* A sanitizer's, which has its own rules for the arguments of each. */
void *scope_aligned_alloc(size_t alignment, size_t size);
void *scope_reallocarray(void *block, size_t count, size_t size);
int scope_posix_memalign(void **to, size_t alignment, size_t size);

/* The next definition of a function after this library in the scope, or NULL; takes the loader's
 * lock. */
void *scope_next(const char *name);

#endif
