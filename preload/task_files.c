/* task_files.c: parsing /proc/self/task/TID/{stat,syscall}.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/task_files.h"
#include "heap/print.h"
#include "heap/syscall.h"

#include <fcntl.h>
#include <sys/stat.h>

long task_read(const char *path, char *to, size_t bytes)
{
    long fd = raw_syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0) return fd;
    size_t have = 0;
    long n = 0;
    while (have + 1 < bytes) {
        n = raw_syscall(SYS_read, fd, to + have, bytes - 1 - have);
        if (n <= 0) break;
        have += (size_t)n;
    }
    raw_syscall(SYS_close, fd);
    to[have] = 0;
    return n < 0 ? n : (long)have;
}

char task_state(uint32_t tid)
{
    char path[48], text[512];
    print_to(path, sizeof path, "/proc/self/task/%u/stat", tid);
    long n = task_read(path, text, sizeof text);
    if (n <= 0) return 0;
    /* The name in parentheses may hold anything, parentheses too: the last one ends it. */
    while (n > 0 && text[n - 1] != ')') n--;
    return n > 0 && text[n] == ' ' ? text[n + 1] : 0;
}

static const char *number(const char *p, uint64_t *to)
{
    uint64_t v = 0;
    while (*p == ' ') p++;
    if (p[0] == '0' && p[1] == 'x') {
        for (p += 2;; p++) {
            unsigned d = *p >= '0' && *p <= '9'   ? (unsigned)(*p - '0')
                         : *p >= 'a' && *p <= 'f' ? (unsigned)(*p - 'a' + 10)
                                                  : 16;
            if (d == 16) break;
            v = v << 4 | d;
        }
    } else {
        if (*p < '0' || *p > '9') return NULL;
        for (; *p >= '0' && *p <= '9'; p++) v = v * 10 + (uint64_t)(*p - '0');
    }
    *to = v;
    return p;
}

bool task_call(uint32_t tid, struct task_call *to)
{
    char path[48], text[256];
    print_to(path, sizeof path, "/proc/self/task/%u/syscall", tid);
    if (task_read(path, text, sizeof text) <= 0) return false;
    to->number = -1;
    to->sp = to->pc = 0;
    if (text[0] < '0' || text[0] > '9') return true; /* "running", or "-1 sp pc" */
    uint64_t nr;
    const char *p = number(text, &nr);
    for (int i = 0; p && i < 6; i++) p = number(p, &to->arguments[i]);
    if (p) p = number(p, &to->sp);
    if (p) p = number(p, &to->pc);
    if (!p) return false;
    to->number = (long)nr;
    return true;
}

unsigned task_count(void)
{
    struct stat st;
    /* A folder's links are its sub-folders and two: one a thread (fs/proc/base.c,
     * proc_task_getattr). */
    if (raw_syscall(SYS_newfstatat, AT_FDCWD, "/proc/self/task", &st, 0) != 0) return 0;
    return st.st_nlink > 2 ? (unsigned)st.st_nlink - 2 : 0;
}
