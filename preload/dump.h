/* dump.h: answering `gleaner dump PID`: the protocol between the command and the process, version
   1.

   1. The command finds the control page in /proc/PID/maps (control_page.h) and opens a pidfd, then
      looks again, since a signal 33 to a process that has no handler kills it.
   2. It makes, as the process sees it, i.e. under /proc/PID/root, the folder

          /tmp/gleaner-UID                   mode 0700
          /tmp/gleaner-UID/PID.STARTTIME     mode 0600, empty, made with O_EXCL

      UID is the effective uid of the process, who must own both, as a number inside its user
      namespace; PID its pid inside its pid namespace (last number of NSpid in /proc/PID/status);
      STARTTIME the 22nd field of /proc/PID/stat.  An old answer is unlinked first.
   3. It queues signal 33 by pidfd_send_signal with a siginfo of its own: si_signo 33, si_code
      SI_QUEUE, si_pid and si_uid its own, and in si_value.sival_ptr

          0x474c << 48  |  op << 40  |  number

      op is 2 (SIGNAL33_DUMP), 4 (SIGNAL33_LEAKS): the same after a major collection, or 5 (SIGNAL33_HOLDERS): the same with
      who holds what; number is any 32 bits.  A request from a uid that is neither 0 nor
      the process's effective uid is ignored.
   4. The process's child writes the profile into the file, and as its last act sets its mode:

          0400   the profile is complete
          0200   it failed; the file holds one line that says why

      So the command keeps a descriptor open and looks at fstat's mode (or waits for inotify's
      IN_ATTRIB); the child has 60 s, with leaks or holders 600 s.  A request that finds an earlier child at work is answered by
      nothing: send it again after some 2 s while the file is empty and its mode 0600; a file that
      is partly written grows.
   5. When it has read the answer it unlinks the file and queues op 3 (SIGNAL33_REAP), so that the
      child is no zombie in an idle process.  The child may need a moment to end: a zombie left by a
      reap that came too early is reaped by the next request.

   The process neither opens a descriptor, nor gets a child or SIGCHLD that it could notice, nor has
   a system call disturbed (blocking.h).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_DUMP_H
#define GLEANER_DUMP_H

#include "heap/base.h"

#define DUMP_SECONDS 60 /* that a child may take */
#define DUMP_LEAKS_SECONDS 600

/* Prepares everything, installs the signal handler, and maps the control page last.  Once, from
   start-up, in one thread, after blocking_start.  False, with nothing installed, if the system
   lacks what is needed. */
bool dump_start(void);

/* The signal handler's part: serves the request now, or leaves it to the holder of the gate. */
void dump_request(uint64_t value, uint32_t from_uid, void *context);

/* Serves a request; the caller holds the gate. */
void dump_serve(uint64_t value, void *context);

/* Writes a profile to `path` by a snapshot child, whose profile says `reason`; both are copied.
   Async-signal- safe: where the gate is taken, or an earlier child still works, it returns false
   and nothing happens. `context` is the ucontext_t of the calling signal handler, or NULL. */
bool dump_to(const char *path, const char *reason, void *context);

#endif
