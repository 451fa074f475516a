/* leak_check.h: a leak check: a major collection, what it found lost, what of it is not suppressed, and what follows.

   Whoever asks (the exit, the __lsan calls) gets the same rules, LeakSanitizer's: suppressions from the `suppressions` key, LSAN_OPTIONS and
   __lsan_default_suppressions() add up; __lsan_is_turned_off() of the program ends the matter; the check that may end the process is
   made once a process.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_LEAK_CHECK_H
#define GLEANER_LEAK_CHECK_H

#include "heap/collect.h"
#include "preload/config.h"
#include "sampler/suppressions.h"

/* Takes what it needs of configuration and environment; start-up. Before that, and where the library passes everything on or the
   program is setuid, checks find nothing. */
void leak_check_start(const struct config *, char *const *environment);

enum leak_verdict {
    LEAK_NONE,   /* nothing is lost that no suppression names, or checks are turned off */
    LEAK_FOUND,  /* something is */
    LEAK_UNKNOWN /* no complete collection was possible; one line on the descriptor says why */
};

/* Collects and writes the leaks to `fd`, unless there are none.  Any thread that holds no lock of ours; one check at a
   time, others wait.  Calls functions of the program (its __lsan_ hooks).  errno is kept. */
enum leak_verdict leak_check(enum collection_trigger, int fd);

/* The check that may end the process: true the first time it is asked for. */
bool leak_check_once(void);

/* At the process's end, after a collection with the result `error` (collection_run's): with `report` the text to `fd`, with a line
   also where nothing is lost; the status that the process must end with, or 0.  Where one was asked for and the answer is not known, that
   is no success either: one line, and the status of a leak, as LeakSanitizer ends on its own errors. */
int leak_check_at_exit(int error, bool report, int fd);

/* What a verdict ends the process with when the program asked for the check, 0: it goes on.  Of a leak: the key exit_code, else
   LSAN_OPTIONS' exitcode, else LeakSanitizer's 23.  Where the answer is not known: the first two only, since then nobody may have asked for a
   status. */
int leak_check_status(enum leak_verdict);

/* The patterns of known leaks, for a profile: the command knows the names of more functions.  `frozen`: in a snapshot child, which has
   those of the configuration, but asks nothing of the program and says nothing.  NULL: none. */
const struct suppressions *leak_check_suppressions(bool frozen);

/* Does LSAN_OPTIONS, or the program, leave leak checks on? */
bool leak_check_is_on(void);

#endif
