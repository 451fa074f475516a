/* syscall_filter.h: does a seccomp filter watch the calling thread?  It may kill for a call that it does not know.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_SYSCALL_FILTER_H
#define GLEANER_SYSCALL_FILTER_H

#include <stdbool.h>

/* True also where it cannot be told.  Raw system calls; a descriptor meanwhile. */
bool syscall_filter_is_on(void);

#endif
