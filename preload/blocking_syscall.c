/* blocking_syscall.c: waits that are made through libc's syscall(), futex above all.  Transfers
   made that way are not handled: disturb.c leaves such a thread alone.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/syscall.h"
#include "preload/blocking.h"
#include "preload/shut_in.h"

#include <linux/futex.h>
#include <stdarg.h>
#include <unistd.h>

enum timeout_form {
    NO_WAIT,
    SAME_AGAIN, /* no timeout, an absolute one, or one that the kernel itself moves on */
    RELATIVE,   /* a struct timespec */
    MILLISECONDS,
};

struct wait_form {
    enum timeout_form form;
    int argument; /* that holds the timeout */
};

static struct wait_form form_of(long nr, const long a[6])
{
    switch (nr) {
    case SYS_futex: {
        int op = (int)a[1] & FUTEX_CMD_MASK;
        if (op == FUTEX_WAIT && a[3]) return (struct wait_form){RELATIVE, 3};
        if (op == FUTEX_WAIT_BITSET) return (struct wait_form){SAME_AGAIN, 0};
        return (struct wait_form){NO_WAIT, 0};
    }
#ifdef SYS_epoll_wait
    case SYS_epoll_wait:
        return (struct wait_form){MILLISECONDS, 3};
    case SYS_poll:
        return (struct wait_form){MILLISECONDS, 2};
    case SYS_pause:
    case SYS_select:
        return (struct wait_form){SAME_AGAIN, 0};
#endif
    case SYS_epoll_pwait:
        return (struct wait_form){MILLISECONDS, 3};
    case SYS_epoll_pwait2:
        return (struct wait_form){RELATIVE, 3};
    case SYS_ppoll:
    case SYS_pselect6:
    case SYS_rt_sigsuspend:
    case SYS_semop:
    case SYS_msgrcv:
    case SYS_msgsnd:
    case SYS_io_uring_enter:
        return (struct wait_form){SAME_AGAIN, 0};
    case SYS_rt_sigtimedwait:
        return (struct wait_form){RELATIVE, 2};
    case SYS_nanosleep:
        return (struct wait_form){RELATIVE, 0};
    case SYS_clock_nanosleep:
        return a[1] & TIMER_ABSTIME ? (struct wait_form){SAME_AGAIN, 0}
                                    : (struct wait_form){RELATIVE, 2};
    case SYS_semtimedop:
        return (struct wait_form){RELATIVE, 3};
    case SYS_io_getevents:
    case SYS_io_pgetevents:
        return (struct wait_form){RELATIVE, 4};
    default:
        return (struct wait_form){NO_WAIT, 0};
    }
}

/* Nothing to look up: libc's syscall() is this very instruction. */
void blocking_syscall_start(void) {}

static COLD long wait_again(long nr, const long given[6], struct undisturbed since, int64_t began)
{
    struct wait_form form = form_of(nr, given);
    if (form.form == NO_WAIT || !eintr_was_ours(&since)) return -EINTR;
    if (began == 0) began = blocking_now(CLOCK_MONOTONIC);
    long r;
    do {
        long a[6];
        struct timespec rest;
        __builtin_memcpy(a, given, sizeof a);
        if (form.form == MILLISECONDS && (int)a[form.argument] > 0) {
            a[form.argument] = blocking_rest_ms((int)a[form.argument], began);
        } else if (form.form == RELATIVE && a[form.argument]) {
            rest = blocking_rest((const struct timespec *)a[form.argument], began);
            a[form.argument] = (long)&rest;
        }
        r = raw_syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
    } while (r == -EINTR && eintr_was_ours(&since));
    return r;
}

EXPORT long syscall(long nr, ...)
{
    long a[6];
    va_list list;
    va_start(list, nr);
    for (int i = 0; i < 6; i++) a[i] = va_arg(list, long);
    va_end(list);
    if (unlikely(shut_in_is_filter(nr, a))) return blocking_result(shut_in_call(nr, a));
    struct undisturbed since = undisturbed();
    int64_t began = 0;
    if (unlikely(since.tickets != 0) && form_of(nr, a).form >= RELATIVE) {
        began = blocking_now(CLOCK_MONOTONIC);
    }
    long r = raw_syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (unlikely(r == -EINTR)) r = wait_again(nr, a, since, began);
    return blocking_result(r);
}
