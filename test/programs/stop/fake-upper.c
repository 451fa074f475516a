/* fake-upper.c: stands for the parts that are not under test in libgleaner-stop.so: the profile's
   writer, the sampler, and the constructor.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/syscall.h"
#include "preload/blocking.h"
#include "preload/dump.h"
#include "preload/dump_signal.h"
#include "preload/exec.h"
#include "preload/follow.h"
#include "preload/leak_check.h"
#include "preload/thread_create.h"
#include "preload/wait.h"
#include "sampler/memprof.h"
#include "sampler/profile.h"
#include "sampler/sampler.h"

#include <stdlib.h>
#include <string.h>

void sampler_prepare_threads(void) {}
void sampler_modules_changed(void) {}
void memprof_run(void) {}
void memprof_collected(void) {}

/* Takes as long as STOP_HOLD_MS says, so that a test can look at a process with a snapshot child.
 */
static long hold_ms;

const struct suppressions *leak_check_suppressions(bool frozen)
{
    return NULL;
}

int profile_write(int fd, const struct profile_about *about)
{
    static const char text[] = "profile\n";
    struct timespec ts = {hold_ms / 1000, hold_ms % 1000 * 1000000};
    while (raw_syscall(SYS_nanosleep, &ts, &ts) == -EINTR) continue;
    return raw_syscall(SYS_write, fd, text, sizeof text - 1) == sizeof text - 1 ? 0 : EIO;
}

int profile_write_file(const char *path, const struct profile_about *about)
{
    long fd = raw_syscall(SYS_openat, -100, path, 0102 /* O_CREAT | O_RDWR */, 0600);
    return fd < 0 ? (int)-fd : profile_write((int)fd, about);
}

static char output[256];

static size_t signal_path(char *to, size_t bytes)
{
    size_t n = strlen(output);
    if (n >= bytes) return 0;
    memcpy(to, output, n + 1);
    return n;
}

/* Not getenv: with -z initfirst we run before libc's own constructor, which sets environ. */
static const char *variable(char **envp, const char *name)
{
    size_t n = strlen(name);
    for (; *envp; envp++) {
        if (strncmp(*envp, name, n) == 0 && (*envp)[n] == '=') return *envp + n + 1;
    }
    return NULL;
}

__attribute__((constructor)) static void start(int argc, char **argv, char **envp)
{
    const char *hold = variable(envp, "STOP_HOLD_MS"), *follow = variable(envp, "STOP_FOLLOW");
    const char *to = variable(envp, "STOP_OUTPUT");
    hold_ms = hold ? atol(hold) : 0;
    follow_start(!follow || strcmp(follow, "no") != 0, "libgleaner-stop.so");
    follow_edit_own(envp);
    blocking_start();
    exec_start();
    wait_start();
    thread_create_start();
    if (!dump_start()) abort();
    if (to && strlen(to) < sizeof output) {
        memcpy(output, to, strlen(to) + 1);
        if (!dump_signal_start(12 /* SIGUSR2 */, signal_path)) abort();
    }
}

/* For the programs: one stop of the world that lasts `hold_us`.  2: complete, 1: incomplete, 0:
 * refused. */
static void hold(const struct stop_result *result, void *argument)
{
    long *p = argument;
    struct timespec ts = {0, p[0] * 1000};
    if (p[0]) raw_syscall(SYS_nanosleep, &ts, NULL);
    p[1] = result->complete ? 2 : 1;
}

static int stop(long hold_us, bool urgent)
{
    long p[2] = {hold_us, 0};
    struct stop_job job = {.inside = hold, .argument = p, .urgent = urgent};
    stop_gate_take();
    stop_world(&job);
    stop_gate_leave();
    return (int)p[1];
}

EXPORT int stop_for_test(long hold_us);
EXPORT int stop_for_test(long hold_us) { return stop(hold_us, true); }

/* As a collection by the clock. */
EXPORT int stop_in_time_for_test(long hold_us);
EXPORT int stop_in_time_for_test(long hold_us) { return stop(hold_us, false); }
