/* dump.c: from a request to a snapshot child that writes a profile.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/dump.h"
#include "heap/print.h"
#include "heap/syscall.h"
#include "preload/collection.h"
#include "preload/control_page.h"
#include "preload/dump_about.h"
#include "preload/leak_check.h"
#include "preload/process.h"
#include "preload/shut_in.h"
#include "preload/signal33.h"
#include "preload/snapshot.h"
#include "preload/stop.h"
#include "preload/take_holders.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

/* Filled by the holder of the gate, read by the child in its copy. */
static struct {
    bool to_command; /* the answer file of the protocol; else `path` */
    bool leaks;      /* with a major collection */
    bool holders;    /* with who holds what */
    char path[4096];
    char reason[32];
    long child; /* result of the clone */
} job;

/* Too big for a stack. */
static struct dump_facts facts;

/* Before a vfork of the child's can be mistaken for the child; and 33 was ignored if another thread
   was in exec when we forked. */
static void forked(void)
{
    process_is_borrowed();
    signal33_check();
}

bool dump_start(void)
{
    return process_start() && stop_start() && snapshot_start() &&
           pthread_atfork(NULL, NULL, forked) == 0 && signal33_start() && control_page_start();
}

static uint32_t own_uid(void)
{
    return (uint32_t)raw_syscall(SYS_geteuid, 0);
}

/* The answer file, checked; or a negative errno. */
static long open_answer(uint32_t pid)
{
    char name[96];
    struct stat st;
    print_to(name, sizeof name, "/tmp/gleaner-%u", own_uid());
    long folder =
        raw_syscall(SYS_openat, AT_FDCWD, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
    if (folder < 0) return folder;
    long e = raw_syscall(SYS_fstat, folder, &st);
    if (e != 0) return e;
    if (st.st_uid != own_uid() || (st.st_mode & 077)) return -EPERM;
    print_to(name, sizeof name, "%u.%llu", pid, (unsigned long long)facts.start_ticks);
    /* Not blocking: it could be a pipe. */
    long fd = raw_syscall(SYS_openat, folder, name,
                          O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
    if (fd < 0) return fd;
    e = raw_syscall(SYS_fstat, fd, &st);
    if (e != 0) return e;
    if (!S_ISREG(st.st_mode) || st.st_uid != own_uid() || (st.st_mode & 07777) != 0600 ||
        st.st_nlink != 1) {
        return -EPERM;
    }
    return raw_syscall(SYS_ftruncate, fd, 0) == 0 ? fd : -EIO;
}

/* In the child. */
static void write_profile(void *unused)
{
    uint32_t parent = (uint32_t)raw_syscall(SYS_getppid, 0);
    if (job.leaks) collection_in_snapshot();
    dump_about(&facts, parent, job.reason);
    if (job.holders) facts.about.holders = take_holders(&facts.about.no_holders);
    facts.about.compress = true;
    facts.about.suppressions = leak_check_suppressions(true);
    if (!job.to_command) {
        profile_write_file(job.path, &facts.about);
        return;
    }
    long fd = open_answer(parent);
    if (fd < 0) return;
    int error = profile_write((int)fd, &facts.about);
    if (error) {
        raw_syscall(SYS_ftruncate, fd, 0);
        raw_syscall(SYS_lseek, fd, 0, SEEK_SET);
        print_fd((int)fd, "the profile could not be written: error %d\n", error);
    }
    raw_syscall(SYS_fchmod, fd, error ? 0200 : 0400);
}

/* A profile does not need a complete stop: what it reads is consistent by itself, thread by thread.
 */
static void in_stopped_world(const struct stop_result *result, void *argument)
{
    if (job.leaks) collection_prepare_snapshot(result);
    if (job.holders) take_holders_prepare(result);
    job.child = snapshot_take(write_profile, NULL, job.leaks || job.holders ? DUMP_LEAKS_SECONDS : DUMP_SECONDS);
}

static bool take(void *context)
{
    struct stop_job stop = {.inside = in_stopped_world, .context = context, .urgent = true, .deep = job.leaks || job.holders};
    snapshot_reap();
    if (atomic_load(&process->snapshot)) return false;
    job.child = -1;
    stop_world(&stop);
    return job.child > 0;
}

void dump_serve(uint64_t value, void *context)
{
    switch (value >> 40 & 0xff) {
    case SIGNAL33_DUMP:
    case SIGNAL33_LEAKS:
    case SIGNAL33_HOLDERS:
        job.to_command = true;
        job.leaks = (value >> 40 & 0xff) == SIGNAL33_LEAKS;
        job.holders = (value >> 40 & 0xff) == SIGNAL33_HOLDERS;
        memcpy(job.reason, "dump", 5);
        take(context);
        break;
    case SIGNAL33_REAP:
        snapshot_reap();
        break;
    default: /* of a later version */
        break;
    }
}

void dump_request(uint64_t value, uint32_t from_uid, void *context)
{
    if (shut_in_already(SHUT_IN_COLLECT)) return;
    stop_note_signal(true);
    if (shut_in(SHUT_IN_COLLECT)) return;
    if (from_uid != 0 && from_uid != own_uid()) return;
    if (process_is_borrowed()) return;
    if (!stop_gate_try()) {
        /* Its holder, perhaps the very code that we interrupted, serves it when it leaves. */
        atomic_store(&process->request, value);
        if (!stop_gate_try()) return;
        value = atomic_exchange(&process->request, 0);
    }
    if (value && !shut_in(SHUT_IN_COLLECT)) dump_serve(value, context);
    stop_gate_leave();
}

bool dump_to(const char *path, const char *reason, void *context)
{
    if (shut_in(SHUT_IN_COLLECT) || strlen(path) >= sizeof job.path || process_is_borrowed() || !stop_gate_try()) return false;
    job.to_command = job.leaks = job.holders = false;
    memcpy(job.path, path, strlen(path) + 1);
    print_to(job.reason, sizeof job.reason, "%s", reason);
    bool taken = take(context);
    stop_gate_leave();
    return taken;
}
