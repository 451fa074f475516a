/* dump_signal.h: the configuration key `signal`: a signal that makes the process write a profile.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_DUMP_SIGNAL_H
#define GLEANER_DUMP_SIGNAL_H

#include "heap/base.h"

/* Installs the handler for `sig`.  `path` writes the next profile's path into `to` and returns its
   length, as snprintf does; it is called in the signal handler.  Once, from start-up, after
   dump_start.  False if the signal cannot be had, or is taken already. */
bool dump_signal_start(int sig, size_t (*path)(char *to, size_t bytes));

/* The signal is ignored from now on, or no longer, where no handler of the program has taken ours away. */
void dump_signal_ignore(bool ignore);

#endif
