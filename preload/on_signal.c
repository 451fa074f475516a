/* on_signal.c: the `signal` key: a profile whenever that signal comes.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/face.h"
#include "preload/fork.h"
#include "preload/output.h"

#include <errno.h>
#include <signal.h>

static void write_profile(int signal)
{
    int before = errno;
    if (fork_here() == FORK_SAME) output_profile(NULL, "signal", 2, NULL);
    errno = before;
}

void on_signal_start(void)
{
    struct sigaction action = {.sa_handler = write_profile, .sa_flags = SA_RESTART};
    sigfillset(&action.sa_mask);
    sigaction(face_config.signal, &action, NULL);
}
