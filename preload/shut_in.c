/* shut_in.c: see shut_in.h.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/shut_in.h"
#include "heap/print.h"
#include "heap/syscall.h"
#include "preload/blocking.h"
#include "preload/collection.h"
#include "preload/control_page.h"
#include "preload/dump_signal.h"
#include "preload/process.h"
#include "preload/shut_in_calls.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdarg.h>

#ifdef __x86_64__
#define ARCHITECTURE AUDIT_ARCH_X86_64
#else
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

/* Read, write, exit and a handler's return, and nothing else. */
#define STRICT (OS_WITHHELD_ALL | OS_WITHHELD_ABOVE(SHUT_IN_LINE | SHUT_IN_PROFILE | SHUT_IN_COLLECT))

/* While filters are on their way nothing is begun. */
bool shut_in(unsigned any_of) { return os_withhold_is_under_way() || shut_in_already(any_of); }
bool shut_in_already(unsigned any_of) { return os_withheld(OS_WITHHELD_ABOVE(any_of)); }
void shut_in_forked(void) { os_withhold_forked(); }

void shut_in_say(void)
{
    static atomic_bool said;
    if (shut_in(SHUT_IN_LINE) || atomic_exchange(&said, true)) return;
    print_fd(2, "gleaner: no profile of this process: a seccomp filter of its own would kill it for writing one\n");
}

/* ---- what a filter says ---- */

/* As the kernel's: shifts are by the lower five bits (bpf_convert_filter of net/core/filter.c makes them the machine's). */
static uint32_t operation(uint16_t code, uint32_t a, uint32_t b)
{
    switch (BPF_OP(code)) {
    case BPF_ADD: return a + b;
    case BPF_SUB: return a - b;
    case BPF_MUL: return a * b;
    case BPF_DIV: return a / b;
    case BPF_OR: return a | b;
    case BPF_AND: return a & b;
    case BPF_XOR: return a ^ b;
    case BPF_LSH: return a << (b & 31);
    case BPF_RSH: return a >> (b & 31);
    default: return -a; /* BPF_NEG */
    }
}

static bool holds(uint16_t code, uint32_t a, uint32_t b)
{
    switch (BPF_OP(code)) {
    case BPF_JEQ: return a == b;
    case BPF_JGT: return a > b;
    case BPF_JGE: return a >= b;
    default: return a & b; /* BPF_JSET */
    }
}

/* The action for a call.  What the kernel would refuse (loads out of bounds, a program that does not return) is harmless here, and ends. */
static uint32_t action_for(const struct sock_fprog *filter, const struct seccomp_data *call)
{
    uint32_t a = 0, x = 0, memory[BPF_MEMWORDS] = {0};
    for (size_t at = 0; at < filter->len; at++) {
        const struct sock_filter *i = &filter->filter[at];
        uint32_t operand = BPF_SRC(i->code) == BPF_X ? x : i->k;
        switch (BPF_CLASS(i->code)) {
        case BPF_LD:
        case BPF_LDX: {
            uint32_t value = i->k;
            if (BPF_MODE(i->code) == BPF_ABS && i->k <= sizeof *call - sizeof value)
                __builtin_memcpy(&value, (const char *)call + i->k, sizeof value);
            else if (BPF_MODE(i->code) == BPF_LEN) value = sizeof *call;
            else if (BPF_MODE(i->code) == BPF_MEM) value = memory[i->k % BPF_MEMWORDS];
            if (BPF_CLASS(i->code) == BPF_LD) a = value;
            else x = value;
            break;
        }
        case BPF_ST: memory[i->k % BPF_MEMWORDS] = a; break;
        case BPF_STX: memory[i->k % BPF_MEMWORDS] = x; break;
        case BPF_ALU:
            if (BPF_OP(i->code) == BPF_DIV && operand == 0) return SECCOMP_RET_KILL_THREAD; /* a filter that divides by 0 returns 0 */
            a = operation(i->code, a, operand);
            break;
        case BPF_JMP:
            if (BPF_OP(i->code) == BPF_JA) at += i->k;
            else at += holds(i->code, a, operand) ? i->jt : i->jf;
            break;
        case BPF_RET: return BPF_RVAL(i->code) == BPF_A ? a : i->k;
        case BPF_MISC:
            if (BPF_MISCOP(i->code) == BPF_TAX) x = a;
            else a = x;
            break;
        }
    }
    return SECCOMP_RET_KILL_PROCESS;
}

/* Calls for which an error is as bad: who wakes nobody, waits for nobody, closes nothing or comes back from an end does harm of another kind, and
   of what these look at nothing would be known. */
static bool must_succeed(int nr)
{
    switch (nr) {
    case SYS_getpid:
    case SYS_gettid:
    case SYS_clock_gettime:
    case SYS_rt_sigprocmask:
    case SYS_rt_sigreturn:
    case SYS_futex:
    case SYS_exit:
    case SYS_exit_group:
    case SYS_wait4:
    case SYS_close:
    case SYS_mmap: /* hints instead of places */
    case SYS_madvise:
    case SYS_munmap: return true;
    default: return false;
    }
}

enum answer { ALLOWED, REFUSED, KILLED };

