/* mark_helpers.h: threads of a snapshot child that help it to mark (heap/mark_team.h).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_MARK_HELPERS_H
#define GLEANER_MARK_HELPERS_H

#include "heap/base.h"

/* How many there should be: half of the processors that the process may use mark, the child itself among them, four at most; so none on
   two or three. */
unsigned mark_helpers_wanted(void);

/* A mark_start_helper of mark_team.h.  Only in a snapshot child: what it maps goes with the child. */
bool mark_helpers_start(void (*run)(void *), void *argument);

#endif
