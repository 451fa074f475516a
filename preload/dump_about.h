/* dump_about.h: the facts about the parent that a snapshot child puts into its profile.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_DUMP_ABOUT_H
#define GLEANER_DUMP_ABOUT_H

#include "sampler/profile.h"

struct dump_facts {
    struct profile_about about;
    uint64_t start_ticks; /* 22nd field of the parent's stat; 0 if unknown */
    char command[4096];
    char executable[4096];
};

/* Fills in everything about process `pid` but `compress`.  In a snapshot child: raw calls, opens
 * files. */
void dump_about(struct dump_facts *to, uint32_t pid, const char *reason);

#endif