/* A trap counts as a kill: the program's handler takes it for an intruder, and our calls are made where signals are blocked.  So does a
   supervisor's answer that may never come. */
static enum answer answer_to(const struct sock_fprog *filter, const struct shut_in_call *c)
{
    struct seccomp_data call = {.nr = c->nr, .arch = ARCHITECTURE};
    for (unsigned n = 0; n < 6; n++) call.args[n] = (uint64_t)c->a[n];
    switch (action_for(filter, &call) & SECCOMP_RET_ACTION_FULL) {
    case SECCOMP_RET_LOG:
    case SECCOMP_RET_ALLOW: return ALLOWED;
    case SECCOMP_RET_ERRNO:
    case SECCOMP_RET_TRACE: return must_succeed(c->nr) ? KILLED : REFUSED;
    default: return KILLED;
    }
}

static unsigned kills_for(const struct sock_fprog *filter)
{
    unsigned all = 0;
    enum answer before = ALLOWED;
    for (unsigned i = 0; i < sizeof shut_in_calls / sizeof *shut_in_calls; i++) {
        const struct shut_in_call *c = &shut_in_calls[i];
        if ((c->why & SHUT_IN_INSTEAD) && before == ALLOWED) continue;
        before = answer_to(filter, c);
        if (before == KILLED) all |= c->why & ~SHUT_IN_INSTEAD;
    }
    if (all & OS_WITHHELD_ABOVE(SHUT_IN_LINE)) all |= OS_WITHHELD_ABOVE(SHUT_IN_PROFILE);
    if (all & OS_WITHHELD_ABOVE(SHUT_IN_PROFILE)) all |= OS_WITHHELD_ABOVE(SHUT_IN_COLLECT);
    return all;
}

/* ---- on its way ---- */

bool shut_in_is_filter(long nr, const long a[6])
{
    if (nr == SYS_prctl) return a[0] == PR_SET_SECCOMP;
    return nr == SYS_seccomp && (a[0] == SECCOMP_SET_MODE_STRICT || a[0] == SECCOMP_SET_MODE_FILTER);
}

static bool installed(long nr, const long a[6], long result)
{
    if (result == 0) return true;
    /* A descriptor, but not the number of a thread that could not follow. */
    return result > 0 && nr == SYS_seccomp && (a[1] & SECCOMP_FILTER_FLAG_NEW_LISTENER) != 0;
}

/* What cannot be read the kernel refuses. */
static bool can_read(const void *from, size_t bytes)
{
    uintptr_t at = (uintptr_t)from, last = at + bytes - 8;
    if (last < at || !os_can_read(last)) return false;
    for (; at < last; at = (at & ~(OS_PAGE - 1)) + OS_PAGE)
        if (!os_can_read(at)) return false;
    return true;
}

static bool can_read_filter(const struct sock_fprog *filter)
{
    return can_read(filter, sizeof *filter) && filter->len > 0 && filter->len <= BPF_MAXINSNS &&
           can_read(filter->filter, filter->len * sizeof *filter->filter);
}

/* Where nothing is answered nobody is to ask: no handler may be able to return, and libc, whose first thread brings its own handler of signal 33,
   looks in it who it is. */
static void leave_signals(void)
{
    control_page_end();
    dump_signal_ignore(true);
}

static void take_signals(void)
{
    dump_signal_ignore(false);
    control_page_start();
}

long shut_in_call(long nr, const long a[6])
{
    /* A child that borrows our memory filters only itself. */
    if (process_is_borrowed()) return raw_syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
    bool strict = a[0] == (nr == SYS_prctl ? (long)PR_SET_SECCOMP : (long)SECCOMP_SET_MODE_STRICT) &&
                  (nr != SYS_prctl || a[1] == SECCOMP_MODE_STRICT);
    const struct sock_fprog *filter = (const struct sock_fprog *)a[2];
    bool collects = !shut_in_already(SHUT_IN_COLLECT);
    os_withhold_begin();
    if (collects) collection_settle();
    /* What it kills for is known before it is up: a handler may run in between, malloc in another thread. */
    bool known = strict || (!shut_in_already(SHUT_IN_LINE) && can_read_filter(filter));
    unsigned more = strict ? STRICT : known ? kills_for(filter) : 0;
    bool leave = collects && (more & OS_WITHHELD_ABOVE(SHUT_IN_COLLECT));
    if (leave) leave_signals();
    os_withhold_meanwhile(more & ~(unsigned)OS_MAPPING); /* that it is refused must not make malloc fail */
    long result = raw_syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
    bool is_up = installed(nr, a, result);
    if (is_up && !known) more = kills_for(filter);
    if (leave && !is_up) take_signals();
    os_withhold_end(is_up ? more : 0);
    return result;
}

/* glibc's is this system call and no more. */
EXPORT int prctl(int option, ...)
{
    long a[6] = {option};
    va_list list;
    va_start(list, option);
    for (int i = 1; i < 5; i++) a[i] = va_arg(list, long);
    va_end(list);
    long r = shut_in_is_filter(SYS_prctl, a) ? shut_in_call(SYS_prctl, a)
                                             : raw_syscall6(SYS_prctl, a[0], a[1], a[2], a[3], a[4], 0);
    return (int)blocking_result(r);
}
