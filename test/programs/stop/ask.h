/* ask.h: the command's side of the dump protocol (preload/dump.h), for tests.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef ASK_H
#define ASK_H

#include "program.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define ASK_DUMP 2
#define ASK_REAP 3

static inline void ask_send(int pid, unsigned op, unsigned number)
{
    siginfo_t info;
    memset(&info, 0, sizeof info);
    info.si_signo = 33;
    info.si_code = SI_QUEUE;
    info.si_pid = getpid();
    info.si_uid = getuid();
    info.si_value.sival_ptr = (void *)((uint64_t)0x474c << 48 | (uint64_t)op << 40 | number);
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    CHECK(fd >= 0);
    CHECK(syscall(SYS_pidfd_send_signal, fd, 33, &info, 0) == 0);
    close(fd);
}

/* Has the process a control page? */
static inline bool ask_answers(int pid)
{
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    FILE *f = fopen(path, "r");
    bool found = false;
    while (f && fgets(line, sizeof line, f)) {
        if (strstr(line, "/memfd:gleaner-1 (deleted)\n")) found = true;
    }
    if (f) fclose(f);
    return found;
}

static inline void ask_path(int pid, char *to, size_t bytes)
{
    char stat[1024];
    snprintf(to, bytes, "/proc/%d/stat", pid);
    int fd = open(to, O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, stat, sizeof stat - 1);
    close(fd);
    CHECK(n > 0);
    stat[n] = 0;
    char *p = strrchr(stat, ')');
    for (int field = 2; field < 22; field++) p = strchr(p + 1, ' ');
    snprintf(to, bytes, "/tmp/gleaner-%u/%d.%llu", geteuid(), pid, strtoull(p, NULL, 10));
}

/* Makes the empty answer file; a descriptor. */
static inline int ask_prepare(int pid, char *path, size_t bytes)
{
    char folder[64];
    snprintf(folder, sizeof folder, "/tmp/gleaner-%u", geteuid());
    mkdir(folder, 0700);
    ask_path(pid, path, bytes);
    unlink(path);
    for (;;) { /* who has dumped another process meanwhile removes an empty folder */
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0) return fd;
        CHECK(errno == ENOENT);
        mkdir(folder, 0700);
    }
}

/* Waits for the mode 0400; false after `ms`. */
static inline bool ask_wait(int fd, int ms)
{
    struct stat st;
    for (int64_t end = now_ns() + (int64_t)ms * 1000000; now_ns() < end;) {
        CHECK(fstat(fd, &st) == 0);
        if ((st.st_mode & 0777) == 0400) return true;
        if ((st.st_mode & 0777) == 0200) return false;
        struct timespec ts = {0, 1000000};
        nanosleep(&ts, NULL);
    }
    return false;
}

/* The whole exchange; false if no profile came. */
static inline bool ask_dump(int pid, unsigned number, int ms)
{
    char path[128], text[16] = "";
    int fd = ask_prepare(pid, path, sizeof path);
    ask_send(pid, ASK_DUMP, number);
    bool ok = ask_wait(fd, ms) && pread(fd, text, sizeof text, 0) == 8;
    if (ok && memcmp(text, "profile\n", 8) != 0) FAIL("the answer reads '%s'", text);
    close(fd);
    unlink(path);
    struct timespec ts = {0, 3000000}; /* for the child to end */
    nanosleep(&ts, NULL);
    ask_send(pid, ASK_REAP, number);
    return ok;
}

#endif
