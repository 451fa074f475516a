/* thread_create.h: the wrapper around pthread_create.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_THREAD_CREATE_H
#define GLEANER_THREAD_CREATE_H

/* Looks up the real function; from start-up. */
void thread_create_start(void);

#endif
