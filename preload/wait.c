/* wait.c: hiding the snapshot child from a program that waits for any child.

   The child ends without a signal, so only a wait with __WALL or __WCLONE can see it
   (wait(2)).  Such a wait that got our child is made again; what it had to say about the child
   is ours.  A wait with WNOHANG that would have said ECHILD says 0 while a snapshot runs.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/wait.h"
#include "heap/syscall.h"
#include "preload/blocking.h"
#include "preload/snapshot.h"

#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

static pid_t (*real_waitpid)(pid_t, int *, int);
static pid_t (*real_wait4)(pid_t, int *, int, struct rusage *);
static int (*real_waitid)(idtype_t, id_t, siginfo_t *, int);

void wait_start(void)
{
    real_waitpid = blocking_real("waitpid");
    real_wait4 = blocking_real("wait4");
    real_waitid = blocking_real("waitid");
}

/* Could it see a snapshot child, now or while it waits? */
static bool may_see_snapshot(int options)
{
    return unlikely(options & (__WALL | __WCLONE));
}

static pid_t call_wait4(pid_t pid, int *status, int options, struct rusage *usage)
{
    if (!usage && likely(real_waitpid)) return real_waitpid(pid, status, options);
    return likely(real_wait4) ? real_wait4(pid, status, options, usage)
                              : (pid_t)FALLBACK(SYS_wait4, pid, status, options, usage);
}

static pid_t do_wait4(pid_t pid, int *status, int options, struct rusage *usage)
{
    if (likely(!may_see_snapshot(options))) return call_wait4(pid, status, options, usage);
    int s;
    struct rusage u;
    pid_t r;
    do r = call_wait4(pid, &s, options, usage ? &u : NULL);
    while (r > 0 && snapshot_was_taken((uint32_t)r));
    if (r > 0 && status) *status = s;
    if (r >= 0 && usage) *usage = u;
    return r;
}

EXPORT pid_t waitpid(pid_t pid, int *status, int options)
{
    return do_wait4(pid, status, options, NULL);
}

ALSO_KNOWN_AS(waitpid, __waitpid);

EXPORT pid_t wait4(pid_t pid, int *status, int options, struct rusage *usage)
{
    return do_wait4(pid, status, options, usage);
}

EXPORT pid_t wait3(int *status, int options, struct rusage *usage)
{
    return do_wait4(-1, status, options, usage);
}

static int call_waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
    return likely(real_waitid) ? real_waitid(type, id, info, options)
                               : (int)FALLBACK(SYS_waitid, type, id, info, options, NULL);
}

EXPORT int waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
    if (likely(!may_see_snapshot(options))) return call_waitid(type, id, info, options);
    for (;;) {
        siginfo_t found;
        memset(&found, 0, sizeof found);
        int r = call_waitid(type, id, &found, options);
        if (r == 0 && found.si_pid > 0) {
            uint32_t pid = (uint32_t)found.si_pid;
            if (options & WNOWAIT ? snapshot_is_shown(pid) : snapshot_was_taken(pid)) continue;
        }
        if (r == 0 && info) *info = found;
        return r;
    }
}
