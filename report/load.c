/* load.c: from FILE or PID on the command line to a profile that can be printed.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/load.h"
#include "report/ask.h"
#include "report/basics.h"
#include "report/holders.h"
#include "report/options.h"
#include "report/profile_read.h"
#include "report/symbols.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void name_profile(struct profile *profile, const char *root)
{
    symbols_resolve(profile, root);
    model_unfold(profile);
    holders_name(profile, root);
}

static struct profile *load_live(int pid, enum ask_for what)
{
    struct bytes answer;
    if (!ask_profile(pid, what, &answer)) return NULL;
    char problem[PROBLEM_BYTES];
    struct profile *profile = profile_parse("", answer, problem);
    if (!profile) {
        say("the profile of process %d %s", pid, problem);
        return NULL;
    }
    /* A process in a container sees other files under the same names. */
    char root[40];
    snprintf(root, sizeof root, "/proc/%d/root", pid);
    name_profile(profile, root);
    return profile;
}

struct profile *load_profile(const char *file_or_pid, enum ask_for what)
{
    int64_t pid;
    struct profile *profile;
    if (access(file_or_pid, F_OK) && parse_number(file_or_pid, 1, INT32_MAX, &pid)) {
        profile = load_live((int)pid, what);
    } else {
        profile = profile_read(file_or_pid);
        if (profile) name_profile(profile, NULL);
    }
    return profile;
}
