/* handlers.c: the interposed sigaction family.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/handlers.h"
#include "heap/syscall.h"
#include "preload/blocking.h"
#include "preload/process.h"

#include <signal.h>
#include <string.h>

#define SIGNALS 65

typedef void plain_handler(int);
typedef void info_handler(int, siginfo_t *, void *);

THREAD_LOCAL volatile uint32_t handlers_ran;

static _Atomic(plain_handler *) plain[SIGNALS];
static _Atomic(info_handler *) with_info[SIGNALS];

static int (*real_sigaction)(int, const struct sigaction *, struct sigaction *);
static plain_handler *(*real_signal)(int, plain_handler *);
static plain_handler *(*real_sysv_signal)(int, plain_handler *);
static plain_handler *(*real_sigset)(int, plain_handler *);

/* The three arguments are passed on in either form: the kernel fills all three registers always.
   The calls are tail calls. */
static void enter_plain(int sig, siginfo_t *info, void *context)
{
    handlers_ran++;
    ((info_handler *)(void *)atomic_load_explicit(&plain[sig], memory_order_relaxed))(sig, info,
                                                                                      context);
}

static void enter_with_info(int sig, siginfo_t *info, void *context)
{
    handlers_ran++;
    atomic_load_explicit(&with_info[sig], memory_order_relaxed)(sig, info, context);
}

void handlers_start(void)
{
    real_sigaction = blocking_real("sigaction");
    real_signal = blocking_real("signal");
    real_sysv_signal = blocking_real("__sysv_signal");
    real_sigset = blocking_real("sigset");
}

static bool is_function(plain_handler *h)
{
    return h != SIG_DFL && h != SIG_IGN && h != SIG_ERR && h != SIG_HOLD;
}

/* Kernel's form of a handler: our entry, with the slot filled. */
static void hide_behind_entry(int sig, struct sigaction *a)
{
    if (a->sa_flags & SA_SIGINFO) {
        /* Our own entry, read by a raw call and given back. */
        if (a->sa_sigaction != enter_with_info) atomic_store(&with_info[sig], a->sa_sigaction);
        a->sa_sigaction = enter_with_info;
    } else {
        if (a->sa_handler != (plain_handler *)(void *)enter_plain) {
            atomic_store(&plain[sig], a->sa_handler);
        }
        a->sa_handler = (plain_handler *)(void *)enter_plain;
    }
}

static plain_handler *shown(int sig, plain_handler *h, info_handler *former_info,
                            plain_handler *former_plain)
{
    if (h == (plain_handler *)(void *)enter_plain) return former_plain;
    if (h == (plain_handler *)(void *)enter_with_info) return (plain_handler *)(void *)former_info;
    return h;
}

static int do_sigaction(int sig, const struct sigaction *action, struct sigaction *old)
{
    if (unlikely(!real_sigaction)) {
        handlers_start();
        if (!real_sigaction) return errno = ENOSYS, -1;
    }
    if (sig < 1 || sig >= SIGNALS) return real_sigaction(sig, action, old);
    info_handler *former_info = atomic_load(&with_info[sig]);
    plain_handler *former_plain = atomic_load(&plain[sig]);
    struct sigaction changed;
    if (action && is_function(action->sa_handler) && !process_is_borrowed()) {
        changed = *action;
        hide_behind_entry(sig, &changed);
        action = &changed;
    }
    int r = real_sigaction(sig, action, old);
    if (r != 0 && action == &changed) { /* refused (SIGKILL, or libc's own): the slots are unused */
        atomic_store(&with_info[sig], former_info);
        atomic_store(&plain[sig], former_plain);
    }
    if (r == 0 && old) old->sa_handler = shown(sig, old->sa_handler, former_info, former_plain);
    return r;
}

EXPORT int sigaction(int sig, const struct sigaction *action, struct sigaction *old)
{
    return do_sigaction(sig, action, old);
}

int __sigaction(int, const struct sigaction *, struct sigaction *);
EXPORT int __sigaction(int sig, const struct sigaction *action, struct sigaction *old)
{
    return do_sigaction(sig, action, old);
}

/* The older functions differ in flags and mask only, which stay libc's business. */
static plain_handler *old_style(plain_handler *(*real)(int, plain_handler *), int sig,
                                plain_handler *handler)
{
    if (unlikely(!real)) {
        errno = ENOSYS;
        return SIG_ERR;
    }
    if (sig < 1 || sig >= SIGNALS) return real(sig, handler);
    info_handler *former_info = atomic_load(&with_info[sig]);
    plain_handler *former_plain = atomic_load(&plain[sig]);
    bool counted = is_function(handler) && !process_is_borrowed();
    if (counted && handler != (plain_handler *)(void *)enter_plain) {
        atomic_store(&plain[sig], handler);
    }
    plain_handler *r = real(sig, counted ? (plain_handler *)(void *)enter_plain : handler);
    if (r == SIG_ERR) {
        if (counted) atomic_store(&plain[sig], former_plain);
        return r;
    }
    return shown(sig, r, former_info, former_plain);
}

EXPORT plain_handler *signal(int sig, plain_handler *h)
{
    if (unlikely(!real_signal)) handlers_start();
    return old_style(real_signal, sig, h);
}

plain_handler *bsd_signal(int, plain_handler *);
EXPORT plain_handler *bsd_signal(int sig, plain_handler *h)
{
    return signal(sig, h);
}
EXPORT plain_handler *ssignal(int sig, plain_handler *h)
{
    return signal(sig, h);
}

EXPORT plain_handler *__sysv_signal(int sig, plain_handler *h)
{
    if (unlikely(!real_sysv_signal)) handlers_start();
    return old_style(real_sysv_signal, sig, h);
}

EXPORT plain_handler *sysv_signal(int sig, plain_handler *h)
{
    return __sysv_signal(sig, h);
}

EXPORT plain_handler *sigset(int sig, plain_handler *h)
{
    if (unlikely(!real_sigset)) handlers_start();
    return old_style(real_sigset, sig, h);
}
