/* refuse.h: processes in which nothing is reclaimed, since pointers are kept where no collector sees them: HAZARDS C4.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REFUSE_H
#define GLEANER_REFUSE_H

#include "heap/base.h"

/* Why not, or NULL: what can be known at the start (other allocators, Go, V8).  From start-up. */
const char *refuse_at_start(void);

/* The same of the process `pid`, ours, as it is now: a virtual machine's library is mapped, there is an io_uring.  *sharer: a process that has our
   memory, for the moment perhaps, as a vfork child; 0: none.  *denied: the caller is another process, and may not look at `pid`, which has
   dropped its privileges (proc(5), ptrace(2): not dumpable, or a saved user that is another); NULL is returned, which tells nothing.  In the
   pause, by a thread with a descriptor table of its own, or in a snapshot child.  Raw system calls only; 64 KiB of static memory. */
const char *refuse_now(uint32_t pid, uint32_t *sharer, bool *denied);

#endif
