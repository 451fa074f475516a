/* shut_in.c: see shut_in.h.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/shut_in.h"
#include "heap/print.h"
#include "heap/syscall.h"
#include "preload/blocking.h"
#include "preload/collection.h"
#include "preload/process.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#ifdef __x86_64__
#define ARCHITECTURE AUDIT_ARCH_X86_64
#else
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

#define ALL (SHUT_IN_LINE | SHUT_IN_PROFILE | SHUT_IN_COLLECT)

/* What the filters that are up kill for, and above that how many calls are on their way that put up one: threads may each have their own, and
   put them up at the same moment.  While there is any, nothing is begun. */
#define ON_ITS_WAY (ALL + 1u)
static _Atomic unsigned kills;

bool shut_in(unsigned any_of)
{
    unsigned now = atomic_load_explicit(&kills, memory_order_relaxed);
    return unlikely(now != 0) && (now >= ON_ITS_WAY || (now & any_of));
}

bool shut_in_already(unsigned any_of)
{
    return unlikely(atomic_load_explicit(&kills, memory_order_relaxed) & any_of);
}

void shut_in_forked(void) { atomic_fetch_and(&kills, ALL); }

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

/* The action for a call.  The kernel has checked the program: jumps go forward and inside, loads are aligned and in bounds, the
   last instruction returns. */
