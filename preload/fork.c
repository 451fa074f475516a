/* fork.c: the fork handlers, and children that came to be without them.

   1. Order.  Ours are registered first: prepare handlers run last to first, so the program's run
      before ours and may allocate; ours then close the gates, the sampler's and then the heap's,
      and parent and child open them the other way round.  No lock that malloc needs is held across
      a fork: glibc takes the stdio locks after our handlers, while another thread inside getline
      holds one of them and calls realloc (glibc's tst-malloc-fork-deadlock hangs jemalloc and
      tcmalloc).
   2. A page with MADV_WIPEONFORK (Linux 4.14) reads as zero in a child with memory of its own, and
      as before in one that shares ours: with the process's number that tells vfork from _Fork.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/fork.h"
#include "heap/heap.h"
#include "heap/one_thread.h"
#include "heap/os.h"
#include "heap/syscall.h"
#include "preload/collection.h"
#include "preload/exit.h"
#include "preload/output.h"
#include "preload/own_memory.h"
#include "preload/shut_in.h"
#include "sampler/memprof.h"
#include "sampler/sampler.h"

#include <pthread.h>
#include <sys/mman.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

static _Atomic int process; /* its number, 0 before start */
static atomic_uint *wiped; /* 1; NULL where the kernel cannot */

static void prepare(void)
{
    sampler_fork_prepare();
    heap_fork_prepare();
}

static void parent(void)
{
    heap_fork_parent();
    sampler_fork_parent();
}

static void child(void)
{
    shut_in_forked();
    if (!shut_in_already(SHUT_IN_LINE)) atomic_store(&process, (int)raw_syscall(SYS_getpid, 0));
    if (wiped) atomic_store(wiped, 1);
    heap_fork_child();
    sampler_fork_child();
    memprof_fork_child(!ONE_THREAD());
    output_forked();
    exit_forked();
    collection_forked();
}

void fork_start(void)
{
    atomic_store(&process, (int)raw_syscall(SYS_getpid, 0));
    void *page = own_map(OS_PAGE);
    if (page && raw_syscall(SYS_madvise, page, OS_PAGE, MADV_WIPEONFORK) == 0) {
        wiped = page;
        atomic_store(wiped, 1);
        heap_watch_forks(wiped, fork_catch_up);
    }
    pthread_atfork(prepare, parent, child);
}

enum fork_here fork_here(void)
{
    if ((int)raw_syscall(SYS_getpid, 0) == atomic_load(&process)) return FORK_SAME;
    return wiped && atomic_load(wiped) == 0 ? FORK_RAW : FORK_VFORK;
}

void fork_catch_up(void)
{
    child();
}
