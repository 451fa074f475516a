/* process.c: the page that a fork wipes.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/process.h"
#include "preload/own_memory.h"
#include "preload/shut_in.h"
#include "heap/syscall.h"

#include <sys/mman.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

/* The static page serves until process_start has run, in one thread. */
static struct process early;
struct process *process = &early;

void *process_private(size_t bytes)
{
    void *p = own_map(bytes);
    /* Linux 4.14.  Without it a child keeps its parent's state: it then takes itself for a borrowed
       one, and neither stops nor dumps. */
    if (p) raw_syscall(SYS_madvise, p, bytes, MADV_WIPEONFORK);
    return p;
}

bool process_start(void)
{
    if (process != &early) return true;
    struct process *fresh = process_private(OS_PAGE);
    if (!fresh) return false;
    atomic_store(&fresh->pid, (uint32_t)raw_syscall(SYS_getpid, 0));
    process = fresh;
    return true;
}

bool process_is_borrowed(void)
{
    if (shut_in_already(SHUT_IN_LINE)) return false; /* who we are may not be asked, and nothing depends on it any more */
    uint32_t known = 0, self = (uint32_t)raw_syscall(SYS_getpid, 0);
    if (atomic_compare_exchange_strong(&process->pid, &known, self)) return false;
    return known != self;
}
