/* seal_stop.h: stops of the world in which the pages of quarantined blocks are sealed, and the seals looked at (heap/seal.h).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_SEAL_STOP_H
#define GLEANER_SEAL_STOP_H

#include "heap/present.h"

/* Which seals were broken since they were made?  Where threads cannot be stopped, all are in doubt.  The holder of the gate, outside of
   a pause; nothing happens where nothing is sealed. */
void seal_stop_look(enum present_way at_best);

/* Dissolves the old seals and seals what is in quarantine now, in several short pauses; with `tight` memory, which a seal needs for a moment, nothing
   new.  The holder of the gate. */
void seal_stop_renew(enum present_way at_best, bool tight);

#endif
