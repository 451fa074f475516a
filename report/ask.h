/* ask.h: asks a live process for its profile.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REPORT_ASK_H
#define GLEANER_REPORT_ASK_H

#include "report/file.h"

#include <stdbool.h>

enum ask_for {
    ASK_PROFILE,
    ASK_LEAKS,  /* after a major collection of a frozen copy of it, so that the profile says what is lost */
    ASK_HOLDERS /* with who holds what (holders.h) */
};

/* Has the process write a profile and hands over its bytes (from malloc).  False after one line on stderr: no such process, not under Gleaner,
   not ours to ask, or no answer within a minute (ASK_PROFILE), or ten. */
bool ask_profile(int pid, enum ask_for what, struct bytes *answer);

#endif
