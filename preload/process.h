/* process.h: what is true of this process only, in memory that a fork's child finds zeroed, so that
   no state of the parent (a gate that is held, a stop that is under way, a snapshot child) can be
   mistaken for its own, whichever way it was forked (libc's fork, _Fork, a raw clone).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_PROCESS_H
#define GLEANER_PROCESS_H

#include "heap/base.h"

struct process {
    _Atomic uint32_t pid;      /* 0 in a fresh child until somebody asks */
    _Atomic uint32_t gate;     /* thread that may stop the world; 0 if none (stop.h) */
    _Atomic uint32_t waiting;  /* somebody sleeps on the gate */
    _Atomic uint32_t stopping; /* number of the stop under way, 0 if none; threads park on it */
    _Atomic uint32_t arrived;  /* counts threads that parked; the stopping thread sleeps on it */
    _Atomic uint32_t stops;    /* stops that were begun, the source of their numbers */
    _Atomic uint32_t helper;   /* the helper thread of a stop: HELPER_..., which the kernel makes 0 when it has left its stack */
    _Atomic uint32_t failures; /* incomplete stops in a row, but for those before `not_before` */
    _Atomic uint64_t
        not_before;            /* no stop before this (CLOCK_MONOTONIC, ns), unless it is urgent */
    _Atomic uint64_t request;  /* a request (dump.h) that came while the gate was taken */
    _Atomic uint32_t in_exec;  /* a thread has made the process ignore 33 to call exec */
    _Atomic uint32_t snapshot; /* pid of the snapshot child that nobody has reaped */
    _Atomic uint32_t latest;   /* pid of the latest one, reaped or not */
    _Atomic uint32_t taken;    /* pid of one that a wait of the program has reaped unknowingly */
    _Atomic uint32_t stuck;    /* pid of one that was killed and cannot be reaped before its debugger knows */
};

/* Prepares the page; idempotent, from start-up.  False if the system gives no memory. */
bool process_start(void);

/* The page; never NULL after process_start.  Any thread, also in a signal handler. */
extern struct process *process;

/* Is the caller in a child that shares our memory (vfork, or posix_spawn's)?  Such a child must
   leave no trace in the memory of its parent.  One system call.  Also enters our pid in a fresh
   page; a vfork child that is the first to ask in a forked child would enter its own: hence the
   fork handler in dump.c. */
bool process_is_borrowed(void);

/* Memory of `bytes` (a multiple of the page) that a forked child finds zeroed; NULL if refused. */
void *process_private(size_t bytes);

#endif
