/* supervise.c: stands between a program and whoever started it.

   The parent blocks every signal that can be waited for and takes them one by one, so there is no
   handler and no race.  What the terminal sends (si_code SI_KERNEL) went to the whole process
   group, the child included, and is not sent twice; what another process sent to us alone is passed
   on. When the child stops, so do we, so that a shell with job control sees its job stopped; when
   we are continued, so is the child. SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void signals_to_take(sigset_t *set)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
    sigfillset(
        set); /* KILL, STOP and the C library's own two are left out by the kernel and libc */
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) sigdelset(set, own[i]);
}

/* True when the child has ended. */
static bool child_changed(pid_t child, int *wait_status)
{
    pid_t changed;
    do changed = waitpid(child, wait_status, WNOHANG | WUNTRACED);
    while (changed < 0 && errno == EINTR);
    if (changed != child) return changed < 0;
    if (!WIFSTOPPED(*wait_status)) return true;
    raise(SIGSTOP);
    kill(child, SIGCONT);
    return false;
}

static void wait_for(pid_t child, const sigset_t *taken, int *wait_status)
{
    while (!child_changed(child, wait_status)) {
        siginfo_t info;
        int number = sigwaitinfo(taken, &info);
        if (number < 0 || number == SIGCHLD || number == SIGCONT) continue;
        if (info.si_code != SI_KERNEL) kill(child, number);
    }
}

static _Noreturn void start(const char *path, char **argv, const sigset_t *mask,
                            const struct sigaction *on_child, int failure)
{
    sigaction(SIGCHLD, on_child, NULL);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execvp(path, argv);
    int error = errno;
    if (write(failure, &error, sizeof error) < 0) _exit(127);
    _exit(127);
}

pid_t supervise(const char *path, char **argv, void (*before)(void), int *wait_status)
{
    sigset_t taken, mask;
    struct sigaction on_child, normal = {.sa_handler = SIG_DFL};
    int failure[2], error = 0;
    if (pipe2(failure, O_CLOEXEC)) return -1;
    signals_to_take(&taken);
    sigprocmask(SIG_BLOCK, &taken, &mask);
    sigaction(SIGCHLD, &normal, &on_child); /* if ignored, children would vanish unseen */
    pid_t child = fork();
    if (!child) {
        before();
        start(path, argv, &mask, &on_child, failure[1]);
    }
    if (child < 0) error = errno;
    close(failure[1]);
    if (child > 0 && read(failure[0], &error, sizeof error) != sizeof error) error = 0;
    close(failure[0]);
    if (child > 0 && error)
        waitpid(child, wait_status, 0);
    else if (child > 0)
        wait_for(child, &taken, wait_status);
    /* From here on we are a program that prints a report, and end as such; whatever happens to its reader, we tidy up, and the status stays what
       it is. */
    signal(SIGPIPE, SIG_IGN);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    errno = error;
    return error ? -1 : child;
}

_Noreturn void end_as(int wait_status)
{
    if (WIFEXITED(wait_status)) exit(WEXITSTATUS(wait_status));
    int number = WTERMSIG(wait_status);
    struct rlimit no_core = {0, 0};
    sigset_t set;
    setrlimit(RLIMIT_CORE, &no_core);
    signal(number, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, number);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    raise(number);
    exit(128 + number);
}
