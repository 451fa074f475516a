/* wait.h: the wrappers around wait4 and its kin, which must not show our snapshot child.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_WAIT_H
#define GLEANER_WAIT_H

/* Looks up the real functions; from start-up, in one thread. */
void wait_start(void);

#endif