static uint32_t action_for(const struct sock_fprog *filter, const struct seccomp_data *call)
{
    uint32_t a = 0, x = 0, memory[BPF_MEMWORDS] = {0};
    for (unsigned at = 0; at < filter->len; at++) {
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

/* A trap counts: the program's handler takes it for an intruder, and our calls are made where signals are blocked.  So does a
   supervisor's answer that may never come. */
static bool spares(const struct sock_fprog *filter, const struct seccomp_data *call)
{
    switch (action_for(filter, call) & SECCOMP_RET_ACTION_FULL) {
    case SECCOMP_RET_ERRNO:
    case SECCOMP_RET_TRACE:
    case SECCOMP_RET_LOG:
    case SECCOMP_RET_ALLOW: return true;
    default: return false;
    }
}

/* What each of ours takes, with arguments that filters look at; pointers are 0.  Each needs what those above it need. */
static const struct {
    unsigned for_what;
    int nr;
    unsigned long a[4];
} needed[] = {
    {SHUT_IN_LINE, SYS_getpid, {0}},
    {SHUT_IN_LINE, SYS_write, {2}},
    {SHUT_IN_LINE, SYS_rt_sigprocmask, {SIG_BLOCK, 0, 0, 8}},
    {SHUT_IN_LINE, SYS_rt_sigpending, {0}}, /* where it fails (quiet_write): sshd's worker may write nothing, by RLIMIT_FSIZE */
    {SHUT_IN_LINE, SYS_rt_sigtimedwait, {0}},
    {SHUT_IN_PROFILE, SYS_openat, {(unsigned)AT_FDCWD, 0, O_RDONLY | O_CLOEXEC}},
    {SHUT_IN_PROFILE, SYS_openat, {(unsigned)AT_FDCWD, 0, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600}},
    {SHUT_IN_PROFILE, SYS_read, {3}},
    {SHUT_IN_PROFILE, SYS_write, {3}},
    {SHUT_IN_PROFILE, SYS_close, {3}},
    {SHUT_IN_PROFILE, SYS_fstat, {3}},
    {SHUT_IN_PROFILE, SYS_fcntl, {3, F_GETFD}},
    {SHUT_IN_PROFILE, SYS_newfstatat, {(unsigned)AT_FDCWD}},
    {SHUT_IN_PROFILE, SYS_readlinkat, {(unsigned)AT_FDCWD}},
    {SHUT_IN_PROFILE, SYS_renameat2, {(unsigned)AT_FDCWD, 0, (unsigned)AT_FDCWD}},
    {SHUT_IN_PROFILE, SYS_unlinkat, {(unsigned)AT_FDCWD}},
    {SHUT_IN_PROFILE, SYS_uname, {0}},
    {SHUT_IN_PROFILE, SYS_getppid, {0}},
    {SHUT_IN_PROFILE, SYS_mmap, {0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS}},
    {SHUT_IN_PROFILE, SYS_munmap, {0, 4096}},
    {SHUT_IN_COLLECT, SYS_clone, {CLONE_FILES | CLONE_UNTRACED}},
    {SHUT_IN_COLLECT, SYS_clone, {CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM}},
    {SHUT_IN_COLLECT, SYS_exit, {0}},
    {SHUT_IN_COLLECT, SYS_exit_group, {0}},
    {SHUT_IN_COLLECT, SYS_close_range, {0, ~0U, CLOSE_RANGE_UNSHARE}},
    {SHUT_IN_COLLECT, SYS_wait4, {0}},
    {SHUT_IN_COLLECT, SYS_gettid, {0}},
    {SHUT_IN_COLLECT, SYS_futex, {0, 0 /* FUTEX_WAIT */}},
    {SHUT_IN_COLLECT, SYS_futex, {0, 1 /* FUTEX_WAKE */}},
    {SHUT_IN_COLLECT, SYS_nanosleep, {0}},
    {SHUT_IN_COLLECT, SYS_getdents64, {3}},
    {SHUT_IN_COLLECT, SYS_pread64, {3}},
    {SHUT_IN_COLLECT, SYS_process_vm_readv, {1}},
    {SHUT_IN_COLLECT, SYS_ioctl, {3, 0xc0606610 /* PAGEMAP_SCAN */}},
    {SHUT_IN_COLLECT, SYS_mincore, {0, 4096}},
    {SHUT_IN_COLLECT, SYS_mmap, {0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE}},
    {SHUT_IN_COLLECT, SYS_madvise, {0, 4096, MADV_DONTNEED}},
    {SHUT_IN_COLLECT, SYS_rt_tgsigqueueinfo, {1, 1, 33}},
    {SHUT_IN_COLLECT, SYS_tgkill, {1, 1}},
    {SHUT_IN_COLLECT, SYS_sched_yield, {0}},
    {SHUT_IN_COLLECT, SYS_rt_sigaction, {33}},
    {SHUT_IN_COLLECT, SYS_sigaltstack, {0}},
    {SHUT_IN_COLLECT, SYS_setpriority, {0}},
    {SHUT_IN_COLLECT, SYS_sched_getaffinity, {0}},
    {SHUT_IN_COLLECT, SYS_prlimit64, {0}},
    {SHUT_IN_COLLECT, SYS_sysinfo, {0}},
    {SHUT_IN_COLLECT, SYS_kill, {1, SIGKILL}},
};

static unsigned kills_for(const struct sock_fprog *filter)
{
    unsigned all = 0;
    for (unsigned i = 0; i < sizeof needed / sizeof *needed; i++) {
        struct seccomp_data call = {.nr = needed[i].nr, .arch = ARCHITECTURE};
        for (unsigned n = 0; n < 4; n++) call.args[n] = needed[i].a[n];
        if (!spares(filter, &call)) all |= needed[i].for_what;
    }
    if (all & SHUT_IN_LINE) all |= SHUT_IN_PROFILE;
    if (all & SHUT_IN_PROFILE) all |= SHUT_IN_COLLECT;
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

long shut_in_call(long nr, const long a[6])
{
    /* A child that borrows our memory filters only itself.  And nothing is added to all: not even who we are may then be asked. */
    if ((atomic_load(&kills) & ALL) == ALL || process_is_borrowed()) return raw_syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
    bool strict = a[0] == (nr == SYS_prctl ? (long)PR_SET_SECCOMP : (long)SECCOMP_SET_MODE_STRICT) &&
                  (nr != SYS_prctl || a[1] == SECCOMP_MODE_STRICT);
    if (!(atomic_fetch_add(&kills, ON_ITS_WAY) & SHUT_IN_COLLECT)) collection_settle();
    long result = raw_syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
    /* Now the filter is known to be readable: programs ask with NULL whether there are filters. */
    if (installed(nr, a, result)) atomic_fetch_or(&kills, strict ? ALL : kills_for((const struct sock_fprog *)a[2]));
    atomic_fetch_sub(&kills, ON_ITS_WAY);
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
