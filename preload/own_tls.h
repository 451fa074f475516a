/* own_tls.h: the library's thread-local memory, which is no root: jemalloc's cache of its tree of extents, for one, holds addresses of the
   window rounded to a GiB, and would keep whatever large block lies there.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_OWN_TLS_H
#define GLEANER_OWN_TLS_H

#include "heap/cut.h"

/* From start-up, in a thread that libc made. */
void own_tls_start(void);

/* As many ranges as own_tls can give, at most; more while threads come. */
size_t own_tls_most(void);

/* Does a thread have a slot in hand (heap_tls)?  In the pause. */
bool own_tls_slot_in_hand(void);

/* The ranges of all threads that have a heap; `room` of them at most.  How many there are.  In the pause. */
size_t own_tls(struct cut_range *to, size_t room);

#endif
