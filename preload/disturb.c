/* disturb.c: which blocked system calls a signal of ours must not reach.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/disturb.h"
#include "heap/os.h"
#include "heap/syscall.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

struct range {
    uintptr_t from, to;
};

/* libc's, and where it has them, libpthread's and librt's (before glibc 2.34). */
static struct range libc_text[3];
static struct range own_text, libc_syscall;

static bool within(struct range r, uint64_t p)
{
    return p >= r.from && p < r.to;
}

/* Stores the executable segments of the object that holds the address `of`. */
static bool is_of_libc(uint64_t p)
{
    return within(libc_text[0], p) || within(libc_text[1], p) || within(libc_text[2], p);
}

struct search {
    uintptr_t of;
    struct range text;
};

static int look(struct dl_phdr_info *info, size_t size, void *data)
{
    struct search *s = data;
    struct range text = {UINTPTR_MAX, 0};
    bool holds = false;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD) continue;
        struct range r = {info->dlpi_addr + p->p_vaddr, info->dlpi_addr + p->p_vaddr + p->p_memsz};
        if (within(r, s->of)) holds = true;
        if (!(p->p_flags & PF_X)) continue;
        if (r.from < text.from) text.from = r.from;
        if (r.to > text.to) text.to = r.to;
    }
    if (holds && text.to) s->text = text;
    return holds;
}

static struct range text_around(uintptr_t address)
{
    struct search s = {address, {0, 0}};
    dl_iterate_phdr(look, &s);
    return s.text;
}

void disturb_start(void)
{
    own_text = text_around((uintptr_t)disturb_start);
    static const char *const one_of_each[] = {"syscall", "pthread_create", "aio_suspend"};
    for (unsigned i = 0; i < 3; i++) {
        uintptr_t in_it = (uintptr_t)dlsym(RTLD_NEXT, one_of_each[i]);
        if (!in_it) continue;
        if (i == 0) libc_syscall = (struct range){in_it, in_it + 64}; /* 40 bytes in glibc 2.36 */
        if (!is_of_libc(in_it)) libc_text[i] = text_around(in_it);
    }
}

/* Waits, none of which SA_RESTART restarts.  (signal(7), and tried.) */
static bool is_wait(long nr)
{
    switch (nr) {
#ifdef SYS_poll
    case SYS_poll:
    case SYS_select:
    case SYS_epoll_wait:
    case SYS_pause:
#endif
    case SYS_ppoll:
    case SYS_pselect6:
    case SYS_epoll_pwait:
#ifdef SYS_epoll_pwait2
    case SYS_epoll_pwait2:
#endif
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
    case SYS_rt_sigsuspend:
    case SYS_rt_sigtimedwait:
    case SYS_semop:
    case SYS_semtimedop:
    case SYS_msgrcv:
    case SYS_msgsnd:
    case SYS_io_getevents:
#ifdef SYS_io_pgetevents
    case SYS_io_pgetevents:
#endif
#ifdef SYS_io_uring_enter
    case SYS_io_uring_enter:
#endif
        return true;
    default:
        return false;
    }
}

/* Transfers, of which a part may be returned. */
static bool is_transfer(long nr)
{
    switch (nr) {
    case SYS_write:
    case SYS_writev:
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_sendmmsg:
    case SYS_sendfile:
    case SYS_splice:
    case SYS_vmsplice:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_recvmmsg:
    case SYS_accept:
    case SYS_accept4:
    case SYS_connect:
        return true;
    default:
        return false;
    }
}

/* Does the stack above `sp` hold a return address of ours?  libc's frames below a wrapper are well
   under a KiB.  Read by a system call, since the stack may vanish meanwhile. */
static bool in_wrapper(uint64_t sp)
{
    uintptr_t words[128];
    size_t to_page_end = 4096 - (sp & 4095); /* a shorter read beats none at the stack's end */
    long n = os_read_own(words, (uintptr_t)sp, sizeof words);
    if (n < 0 && to_page_end < sizeof words) n = os_read_own(words, (uintptr_t)sp, to_page_end);
    for (long i = 0; i < n / (long)sizeof words[0]; i++) {
        if (within(own_text, words[i])) return true;
    }
    return false;
}

/* glibc's thread of the timers that start threads (nptl/timer_routines.c) waits, in a loop, for the signal that it keeps to itself;
   no program can wait for that. */
static bool is_timer_thread(const struct task_call *call)
{
    uint64_t set = 0;
    return call->number == SYS_rt_sigtimedwait && is_of_libc(call->pc) &&
           os_read_own(&set, (uintptr_t)call->arguments[0], sizeof set) == sizeof set &&
           set == (uint64_t)1 << (32 - 1);
}

bool disturb_would_show(const struct task_call *call)
{
    if (call->number < 0 || !libc_text[0].to) return false;
    bool of_libc = is_of_libc(call->pc), in_libc = of_libc && !within(libc_syscall, call->pc);
    /* A wrapper calls libc, or makes the call itself.  A call from anywhere else has none, whatever old return addresses lie on
       its stack. */
    bool wrapped = within(own_text, call->pc) || (of_libc && in_wrapper(call->sp));
    if (call->number == SYS_futex) {
        /* libc goes back to sleep by itself; sem_timedwait is wrapped.  Without a timeout the
           kernel restarts. */
        return !in_libc && !wrapped && call->arguments[3] != 0;
    }
    /* In libc: stdio, which writes the rest itself. */
    if (is_transfer(call->number)) return !in_libc && !wrapped;
    /* Our own syscall() (blocking_syscall.c) hides waits, not transfers. */
    return is_wait(call->number) && !wrapped && !is_timer_thread(call);
}
