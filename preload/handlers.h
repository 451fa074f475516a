/* handlers.h: counts the program's signal handlers as they run, per thread (blocking.h says why).

   sigaction, signal and their kin are interposed; a handler is entered by way of a function of
   ours, which counts and then *jumps* to it, with the same registers, stack and return address, so
   that neither the handler nor a backtrace in it can tell.  What sigaction reports is the program's
   own handler.

   The handler of each signal lies in a slot; a slot is filled before the kernel is told, and flags
   and mask are the kernel's, so two threads that install handlers for one signal at once may for an
   instant see the one's handler under the other's mask.  SA_SIGINFO cannot be confused that way: it
   has an entry of its own, with its own slots.  A vfork child has a handler table of its own but
   shares our slots: it installs what it installs directly, uncounted.

   A program that installs a handler by an inline system call (Go) is not counted, and may read that
   function as the former handler: calling that works.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_HANDLERS_H
#define GLEANER_HANDLERS_H

#include "heap/base.h"

/* Handlers of the program that were entered in this thread. */
extern THREAD_LOCAL volatile uint32_t handlers_ran;

/* Looks up the real functions; part of blocking_start. */
void handlers_start(void);

#endif
