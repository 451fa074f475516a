/* ask.c: asks a live process for its profile.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/ask.h"
#include "report/basics.h"
bool ask_profile(int pid, struct bytes *answer)
{
    say("%d", pid);
    *answer = (struct bytes){0};
    return false;
}
