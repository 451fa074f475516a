/* exit.h: what is written when the process ends, and every so often.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_EXIT_H
#define GLEANER_EXIT_H

#include "heap/hooks.h"
#include "preload/config.h"

/* Registers for the end of the process. Start-up, before anybody else can register: handlers run
   last to first, so ours runs after all of the program's and after the destructors of its libraries
   (the loader's own handler is registered later than this, by the program's start). */
void exit_start(const struct config *config);

/* The same in a process that passes everything on to a sanitizer: only _exit must find its next. */
void exit_pass_on(void);

/* After fork, in the child. */
void exit_forked(void);

/* The tick hook: writes a profile where `interval` has passed. */
void exit_tick(struct heap_thread_hook *, uint64_t now);

#endif
