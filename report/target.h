/* target.h: what /proc says of another process.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REPORT_TARGET_H
#define GLEANER_REPORT_TARGET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum target_state {
    TARGET_OURS,   /* it runs under Gleaner */
    TARGET_OTHER,  /* it does not */
    TARGET_GONE,   /* there is no such process */
    TARGET_CLOSED, /* we may not look: another user's, or it dropped its privileges */
};

struct target {
    int pid;
    uid_t uid; /* its effective user */
    gid_t gid;
    uid_t shown_owner;   /* of its files in /proc: root's when the process is not dumpable */
    uid_t inner_uid;     /* `uid` as a number inside its user namespace */
    int inner_pid;       /* as the process itself sees it, in its pid namespace */
    uint64_t start_time; /* clock ticks after the boot, field 22 of stat */
    uint64_t rss;        /* bytes */
    bool zombie;
};

/* Whether the process has mapped our control page. */
enum target_state target_state(int pid);

/* Reads the rest; false when the process is gone. */
bool target_read(int pid, struct target *);

/* The command line with spaces between the words, or [name] where there is none; safe to print, to
   be freed. NULL when the process is gone. */
char *target_command(int pid);

/* Seconds since the process started; negative when not known. */
double target_age(const struct target *);

#endif
