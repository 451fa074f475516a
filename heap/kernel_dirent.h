/* kernel_dirent.h: an entry of a folder, as getdents64(2) gives it.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_KERNEL_DIRENT_H
#define GLEANER_KERNEL_DIRENT_H

#include <stdint.h>

struct kernel_dirent {
    uint64_t inode;
    int64_t offset;
    unsigned short length;
    unsigned char type;
    char name[];
};

#endif
