/* signal33.h: the one signal that we use, and how it is told from the C library's.

   1. Why 33. glibc keeps 32 and 33 to itself: sigaction refuses them, sigprocmask never blocks
      them, sigwait and signalfd never take them (nptl/internaltypes.h), so no program can be in
      their way. glibc's own use of 33 is to make setuid and its like act on all threads; it sends
      that by tgkill (si_code SI_TKILL), we send with SI_QUEUE and a magic value.
   2. Order.  Ours is installed over whatever is there, and what is there is called for every signal
      that is not ours. glibc installs its own when it makes its first thread, over ours: hence
      signal33_check.
   3. The handler runs with every signal blocked, restarts what can be restarted, uses an alternate
      stack where there is one, and makes raw system calls only.

   The value (64 bits) of every signal of ours:

        63     48 47  40 39  32 31         0
        'G' 'L'   op     0      number
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_SIGNAL33_H
#define GLEANER_SIGNAL33_H

#include "heap/base.h"

#define SIGNAL33 33
#define SIGNAL33_MAGIC 0x474cu
#define SIGNAL33_STOP 1  /* from ourselves: park; the number is that of the stop */
#define SIGNAL33_DUMP 2  /* from the command: write a profile; see dump.h */
#define SIGNAL33_REAP 3  /* from the command: the answer was read */
#define SIGNAL33_LEAKS 4 /* from the command: collect, then write a profile */
#define SIGNAL33_HOLDERS 5 /* from the command: write a profile that says who holds what */

static inline uint64_t signal33_value(unsigned op, uint32_t number)
{
    return (uint64_t)SIGNAL33_MAGIC << 48 | (uint64_t)op << 40 | number;
}

/* Installs the handler and unblocks 33 in the calling thread.  Once, from start-up, after
   process_start.  False if the kernel refuses. */
bool signal33_start(void);

/* If another handler than ours is installed, keeps it for chaining and installs ours again.  Call
   it after the creation of a thread, and at a thread's first allocation.  One system call; any
   thread. Does nothing before signal33_start, in a vfork child, and while a thread is in exec. */
void signal33_check(void);

/* What the kernel has installed for a signal. */
struct signal33_action {
    void *handler;
    unsigned long flags;
};
bool signal33_action(int sig, struct signal33_action *to);

/* Is ours the installed handler? */
bool signal33_installed(void);

/* exec: a queued 33 would kill the new program.  `begin` makes the process ignore
   33, `failed` installs our handler again.  The caller holds the gate, or is a vfork child. */
void signal33_exec_begin(void);
void signal33_exec_failed(void);

/* Queues 33 with the value to a thread of this process.  0 or a negative errno. */
long signal33_send(int tid, uint64_t value);

/* From now on without the alternate stacks of threads, which some share. Any thread. */
void signal33_no_alternate(void);

/* Installs `handler` for any signal by the raw call, with a full mask; SIG_IGN and SIG_DFL too. */
long signal33_raw_install(int sig, void (*handler)(int, void *, void *));

#endif
