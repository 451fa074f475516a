/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/kept_file.h"
#include "heap/syscall.h"

#include <fcntl.h>
#include <sys/stat.h>

#define FROM 100 /* shells give their scripts 10 and up */

static bool look(int fd, uint64_t *device, uint64_t *file)
{
    struct stat is;
    if (raw_syscall(SYS_fstat, fd, &is) != 0) return false;
    *device = is.st_dev;
    *file = is.st_ino;
    return true;
}

bool kept_file_keep(struct kept_file *k, int fd)
{
    k->fd = 0;
    long copy = raw_syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, FROM);
    if (copy < 0) return false;
    if (!look((int)copy, &k->device, &k->file)) {
        raw_syscall(SYS_close, copy);
        return false;
    }
    k->fd = (int)copy;
    return true;
}

int kept_file_now(const struct kept_file *k)
{
    uint64_t device, file;
    if (k->fd > 0 && look(k->fd, &device, &file) && device == k->device && file == k->file)
        return k->fd;
    return -1;
}
