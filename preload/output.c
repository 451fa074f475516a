/* output.c: names and writes profiles, see output.h.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/output.h"
#include "heap/heap.h"
#include "heap/os.h"
#include "heap/print.h"
#include "heap/syscall.h"
#include "preload/face.h"
#include "preload/fork.h"
#include "preload/leak_check.h"
#include "preload/shut_in.h"
#include "sampler/profile.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/utsname.h>

#define ENVIRON_LIMIT (256 * KIB)

static char pattern[CONFIG_PATH]; /* absolute where the start folder was known */
static char command[1024];
static bool first = true;
static atomic_uint written_count;
static uint64_t start_time;

/* Facts. */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The executable's path by the kernel; AT_EXECFN where there is no /proc. */
static const char *executable(char *buffer, size_t bytes)
{
    long n = raw_syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", buffer, bytes - 1);
    if (n <= 0) {
        const char *name = (const char *)getauxval(AT_EXECFN);
        return name ? name : "unknown";
    }
    buffer[n] = 0;
    static const char gone[] = " (deleted)";
    if ((size_t)n > sizeof gone && strcmp(buffer + n - (sizeof gone - 1), gone) == 0)
        buffer[(size_t)n - (sizeof gone - 1)] = 0;
    return buffer;
}

/* Was a process started with the library preloaded?  By its first environment, so a shell that
   exports the variable to its children does not count. */
static bool under_gleaner(int pid)
{
    char path[48];
    print_to(path, sizeof path, "/proc/%d/environ", pid);
    long fd = raw_syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    char *text = fd >= 0 ? os_map(ENVIRON_LIMIT + OS_PAGE) : NULL;
    bool found = false;
    if (text) {
        size_t n = 0;
        while (n < ENVIRON_LIMIT) {
            long got = raw_syscall(SYS_read, fd, text + n, ENVIRON_LIMIT - n);
            if (got <= 0 && got != -EINTR) break;
            if (got > 0) n += (size_t)got;
        }
        for (size_t at = 0; at < n && !found; at += strlen(text + at) + 1)
            found = strncmp(text + at, "LD_PRELOAD=", 11) == 0 && strstr(text + at, "libgleaner");
        os_unmap(text, ENVIRON_LIMIT + OS_PAGE);
    }
    if (fd >= 0) raw_syscall(SYS_close, fd);
    return found;
}

static bool first_of_tree(char *const *environment)
{
    const char *number = config_environment(environment, "GLEANER_FIRST");
    if (!number) return !under_gleaner((int)raw_syscall(SYS_getppid, 0));
    char own[24];
    print_to(own, sizeof own, "%d", (int)raw_syscall(SYS_getpid, 0));
    return strcmp(number, own) == 0;
}

static void make_absolute(const char *from)
{
    size_t n = 0;
    if (from[0] != '/') {
        long got = raw_syscall(SYS_getcwd, pattern, sizeof pattern);
        if (got > 0 && pattern[0] == '/' && (size_t)got + strlen(from) + 1 < sizeof pattern) {
            /* The folder is a text, not a pattern: its % must be doubled; no room, no folder. */
            char folder[CONFIG_PATH];
            memcpy(folder, pattern, (size_t)got);
            for (const char *s = folder; *s && n + 2 < sizeof pattern; s++) {
                if (*s == '%') pattern[n++] = '%';
                pattern[n++] = *s;
            }
            pattern[n++] = '/';
            if (n + strlen(from) >= sizeof pattern) n = 0;
        }
    }
    memcpy(pattern + n, from, strlen(from) + 1);
}

void output_start(const struct config *config, char *const *arguments, char *const *environment)
{
    start_time = os_realtime();
    for (size_t n = 0; arguments && *arguments; arguments++)
        if (n < sizeof command)
            n += print_to(command + n, sizeof command - n, n ? " %s" : "%s", *arguments);
    make_absolute(config->output);
    /* Looked up only where it matters: the default pattern has %p. */
    if (config->exit_profile || config->exit_report || config->exit_code || config->interval_ns || config->signal ||
        !config->follow || config_environment(environment, "GLEANER_FIRST"))
        first = first_of_tree(environment);
}

void output_forked(void)
{
    first = false;
    start_time = os_realtime();
    atomic_store(&written_count, 0);
}

bool output_first(void)
{
    return first;
}

/* Writing. */

static const char *host_name(struct utsname *host)
{
    return raw_syscall(SYS_uname, host) == 0 ? host->nodename : "unknown";
}

size_t output_next(char *to, size_t bytes)
{
    char exe[CONFIG_PATH];
    struct utsname host;
    const struct output_facts facts = {
        .process = (int)raw_syscall(SYS_getpid, 0),
        .first = first,
        .number = atomic_fetch_add(&written_count, 1) + 1,
        .seconds = os_realtime() / 1000000000u,
        .executable = base_name(executable(exe, sizeof exe)),
        .host = host_name(&host),
    };
    return output_name(to, bytes, pattern, &facts);
}

int output_profile(const char *path, const char *reason, int tell, char *written)
{
    char name[CONFIG_PATH], exe[CONFIG_PATH];
    int error = 0;
    if (shut_in(SHUT_IN_PROFILE)) {
        if (tell >= 0) shut_in_say();
        return EPERM;
    }
    if (!path) {
        if (output_next(name, sizeof name) >= sizeof name) error = ENAMETOOLONG;
        path = name;
    }
    const struct profile_about about = {
        .pid = (int)raw_syscall(SYS_getpid, 0),
        .parent = (int)raw_syscall(SYS_getppid, 0),
        .command = command,
        .executable = executable(exe, sizeof exe),
        .start_time = start_time,
        .reason = reason,
        .compress = true,
        /* Asked for where a check at the end would read them as well. */
        .suppressions = config_watches(&face_config) && strcmp(reason, "exit") == 0 ? leak_check_suppressions(false) : NULL,
    };
    heap_suspend_sampling();
    if (error == 0) error = profile_write_file(path, &about);
    heap_resume_sampling();
    if (error != 0 && tell >= 0) print_fd(tell, "gleaner: no profile written to %s: %s\n", path, print_error(error));
    if (written) print_to(written, CONFIG_PATH, "%s", path);
    return error;
}
