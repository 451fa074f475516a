/* dump_signal.c: a profile on a signal that the user has chosen.  A handler of the program for the
   same signal replaces ours: the program behaves as without us.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/dump_signal.h"
#include "preload/dump.h"
#include "preload/restart.h"
#include "preload/shut_in.h"
#include "preload/signal33.h"
#include "preload/stop.h"

#include <signal.h>

static size_t (*path_for)(char *, size_t);
static int chosen;

static void on_signal(int sig, void *info, void *context)
{
    static char path[4096]; /* stacks of handlers are small */
    static atomic_flag busy = ATOMIC_FLAG_INIT;
    if (shut_in_already(SHUT_IN_COLLECT)) return;
    stop_note_signal(true); /* ours: a call that it interrupts goes on */
    if (atomic_flag_test_and_set(&busy)) return;
    size_t n = path_for(path, sizeof path);
    if (n > 0 && n < sizeof path) dump_to(path, "signal", context);
    atomic_flag_clear(&busy);
    restart_or_interrupt(context);
}

bool dump_signal_start(int sig, size_t (*path)(char *, size_t))
{
    if (sig < 1 || sig > 64 || sig == SIGKILL || sig == SIGSTOP || sig == 32 || sig == SIGNAL33) {
        return false;
    }
    struct sigaction now;
    if (sigaction(sig, NULL, &now) != 0 || now.sa_handler != SIG_DFL) return false;
    path_for = path;
    if (signal33_raw_install(sig, on_signal) != 0) return false;
    chosen = sig;
    return true;
}

void dump_signal_ignore(bool ignore)
{
    void (*const ignored)(int, void *, void *) = (void (*)(int, void *, void *))(void *)SIG_IGN;
    struct signal33_action now;
    if (chosen == 0 || !signal33_action(chosen, &now)) return;
    if (ignore && now.handler == (void *)on_signal) signal33_raw_install(chosen, ignored);
    if (!ignore && now.handler == (void *)SIG_IGN) signal33_raw_install(chosen, on_signal);
}
