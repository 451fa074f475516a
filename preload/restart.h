/* restart.h: a signal of the program that arrives while our handler parks must end the system call
   that we interrupted.

   Our handler has SA_RESTART: when it returns, a read that it interrupted is about to be made
   again.  A signal of the program that came meanwhile runs its handler just before that, and the
   read, which it would have ended with EINTR had we not been there, goes on: `while (!stop)
   read(…)` hangs.  So before our handler returns it looks for such signals, and where one is going
   to be handled without SA_RESTART, it turns the restart into the EINTR that the kernel would have
   made of it (kernel/signal.c, get_signal and arch_do_signal_or_restart).  What is left is a signal
   that arrives in the microsecond between that look and the return.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_RESTART_H
#define GLEANER_RESTART_H

/* At the end of a handler of ours that ran with all signals blocked; `context` is its ucontext_t.
 */
void restart_or_interrupt(void *context);

#endif
