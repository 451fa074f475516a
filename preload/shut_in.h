/* shut_in.h: a seccomp filter that the program puts over itself may kill for calls that looking for lost blocks, or a profile, needs: a
   daemon's worker that parses what strangers send allows itself memory and its socket, no more.  Then neither is done any
   more, and the program lives.

   1. What a filter says is not tried but computed: its program comes by here on its way to the kernel, and is run for the calls that
      we would make (shut_in_calls.h), with the registers that they have (seccomp(2); the instructions are those of S. McCanne and V. Jacobson,
      "The BSD Packet Filter", USENIX 1993).  Most calls that are answered with an error are no harm.
      What is done not for these, but at the program's own calls so that they can be (the threads it begins, its handlers, its exec), is
      left out as well once they cannot.  malloc, which cannot be left out, does without the calls that it would be killed for (os.h).
      The control page goes, so that nobody sends a signal any more that nobody answers, and the one of the `signal` key is ignored.
   2. A filter counts for the whole process, also where only one thread has it, and for its forked children, who have it too.
   3. Not seen: one that was there before our start (containers have one, which kills for nothing that we do), and one by a bare
      system call.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_SHUT_IN_H
#define GLEANER_SHUT_IN_H

#include <stdbool.h>

enum shut_in {
    SHUT_IN_LINE = 1,    /* even a line on a descriptor, or a look at who we are, would kill */
    SHUT_IN_PROFILE = 2, /* writing a profile would */
    SHUT_IN_COLLECT = 4, /* a collection, or a snapshot, would */
};

/* Would any of these kill the program?  Any thread, also in a signal handler. */
bool shut_in(unsigned any_of);

/* The same by the filters that are up already.  `shut_in` is true also while one is on its way, since nothing may begin then. */
bool shut_in_already(unsigned any_of);

/* In a forked child, while it has one thread: filters that other threads were about to put up are not its own. */
void shut_in_forked(void);

/* The line that says why nothing is written, once a process. */
void shut_in_say(void);

/* Whether these are the arguments of a call that installs a filter. */
bool shut_in_is_filter(long nr, const long a[6]);

/* Makes that call; its result, or a negative errno.  Waits for a collection that is under way. */
long shut_in_call(long nr, const long a[6]);

#endif
