/* task_files.h: what /proc says of one of our threads.  Raw system calls; opens a descriptor, so it
   belongs into a thread whose descriptor table is its own (stop.c), or into a single thread.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_TASK_FILES_H
#define GLEANER_TASK_FILES_H

#include "heap/base.h"

/* Reads at most bytes-1 of a file and ends them with a zero.  Length, or a negative errno. */
long task_read(const char *path, char *to, size_t bytes);

/* The state letter of /proc/self/task/TID/stat; 0 if the thread is gone. */
char task_state(uint32_t tid);

struct task_call {
    long number; /* -1: running, or blocked outside a system call */
    uint64_t arguments[6];
    uint64_t sp, pc;
};

/* What the thread is blocked in.  False if that cannot be told. */
bool task_call(uint32_t tid, struct task_call *to);

/* How many threads the process has, without opening anything; 0 if /proc cannot be read. */
unsigned task_count(void);

#endif
