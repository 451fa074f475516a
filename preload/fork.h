/* fork.h: what a fork means for every part, in one place and in order.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_FORK_H
#define GLEANER_FORK_H

#include "heap/base.h"

enum fork_here {
    FORK_SAME,  /* the process that started, or a child whose fork handlers ran */
    FORK_VFORK, /* a child that borrows its parent's memory: it must leave no trace */
    FORK_RAW    /* a child with memory of its own whose fork handlers did not run (_Fork, clone) */
};

/* Registers the handlers; from start-up, so that they run last before a fork and first after it. */
void fork_start(void);

/* In which process are we? One system call; any thread, async-signal-safe. */
enum fork_here fork_here(void);

/* Does the child's work in a FORK_RAW child, once. */
void fork_catch_up(void);

#endif
