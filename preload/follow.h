/* follow.h: the environment of a program that is about to be started, with our library taken out of
   LD_PRELOAD where the configuration says `follow:no`.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_FOLLOW_H
#define GLEANER_FOLLOW_H

#include "heap/base.h"

/* Sets whether children are followed (the key `follow`; the default is yes) and the library's own
   path as it stands in LD_PRELOAD, from start-up; an entry whose last part is that of `library` is
   taken out. */
void follow_start(bool follow, const char *library);

/* The process of this number is the one that was asked for: what it becomes by exec is it still, not a child, and
   keeps the library, as long as its environment has GLEANER_FIRST.  (A program behind a script that ends in
   `exec` is the ordinary case.) */
void follow_keep_in(int process);

/* Edits the environment that the process itself was started with, where it lies: what libc starts
   by itself (system, popen) is not seen by any wrapper, and the program finds no LD_PRELOAD, as
   without us.  From start-up, before anything keeps a copy.  Does nothing where children are
   followed. */
void follow_edit_own(char **environment);

/* How much room follow_edit needs, in bytes; 0 if the environment can be used as it is.  `exec`: for this process
   itself, not for a child. */
size_t follow_room(char *const *environment, bool exec);

/* Builds the edited environment in `room` (that many bytes, aligned for a pointer) and returns it.
   Touches nothing else: callable in a vfork child. */
char **follow_edit(char *const *environment, void *room, bool exec);

#endif
