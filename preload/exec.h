/* exec.h: the wrappers around exec and posix_spawn.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_EXEC_H
#define GLEANER_EXEC_H

/* Looks up the real functions; from start-up, in one thread. */
void exec_start(void);

#endif
