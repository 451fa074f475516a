/* snapshot.h: a child with a frozen copy of our memory, invisible to the program.

   1. The child is made by a raw clone without an exit signal: no SIGCHLD, no wait without __WALL
      sees it (wait.c hides it from those).  It has all signals blocked but its own alarm, a stack
      of ours, and no libc.
   2. Its descriptor table is made its own and emptied at once, so that a pipe that the program
      closes is closed.  It does not share the file system context (no
      CLONE_FS): while it did, the kernel would refuse the program's setns and unshare, and an exec
      of a setuid program would silently drop the privilege (fs/exec.c, check_unsafe_exec).
   3. Every 100 ms an alarm looks whether the parent still lives (getppid, not PR_SET_PDEATHSIG:
      that fires when the *thread* that cloned ends), and ends the child after `seconds` at the
      latest.
   4. One child at a time.  It is a zombie until snapshot_reap, the next snapshot, or the parent's
      end.
   5. A debugger, or a SIGSTOP, may hold the child, and then no alarm ends it.  Who waits for it looks whether its
      alarms still come, and else ends it.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_SNAPSHOT_H
#define GLEANER_SNAPSHOT_H

#include "heap/base.h"

/* Maps the child's stack; from start-up.  False if the system gives no memory. */
bool snapshot_start(void);

/* Clones the child, which runs work(argument) and ends; `argument` must lie in private memory and
   is copied with it.  The caller holds the gate, has all signals blocked, and should have stopped
   the world.  Returns the child's pid or a negative errno: -EBUSY while an earlier one works, or
   one that was killed is a debugger's. */
long snapshot_take(void (*work)(void *argument), void *argument, unsigned seconds);

/* Reaps the child if it has ended; does not wait.  Any thread; async-signal-safe. */
void snapshot_reap(void);

/* To be called now and then by whoever waits for the child: kills it when none of its alarms has come for five seconds of that
   waiting (time in which the caller itself was held does not count).  Any thread, several at once. */
void snapshot_end_if_stuck(void);

/* Waits until the child has ended and reaps it; `milliseconds` at most.  For the process's own end, which would end the
   child too. */
void snapshot_wait(unsigned milliseconds);

/* A wait of the program has reaped `pid`: was it our child? */
bool snapshot_was_taken(uint32_t pid);

/* A wait of the program with WNOWAIT shows `pid`: is it our child, or was it just now?  Reaps it
 * then. */
bool snapshot_is_shown(uint32_t pid);

#endif
