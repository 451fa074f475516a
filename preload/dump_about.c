/* dump_about.c: reading /proc/PID for the profile's header.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/dump_about.h"
#include "heap/os.h"
#include "heap/print.h"
#include "heap/syscall.h"
#include "preload/task_files.h"

#include <fcntl.h>
#include <time.h>

/* Fields of stat after the name are numbered from 3. */
static uint64_t stat_field(const char *text, long n, int field)
{
    while (n > 0 && text[n - 1] != ')') n--;
    const char *p = text + n;
    for (int at = 2; at < field; at++) {
        while (*p && *p != ' ') p++;
        while (*p == ' ') p++;
    }
    uint64_t v = 0;
    for (; *p >= '0' && *p <= '9'; p++) v = v * 10 + (uint64_t)(*p - '0');
    return v;
}

#define TICKS_PER_SECOND 100 /* USER_HZ, on both machines */

void dump_about(struct dump_facts *to, uint32_t pid, const char *reason)
{
    char path[64], text[1024];
    to->about = (struct profile_about){.pid = (int)pid, .reason = reason};
    print_to(path, sizeof path, "/proc/%u/stat", pid);
    long n = task_read(path, text, sizeof text);
    if (n > 0) {
        to->start_ticks = stat_field(text, n, 22);
        to->about.parent = (int)stat_field(text, n, 4);
        struct timespec boot, real;
        raw_syscall(SYS_clock_gettime, CLOCK_BOOTTIME, &boot);
        raw_syscall(SYS_clock_gettime, CLOCK_REALTIME, &real);
        uint64_t now = (uint64_t)real.tv_sec * 1000000000u + (uint64_t)real.tv_nsec;
        uint64_t up = (uint64_t)boot.tv_sec * 1000000000u + (uint64_t)boot.tv_nsec;
        to->about.start_time = now - up + to->start_ticks * (1000000000u / TICKS_PER_SECOND);
    }
    print_to(path, sizeof path, "/proc/%u/cmdline", pid);
    n = task_read(path, to->command, sizeof to->command);
    while (n > 1 && to->command[n - 2] == 0) n--; /* a program that shows a title has zeros behind it (setproctitle) */
    if (n > 0) {
        for (long i = 0; i + 1 < n; i++) {
            if (to->command[i] == 0) to->command[i] = ' ';
        }
        to->about.command = to->command;
    }
    print_to(path, sizeof path, "/proc/%u/exe", pid);
    n = raw_syscall(SYS_readlinkat, AT_FDCWD, path, to->executable, sizeof to->executable - 1);
    if (n > 0) {
        to->executable[n] = 0;
        to->about.executable = to->executable;
    }
}
