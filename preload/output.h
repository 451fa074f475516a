/* output.h: where profiles go, and writing one.  A relative pattern is relative to the folder that
   the process started in (daemons change theirs).

   The first process of a tree writes where the pattern says; every other one adds `.PID` where the
   pattern has no %p.  Who is first: `gleaner run` sets GLEANER_FIRST in the program's environment
   to the program's process number, and everybody else inherits a number that is not theirs. Without
   that variable a process is first unless its parent was started under Gleaner too (LD_PRELOAD in
   /proc/PPID/environ names the library).  A forked child is never first.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_OUTPUT_H
#define GLEANER_OUTPUT_H

#include "preload/config.h"
#include "preload/output-name.h"

/* Prepares the file names of this process. Start-up. */
void output_start(const struct config *config, char *const *arguments, char *const *environment);

/* After fork, in the child: it is not the first process, and counts its profiles from 1. */
void output_forked(void);

/* Is this the first process of the tree? */
bool output_first(void);

/* The path of the process's next profile into `to`; returns its length, as snprintf does.  Any
   thread, also in a signal handler. */
size_t output_next(char *to, size_t bytes);

/* Writes a profile to `path`, or where the pattern says if that is NULL, and the path to `written`
   (may be NULL; CONFIG_PATH bytes).  `reason` goes into the profile.  0 or a positive errno; a
   failure prints one line to the descriptor `tell` unless that is negative.  Any thread, also in a
   signal handler; no lock, no malloc. */
int output_profile(const char *path, const char *reason, int tell, char *written);

#endif
