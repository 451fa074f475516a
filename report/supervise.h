/* supervise.h: stands between a program and whoever started it, so that neither notices.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REPORT_SUPERVISE_H
#define GLEANER_REPORT_SUPERVISE_H

#include <stdbool.h>
#include <sys/types.h>

/* Starts `path` with `argv` and the present environment as a child in our process group, forwards
   signals, stops and goes on with it, and waits for its end.  `before` runs in the child first.
   Returns its pid and its wait status; -1 with errno when it could not be started. */
pid_t supervise(const char *path, char **argv, void (*before)(void), int *wait_status);

/* Ends this process as the program ended: with its status, or by its signal (without a core file:
   the program left its own). */
_Noreturn void end_as(int wait_status);

#endif
