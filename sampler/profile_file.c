/* profile_file.c: a profile that is there as a whole or not at all.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/os.h"
#include "heap/print.h"
#include "heap/syscall.h"
#include "sampler/profile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#define ATTEMPTS 16

/* Beside the target, so that the rename stays in its file system.  A name that is taken belongs to
   a process that died while it wrote, or to somebody who wants us to follow a link: take another.
 */
static long open_beside(const char *path, char *temporary, size_t bytes)
{
    static _Atomic unsigned serial;
    long fd = -EEXIST;
    for (unsigned i = 0; i < ATTEMPTS && fd == -EEXIST; i++) {
        size_t n = print_to(temporary, bytes, "%s.%d.%u.tmp", path,
                            (int)raw_syscall(SYS_getpid, 0L), atomic_fetch_add(&serial, 1));
        if (n >= bytes) return -ENAMETOOLONG;
        fd = raw_syscall(SYS_openat, AT_FDCWD, temporary,
                         O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600L);
    }
    return fd;
}

static int write_beside(const char *path, char *temporary, const struct profile_about *about)
{
    long fd = open_beside(path, temporary, PATH_MAX);
    if (fd < 0) return (int)-fd;
    int error = profile_write((int)fd, about);
    long closed = raw_syscall(SYS_close, fd); /* where a quota or NFS may report late */
    if (!error && closed < 0 && closed != -EINTR) error = (int)-closed;
    if (!error) {
        long renamed = raw_syscall(SYS_renameat2, AT_FDCWD, temporary, AT_FDCWD, path, 0L);
        if (renamed < 0) error = (int)-renamed;
    }
    if (error) raw_syscall(SYS_unlinkat, AT_FDCWD, temporary, 0L);
    return error;
}

/* A device (/dev/null) is written to; a rename would put a file in its place.  What else is there
   and is no plain file (a pipe, /dev/stdout) is left alone: EEXIST. */
static int write_in_place(const char *path, const struct profile_about *about)
{
    long fd = raw_syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_NOCTTY | O_CLOEXEC, 0L);
    if (fd < 0) return (int)-fd;
    int error = profile_write((int)fd, about);
    raw_syscall(SYS_close, fd);
    return error;
}

/* Its kind (S_IFMT); 0: there is nothing; else the error, negative.  Who cannot look must not write: there may be a device.  (A filter can also answer
   that the call was made, and it was not.) */
static int kind_of(const char *path, long flags)
{
    struct stat is = {.st_mode = 0};
    long e = raw_syscall(SYS_newfstatat, AT_FDCWD, path, &is, flags);
    if (e != 0) return e == -ENOENT ? 0 : (int)e;
    return is.st_mode & S_IFMT ? (int)(is.st_mode & S_IFMT) : -EIO;
}

int profile_write_file(const char *path, const struct profile_about *about)
{
    int kind = kind_of(path, 0), of_link = strncmp(path, "/dev/", 5) == 0 ? kind_of(path, AT_SYMLINK_NOFOLLOW) : 0;
    if (kind < 0 || of_link < 0) return kind < 0 ? -kind : -of_link;
    if (kind == S_IFCHR) return write_in_place(path, about);
    if (kind == S_IFIFO || kind == S_IFSOCK || kind == S_IFBLK || of_link == S_IFLNK) return EEXIST;
    char *temporary = os_map(PATH_MAX); /* not on the program's stack, which may be small */
    if (!temporary) return ENOMEM;
    int error = write_beside(path, temporary, about);
    os_unmap(temporary, PATH_MAX);
    return error;
}
