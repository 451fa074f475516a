/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/os.h"
#include "heap/syscall.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/auxv.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static atomic_uint fail_skip, fail_count;

void os_fail_mappings(unsigned skip, unsigned n)
{
    atomic_store(&fail_skip, skip);
    atomic_store(&fail_count, n);
}

static bool told_to_fail(void)
{
    if (likely(atomic_load_explicit(&fail_count, memory_order_relaxed) == 0)) return false;
    if (atomic_load(&fail_skip) > 0) {
        atomic_fetch_sub(&fail_skip, 1);
        return false;
    }
    atomic_fetch_sub(&fail_count, 1);
    return true;
}

/* For good in the lower half; above that what is withheld meanwhile, and in the highest byte for how many filters. */
#define MEANWHILE 28
#define FOR_GOOD (((uint64_t)1 << MEANWHILE) - 1)
#define ONE_MORE ((uint64_t)1 << 2 * MEANWHILE)
static _Atomic uint64_t withheld;

bool os_withheld(unsigned any_of)
{
    uint64_t now = atomic_load_explicit(&withheld, memory_order_relaxed);
    return unlikely(now != 0) && ((now | now >> MEANWHILE) & any_of & FOR_GOOD);
}

bool os_withhold_is_under_way(void) { return unlikely(atomic_load_explicit(&withheld, memory_order_relaxed) >= ONE_MORE); }
void os_withhold_begin(void) { atomic_fetch_add(&withheld, ONE_MORE); }
void os_withhold_meanwhile(unsigned what) { atomic_fetch_or(&withheld, (what & FOR_GOOD) << MEANWHILE); }
void os_withhold_forked(void) { atomic_fetch_and(&withheld, FOR_GOOD); }

static bool is_error(long r) { return (unsigned long)r > -4096UL; }

bool os_map_at(void *address, size_t bytes, bool *occupied)
{
    if (occupied) *occupied = false;
    if (told_to_fail() || os_withheld(OS_MAPPING)) return false;
    long r = raw_syscall(SYS_mmap, address, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | (os_withheld(OS_PLACING) ? 0 : MAP_FIXED_NOREPLACE), -1, 0);
    if (r == (long)address) return true;
    if (!is_error(r)) { /* before Linux 4.17 the flag is unknown and the address was a hint */
        os_unmap((void *)r, bytes);
        r = -EEXIST;
    }
    if (occupied) *occupied = r == -EEXIST;
    return false;
}

