/* profile.h: writes the process's profile as pprof's profile.proto.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_PROFILE_H
#define GLEANER_PROFILE_H

#include "sampler/suppressions.h"

/* Facts that the writer cannot know by itself; all strings may be NULL. */
struct holders;
struct profile_about {
    int pid, parent;
    const char *command;    /* the program's arguments, separated by spaces */
    const char *executable; /* its path */
    uint64_t start_time;    /* nanoseconds since 1970: of the process, or of the fork */
    const char *reason;     /* "exit", "signal", "dump", "interval", "fork" … */
    bool compress;          /* gzip; else plain protobuf */
    const struct suppressions *suppressions; /* known leaks, for the command; NULL: none */
    struct holders *holders;  /* who holds what, of the same frozen copy; NULL: not asked, or */
    const char *no_holders;   /* why not; else NULL */
};

/* Writes the whole profile to a descriptor, by raw writes, without allocating through malloc,
   without a lock: callable in a snapshot child that has no libc.  0, or a positive errno. */
int profile_write(int fd, const struct profile_about *about);

/* Writes it to `path` by way of a temporary file beside it and a rename, mode 0600, never through a
   symbolic link.  0, or a positive errno: nothing is left behind then.  A character device is
   written to as it is; EEXIST for a pipe, a socket, a block device and the links of /dev. */
int profile_write_file(const char *path, const struct profile_about *about);

#endif
