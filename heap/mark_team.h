/* mark_team.h: several markers on one set of white blocks.

   The leader scans the roots; whoever has more than enough on his stack while others idle gives the older half away (older entries
   lead to more, as in C. Flood et al., "Parallel garbage collection for shared memory multiprocessors", 2001).  It is over when all idle and nothing
   is left to take.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_MARK_TEAM_H
#define GLEANER_MARK_TEAM_H

#include "heap/mark.h"

#define TEAM_MOST 8u

struct mark_team;

/* How helpers are started: runs `run(argument)` in a thread that shares all memory with the caller, has a stack of its own of 64 KiB or more, needs no
   libc, and ends when run returns.  False if it could not. */
typedef bool mark_start_helper(void (*run)(void *), void *argument);

/* A team around `leader` with up to `helpers` more (TEAM_MOST - 1): NULL where none could be started: then the leader works alone.  From then
   on until mark_team_end the leader's mark_drain shares its work. */
struct mark_team *mark_team_start(struct marker *leader, unsigned helpers, mark_start_helper *);

/* The leader has no more roots: works on until everything is marked, sends the helpers away, and adds up what they did.  Memory of
   the team is unmapped. */
void mark_team_end(struct mark_team *);

#endif
