/* refuse.c: what the process is now.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/refuse.h"
#include "heap/kernel_dirent.h"
#include "heap/print.h"
#include "heap/proc_text.h"
#include "heap/syscall.h"
#include "preload/task_files.h"

#include <errno.h>
#include <fcntl.h>

#define TEXT_BYTES (64 * KIB)
#define KCMP_VM 1
#define RINGS "the process uses io_uring or kernel AIO, which hide pointers"

static char text_memory[TEXT_BYTES];

/* No libc here. */
static const char *find_char(const char *text, char c)
{
    while (*text && *text != c) text++;
    return *text ? text : NULL;
}

static const char *of_mapping(const char *path)
{
    static const struct {
        const char *name, *why;
    } known[] = {
        {"libjvm.so", "a Java virtual machine keeps pointers where nobody sees them"},
        {"libart.so", "a Java virtual machine keeps pointers where nobody sees them"},
        {"libv8", "V8 keeps pointers where nobody sees them"},
        {"libnode.so", "V8 keeps pointers where nobody sees them"},
        {"libgo.so", "a program of Go's keeps pointers where nobody sees them"},
        {"libwine", "Wine keeps pointers where nobody sees them"},
        {"ntdll.so", "Wine keeps pointers where nobody sees them"},
        {"libcoreclr.so", "a .NET virtual machine keeps pointers where nobody sees them"},
        {"libmono", "a .NET virtual machine keeps pointers where nobody sees them"},
    };
    const char *name = path, *next;
    while ((next = find_char(name, '/'))) name = next + 1;
    for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
        if (proc_after(name, known[i].name)) return known[i].why;
    return NULL;
}

/* What a process is not denied of itself. */
static bool is_denied(uint32_t pid, long error)
{
    return (error == -EACCES || error == -EPERM) && pid != (uint32_t)raw_syscall(SYS_getpid, 0);
}

static const char *by_mappings(uint32_t pid, bool *denied)
{
    char path[48];
    struct proc_text text;
    const char *why = NULL;
    print_to(path, sizeof path, "/proc/%u/maps", pid);
    long error = proc_open(&text, AT_FDCWD, path, text_memory, TEXT_BYTES);
    *denied = is_denied(pid, error);
    if (error != 0) return *denied ? NULL : "its mappings cannot be read";
    for (const char *line; !why && (line = proc_line(&text));) {
        const char *name = find_char(line, '/');
        if (proc_find(line, "anon_inode:[io_uring]") || proc_find(line, "/[aio]")) why = RINGS;
        else if (name) why = of_mapping(name);
    }
    if (!why && text.failed) why = "its mappings cannot be read";
    proc_close(&text);
    return why;
}

/* Calls `each` for every entry of a folder of /proc that is a number, until it returns a reason; `unknown` where it cannot be read. */
static const char *each_entry(const char *path, char *memory, size_t bytes, const char *unknown,
                              const char *(*each)(long folder, const char *name, uint32_t pid), uint32_t pid)
{
    long folder = raw_syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0), n = -1;
    const char *why = NULL;
    if (folder < 0) return unknown;
    while (!why && (n = raw_syscall(SYS_getdents64, folder, memory, bytes)) > 0)
        for (long at = 0; at < n && !why;) {
            struct kernel_dirent *d = (void *)(memory + at);
            at += d->length;
            if (d->name[0] >= '0' && d->name[0] <= '9') why = each(folder, d->name, pid);
        }
    raw_syscall(SYS_close, folder);
    return why ? why : n < 0 ? unknown : NULL;
}

static const char *of_descriptor(long folder, const char *name, uint32_t pid)
{
    static const char ring[] = "anon_inode:[io_uring]";
    char target[sizeof ring];
    long n = raw_syscall(SYS_readlinkat, folder, name, target, sizeof target);
    if (n != (long)sizeof ring - 1) return NULL;
    target[n] = 0;
    return proc_after(target, ring) ? RINGS : NULL;
}

#define STATM_BYTES 160
#define STATM_TRIES 8

static long read_statm(uint32_t pid, char *to)
{
    char path[48];
    print_to(path, sizeof path, "/proc/%u/statm", pid);
    return task_read(path, to, STATM_BYTES);
}

/* Everybody may read how much memory a process has (proc(5)), and who shares ours has as much of each kind.  A page more since the one was
   read is another number, so they are read again. */
static bool has_as_much(uint32_t pid, uint32_t other)
{
    char ours[STATM_BYTES], theirs[STATM_BYTES];
    for (int i = 0; i < STATM_TRIES; i++) {
        long n = read_statm(pid, ours), m = read_statm(other, theirs);
        if (n > 0 && n == m && __builtin_memcmp(ours, theirs, (size_t)n) == 0) return true;
    }
    return false;
}

static bool shares_memory(uint32_t pid, uint32_t other)
{
    uint32_t self = (uint32_t)raw_syscall(SYS_getpid, 0);
    if (other == 0 || other == pid || other == self) return false;
    long r = raw_syscall(SYS_kcmp, pid, other, KCMP_VM, 0, 0);
    /* Denied where the memory's owner has dropped its privileges: then it is of whoever shares it, too. */
    return r == 0 || ((r == -EPERM || r == -EACCES) && has_as_much(pid, other));
}

static uint32_t found_sharer;

/* A vfork child, or what clone(CLONE_VM) made: they are children of one of our threads (CONFIG_PROC_CHILDREN). */
static const char *of_task(long folder, const char *name, uint32_t pid)
{
    char path[64], list[4096];
    print_to(path, sizeof path, "%s/children", name);
    long fd = raw_syscall(SYS_openat, folder, path, O_RDONLY | O_CLOEXEC, 0), n;
    if (fd < 0) return NULL;
    uint32_t child = 0;
    while (found_sharer == 0 && (n = raw_syscall(SYS_read, fd, list, sizeof list)) > 0)
        for (long i = 0; i < n; i++) {
            if (list[i] >= '0' && list[i] <= '9') {
                child = child * 10 + (uint32_t)(list[i] - '0');
                continue;
            }
            if (shares_memory(pid, child)) found_sharer = child;
            child = 0;
        }
    raw_syscall(SYS_close, fd);
    return NULL;
}

const char *refuse_now(uint32_t pid, uint32_t *sharer, bool *denied)
{
    char path[48];
    const char *why = by_mappings(pid, denied);
    found_sharer = 0;
    *sharer = 0;
    if (*denied) return NULL;
    print_to(path, sizeof path, "/proc/%u/fd", pid);
    if (!why) why = each_entry(path, text_memory, TEXT_BYTES, "its descriptors cannot be looked at", of_descriptor, pid);
    print_to(path, sizeof path, "/proc/%u/task", pid);
    if (!why) why = each_entry(path, text_memory, TEXT_BYTES, NULL, of_task, pid);
    *sharer = found_sharer;
    return why;
}
