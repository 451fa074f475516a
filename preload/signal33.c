/* signal33.c: installing, checking and chaining the handler of signal 33.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/signal33.h"
#include "heap/syscall.h"
#include "preload/dump.h"
#include "preload/process.h"
#include "preload/restart.h"
#include "preload/shut_in.h"
#include "preload/stop.h"

#include <signal.h>

/* The kernel's struct sigaction, which differs from libc's. */
struct kernel_sigaction {
    void *handler;
    unsigned long flags;
#if defined(__x86_64__)
    void (*restorer)(void);
#endif
    uint64_t mask;
};

#define SA_RESTORER_ 0x04000000ul

#if defined(__x86_64__)
/* Byte for byte what unwinders and debuggers look for behind a signal frame (libgcc's
   md-unwind-support, gdb's amd64-linux-tdep). */
void signal33_restorer(void);
__asm__(".text\n"
        ".p2align 4\n"
        "nop\n"
        ".type signal33_restorer,@function\n"
        ".hidden signal33_restorer\n"
        ".globl signal33_restorer\n"
        "signal33_restorer:\n"
        "    mov $15, %rax\n"
        "    syscall\n"
        ".size signal33_restorer, .-signal33_restorer\n");
#endif

/* What to call for a 33 that is not ours: glibc's handler, or that of whoever came before. */
static _Atomic(void *) chained;
static atomic_bool started;

static long raw_sigaction(int sig, const struct kernel_sigaction *to, struct kernel_sigaction *from)
{
    return raw_syscall(SYS_rt_sigaction, sig, to, from, 8);
}

static void on_signal33(int sig, void *info_, void *context)
{
    siginfo_t *info = info_;
    uint64_t value = (uint64_t)(uintptr_t)info->si_value.sival_ptr;
    if (info->si_code == SI_QUEUE && value >> 48 == SIGNAL33_MAGIC) {
        if (shut_in_already(SHUT_IN_COLLECT)) return; /* a late one */
        if ((value >> 40 & 0xff) == SIGNAL33_STOP) {
            stop_arrived((uint32_t)value, context);
        } else {
            dump_request(value, (uint32_t)info->si_uid, context);
        }
        restart_or_interrupt(context);
        return;
    }
    void *next = atomic_load(&chained);
    if (next) ((void (*)(int, siginfo_t *, void *))next)(sig, info, context);
}

static atomic_bool no_alternate; /* alternate_stack.c */

void signal33_no_alternate(void)
{
    if (atomic_exchange(&no_alternate, true) || !atomic_load(&started) || atomic_load(&process->in_exec)) return;
    if (signal33_installed()) signal33_raw_install(SIGNAL33, on_signal33);
}

long signal33_raw_install(int sig, void (*handler)(int, void *, void *))
{
    struct kernel_sigaction to = {.handler = (void *)handler,
                                  .flags = SA_SIGINFO | SA_RESTART | (atomic_load(&no_alternate) ? 0 : SA_ONSTACK),
                                  .mask = ~(uint64_t)0};
#if defined(__x86_64__)
    to.flags |= SA_RESTORER_;
    to.restorer = signal33_restorer;
#endif
    return raw_sigaction(sig, &to, NULL);
}

bool signal33_action(int sig, struct signal33_action *to)
{
    struct kernel_sigaction now;
    if (raw_sigaction(sig, NULL, &now) != 0) return false;
    *to = (struct signal33_action){now.handler, now.flags};
    return true;
}

bool signal33_installed(void)
{
    struct kernel_sigaction now;
    return raw_sigaction(SIGNAL33, NULL, &now) == 0 && now.handler == (void *)on_signal33;
}

static bool install(void)
{
    struct kernel_sigaction now;
    if (raw_sigaction(SIGNAL33, NULL, &now) != 0) return false;
    if (now.handler == (void *)on_signal33) return true;
    /* SIG_IGN comes from a Gleaner, or from posix_spawn, before the exec that made us. */
    if (now.handler != (void *)SIG_DFL && now.handler != (void *)SIG_IGN) {
        atomic_store(&chained, now.handler);
    }
    return signal33_raw_install(SIGNAL33, on_signal33) == 0;
}

bool signal33_start(void)
{
    if (!install()) return false;
    /* A full mask comes through exec with 33 in it; libc's sigprocmask would leave
       it so. */
    uint64_t just33 = (uint64_t)1 << (SIGNAL33 - 1);
    raw_syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &just33, 0, 8);
    atomic_store(&started, true);
    return true;
}

void signal33_check(void)
{
    if (!atomic_load_explicit(&started, memory_order_relaxed) || shut_in_already(SHUT_IN_COLLECT)) return;
    if (atomic_load(&process->in_exec) || signal33_installed() || process_is_borrowed()) return;
    install();
    /* An exec that began in between has ignored 33 before this: let it be ignored again. */
    if (atomic_load(&process->in_exec))
        signal33_raw_install(SIGNAL33, (void (*)(int, void *, void *))(void *)SIG_IGN);
}

void signal33_exec_begin(void)
{
    if (!atomic_load(&started)) return;
    if (!process_is_borrowed()) atomic_store(&process->in_exec, 1);
    signal33_raw_install(SIGNAL33, (void (*)(int, void *, void *))(void *)SIG_IGN);
}

void signal33_exec_failed(void)
{
    if (!atomic_load(&started)) return;
    signal33_raw_install(SIGNAL33, on_signal33);
    if (!process_is_borrowed()) atomic_store(&process->in_exec, 0);
}

long signal33_send(int tid, uint64_t value)
{
    siginfo_t info = {0};
    info.si_signo = SIGNAL33;
    info.si_code = SI_QUEUE;
    info.si_pid = (int)raw_syscall(SYS_getpid, 0);
    info.si_uid = (unsigned)raw_syscall(SYS_getuid, 0);
    info.si_value.sival_ptr = (void *)(uintptr_t)value;
    return raw_syscall(SYS_rt_tgsigqueueinfo, info.si_pid, tid, SIGNAL33, &info);
}