void *os_map(size_t bytes)
{
    if (told_to_fail() || os_withheld(OS_MAPPING)) return NULL;
    long r = raw_syscall(SYS_mmap, 0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return is_error(r) ? NULL : (void *)r;
}

void os_unmap(void *address, size_t bytes)
{
    if (os_withheld(OS_UNMAPPING)) os_discard(address, bytes);
    else raw_syscall(SYS_munmap, address, bytes);
}

long os_advise(void *address, size_t bytes, int advice)
{
    return os_withheld(OS_ADVICE) ? -EPERM : raw_syscall(SYS_madvise, address, bytes, advice);
}

void os_discard(void *address, size_t bytes)
{
    if (os_withheld(OS_ADVICE)) os_replace(address, bytes);
    else os_advise(address, bytes, MADV_DONTNEED);
}

long os_move(void *from, size_t n, size_t bytes, int flags, void *to)
{
    return os_withheld(OS_MOVING) ? -EPERM : raw_syscall(SYS_mremap, from, n, bytes, flags, to);
}

bool os_replace(void *address, size_t bytes)
{
    return !os_withheld(OS_REPLACING) &&
           raw_syscall(SYS_mmap, address, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == (long)address;
}

long os_read_own(void *to, uintptr_t from, size_t bytes)
{
    struct iovec there = {to, bytes}, here = {(void *)from, bytes};
    return raw_syscall(SYS_process_vm_readv, raw_syscall(SYS_getpid, 0), &there, 1, &here, 1, 0);
}

void os_prefer_huge(void *address, size_t bytes)
{
    os_advise(address, bytes, MADV_HUGEPAGE);
}

void os_populate(void *address, size_t bytes)
{
    os_advise(address, bytes, MADV_POPULATE_WRITE);
}

/* The kernel copies the set in before it looks at the bad `how`, so EFAULT tells.  The trick is
   Abseil's (address_is_readable.cc); unlike pipes or process_vm_readv it needs no descriptor and is
   allowed by every seccomp filter that lets libc run. */
bool os_can_read(uintptr_t address)
{
    return !os_withheld(OS_LOOKING) && raw_syscall(SYS_rt_sigprocmask, -1L, address, 0L, 8L) != -EFAULT;
}

static bool is_real(clockid_t clock) { return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE; }

static int clock_by_call(clockid_t clock, struct timespec *to)
{
    static _Atomic uint64_t latest[2]; /* of the clocks that are not real, and of those that are */
    _Atomic uint64_t *last = &latest[is_real(clock)];
    if (os_withheld(OS_CLOCK)) {
        uint64_t t = atomic_load(last);
        *to = (struct timespec){(time_t)(t / 1000000000u), (long)(t % 1000000000u)};
        return 0;
    }
    int r = (int)raw_syscall(SYS_clock_gettime, clock, to);
    if (r == 0) atomic_store(last, (uint64_t)to->tv_sec * 1000000000u + (uint64_t)to->tv_nsec);
    return r;
}

os_clock_function *os_clock = clock_by_call;
static os_clock_function *of_vdso;

void os_clock_is(os_clock_function *function)
{
    if (function) os_clock = of_vdso = function;
}

/* The vDSO asks the kernel where a program cannot read the machine's clock; never for these two. */
static int clock_coarse(clockid_t clock, struct timespec *to)
{
    return of_vdso(is_real(clock) ? CLOCK_REALTIME_COARSE : CLOCK_MONOTONIC_COARSE, to);
}

void os_withhold_end(unsigned what)
{
    uint64_t now = atomic_load(&withheld), next;
    do {
        next = (now - ONE_MORE) | (what & FOR_GOOD);
        if (next < ONE_MORE) next &= FOR_GOOD;
    } while (!atomic_compare_exchange_weak(&withheld, &now, next));
    if ((what & OS_CLOCK) && of_vdso) os_clock = clock_coarse;
}

static uint64_t now(clockid_t clock)
{
    struct timespec ts;
    os_clock(clock, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t os_now_coarse(void) { return now(CLOCK_MONOTONIC_COARSE); }
uint64_t os_realtime(void) { return now(CLOCK_REALTIME); }

/* splitmix64, Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014. */
static uint64_t split_mix(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void os_random(void *to, size_t bytes)
{
    static _Atomic uint64_t calls;
    const void *at_random = (const void *)getauxval(AT_RANDOM);
    uint64_t kernel[2] = {0};
    struct timespec ts;
    os_clock(CLOCK_MONOTONIC, &ts);
    uint64_t state = (uint64_t)ts.tv_nsec * 0x2545f4914f6cdd1du ^ (uint64_t)ts.tv_sec << 32;
    if (at_random) __builtin_memcpy(kernel, at_random, sizeof kernel);
    state ^= kernel[0] ^ (kernel[1] << 1 | kernel[1] >> 63);
    state ^= (uint64_t)(uintptr_t)__builtin_frame_address(0);
    state += atomic_fetch_add(&calls, 1) * 0xd1342543de82ef95u;
    for (unsigned char *p = to; bytes > 0;) {
        uint64_t r = split_mix(&state);
        size_t n = bytes < 8 ? bytes : 8;
        __builtin_memcpy(p, &r, n);
        p += n;
        bytes -= n;
    }
}

static THREAD_LOCAL uint32_t thread_id;

uint32_t os_thread_id(void)
{
    if (unlikely(thread_id == 0)) {
        if (os_withheld(OS_NUMBERS)) return OS_SOMEBODY;
        thread_id = (uint32_t)raw_syscall(SYS_gettid, 0);
    }
    return thread_id;
}

void os_fork_child(void) { thread_id = 0; }

bool os_thread_exists(uint32_t thread)
{
    if (thread == OS_SOMEBODY || os_withheld(OS_NUMBERS)) return true;
    return raw_syscall(SYS_tgkill, raw_syscall(SYS_getpid, 0), thread, 0) != -ESRCH;
}

void os_sleep(long nanoseconds)
{
    _Atomic uint32_t word = 0;
    os_wait_changed(&word, 0, nanoseconds);
}

#define SPINS 2000u

void os_wait_changed(_Atomic uint32_t *word, uint32_t from, long nanoseconds)
{
    const struct timespec most = {0, nanoseconds};
    if (os_withheld(OS_WAITING)) {
        for (unsigned i = 0; i < SPINS && atomic_load_explicit(word, memory_order_relaxed) == from; i++) raw_pause();
        return;
    }
    raw_syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, from, &most, 0, 0);
}

void os_wake_one(_Atomic uint32_t *word)
{
    if (!os_withheld(OS_WAITING)) raw_syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1);
}

void os_yield(void) { raw_syscall(SYS_sched_yield, 0); }

void os_abort(void)
{
    struct { /* the kernel's sigaction of both machines: handler, flags, restorer, mask */
        unsigned long handler, flags, restorer, mask;
    } fall_back = {0, 0, 0, 0};
    uint64_t none = 0;
    raw_syscall(SYS_rt_sigaction, SIGABRT, &fall_back, NULL, 8);
    raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, 8);
    raw_syscall(SYS_tgkill, raw_syscall(SYS_getpid, 0), raw_syscall(SYS_gettid, 0), SIGABRT);
    for (;;) raw_syscall(SYS_exit_group, 134);
}
