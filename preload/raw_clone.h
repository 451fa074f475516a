/* raw_clone.h: a task that starts in a function of ours on a stack of ours, without libc.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_RAW_CLONE_H
#define GLEANER_RAW_CLONE_H

#include "heap/base.h"

/* clone(flags) with the child running `run(argument)` on the stack that ends below `stack_top`
   (which is rounded down to 16).  `run` must not return: it ends by SYS_exit or SYS_exit_group. The
   child keeps the caller's thread pointer, so nothing in it may use thread-local variables, errno
   among them, when memory is shared.

   Never with CLONE_VFORK: the caller would wait where no debugger can stop it, for a task that a debugger can.  Who must know
   when the child has left its stack gives `end`, with CLONE_CHILD_CLEARTID: the kernel then writes 0 there and wakes one
   waiter (FUTEX_WAIT without FUTEX_PRIVATE_FLAG).  Returns the child's tid, or a negative errno. */
long raw_clone(unsigned long flags, void *stack_top, void (*run)(void *), void *argument, _Atomic uint32_t *end);

#endif
