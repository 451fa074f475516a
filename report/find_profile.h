/* find_profile.h: the file that a process wrote when it ended, by the pattern that it was given.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REPORT_FIND_PROFILE_H
#define GLEANER_REPORT_FIND_PROFILE_H

#include "report/model.h"

/* Reads the profile that process `pid` wrote at its end to a name of `pattern` (%p, %e, %t, %n, %h, %%).  What only the library knows of
   the name is looked for in the folder; what was changed before `since` (seconds since 1970) or is another process's is passed
   over.  `*path` gets its name, to be freed.  NULL, and *path NULL, if there is none. */
struct profile *find_profile(const char *pattern, int pid, int64_t since, char **path);

#endif
