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

static bool is_error(long r) { return (unsigned long)r > -4096UL; }

bool os_map_at(void *address, size_t bytes, bool *occupied)
{
    if (occupied) *occupied = false;
    if (told_to_fail()) return false;
    long r = raw_syscall(SYS_mmap, address, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (r == (long)address) return true;
    if (!is_error(r)) { /* before Linux 4.17 the flag is unknown and the address was a hint */
        raw_syscall(SYS_munmap, r, bytes);
        r = -EEXIST;
    }
    if (occupied) *occupied = r == -EEXIST;
    return false;
}

void *os_map(size_t bytes)
{
    if (told_to_fail()) return NULL;
    long r = raw_syscall(SYS_mmap, 0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return is_error(r) ? NULL : (void *)r;
}

void os_unmap(void *address, size_t bytes) { raw_syscall(SYS_munmap, address, bytes); }

void os_discard(void *address, size_t bytes)
{
    raw_syscall(SYS_madvise, address, bytes, MADV_DONTNEED);
}

bool os_replace(void *address, size_t bytes)
{
    return raw_syscall(SYS_mmap, address, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == (long)address;
}

long os_read_own(void *to, uintptr_t from, size_t bytes)
{
    struct iovec there = {to, bytes}, here = {(void *)from, bytes};
    return raw_syscall(SYS_process_vm_readv, raw_syscall(SYS_getpid, 0), &there, 1, &here, 1, 0);
}

void os_prefer_huge(void *address, size_t bytes)
{
    raw_syscall(SYS_madvise, address, bytes, MADV_HUGEPAGE);
}

void os_populate(void *address, size_t bytes)
{
    raw_syscall(SYS_madvise, address, bytes, MADV_POPULATE_WRITE);
}

static int clock_by_call(clockid_t clock, struct timespec *to)
{
    return (int)raw_syscall(SYS_clock_gettime, clock, to);
}

os_clock_function *os_clock = clock_by_call;

void os_clock_is(os_clock_function *function)
{
    if (function) os_clock = function;
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
    if (unlikely(thread_id == 0)) thread_id = (uint32_t)raw_syscall(SYS_gettid, 0);
    return thread_id;
}

void os_fork_child(void) { thread_id = 0; }

bool os_thread_exists(uint32_t thread)
{
    return raw_syscall(SYS_tgkill, raw_syscall(SYS_getpid, 0), thread, 0) != -ESRCH;
}

void os_wait_changed(_Atomic uint32_t *word, uint32_t from, long nanoseconds)
{
    const struct timespec most = {0, nanoseconds};
    raw_syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, from, &most, 0, 0);
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
