/* disturb.h: would a signal be noticed by the program, in the system call that a thread is blocked
   in?

   Calls that SA_RESTART does not restart return EINTR, and some return part of a transfer.
   Where the thread is inside a wrapper of ours that hides this (blocking.h), all
   is well: the wrapper's return address then lies just above libc's frame.  So it is for libc's own
   loops around futex and poll.  In an inline system call of somebody else, or in libc's syscall(),
   nobody hides it, and the thread must be left alone.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_DISTURB_H
#define GLEANER_DISTURB_H

#include "preload/task_files.h"

/* Looks up where libc and this library lie.  From start-up. */
void disturb_start(void);

/* Would a signal to the thread that is blocked so change what the program sees? */
bool disturb_would_show(const struct task_call *call);

#endif
