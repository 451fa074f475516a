/* alternate_stack.c: threads that share one alternate stack.

   varnishd gives all of its threads the same one, for a handler that ends the process anyway.  A stop finds several threads at once, and the
   frames of its handlers would lie on top of each other there: each thread would go on with the registers of the last.  So as soon
   as a thread asks for the stack of another that is alive, our handlers do without alternate stacks in this process.  One by
   a bare system call is not seen.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/syscall.h"
#include "preload/blocking.h"
#include "preload/process.h"
#include "preload/shut_in.h"
#include "preload/signal33.h"

#include <signal.h>

/* The latest that was asked for, and by whom; two words, of which a torn pair is at worst taken for a stack that is not shared, or for one
   that is. */
static _Atomic uintptr_t latest;
static _Atomic uint32_t owner;

static void note(uintptr_t at, uint32_t tid)
{
    uint32_t before = atomic_load(&owner);
    if (at == atomic_load(&latest) && before != 0 && before != tid &&
        raw_syscall(SYS_tgkill, raw_syscall(SYS_getpid, 0), before, 0) == 0)
        signal33_no_alternate();
    atomic_store(&owner, tid);
    atomic_store(&latest, at);
}

/* glibc's is this system call and no more. */
EXPORT int sigaltstack(const stack_t *restrict stack, stack_t *restrict old)
{
    /* What was asked for is read from the kernel, which refuses what cannot be read; and no stop comes before it is noted. */
    if (!stack || shut_in_already(SHUT_IN_COLLECT) || process_is_borrowed()) return (int)blocking_result(raw_syscall(SYS_sigaltstack, stack, old));
    const uint64_t all = ~(uint64_t)0;
    uint64_t mask = 0;
    stack_t now;
    raw_syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, &mask, sizeof mask);
    long r = raw_syscall(SYS_sigaltstack, stack, old);
    if (r == 0 && raw_syscall(SYS_sigaltstack, NULL, &now) == 0) {
        uint32_t tid = (uint32_t)raw_syscall(SYS_gettid, 0);
        if (!(now.ss_flags & SS_DISABLE)) note((uintptr_t)now.ss_sp, tid);
        else if (atomic_load(&owner) == tid) atomic_store(&owner, 0);
    }
    raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof mask);
    return (int)blocking_result(r);
}
