/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/load_all.h"

#if defined(__x86_64__)

#include <cpuid.h>

#define LEAF7_ECX_OSPKE (1u << 4)

/* Has the system switched protection keys on?  cpuid is dear in a virtual machine: it is asked once. */
static bool have(void)
{
    static _Atomic int8_t known; /* 1 yes, -1 no */
    int8_t k = atomic_load_explicit(&known, memory_order_relaxed);
    if (k == 0) {
        unsigned a, b, c, d;
        k = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & LEAF7_ECX_OSPKE) ? 1 : -1;
        atomic_store_explicit(&known, k, memory_order_relaxed);
    }
    return k > 0;
}

static uint64_t get(void)
{
    uint32_t low, high;
    __asm__ volatile(".byte 0x0f, 0x01, 0xee" : "=a"(low), "=d"(high) : "c"(0)); /* rdpkru */
    return low;
}

static void set(uint64_t to)
{
    __asm__ volatile(".byte 0x0f, 0x01, 0xef"
                     :
                     : "a"((uint32_t)to), "c"(0), "d"(0)
                     : "memory"); /* wrpkru */
}

#define ALLOW_ALL ((uint64_t)0)

#elif defined(__aarch64__)

#include "heap/syscall.h"
#include <fcntl.h>

#define AT_HWCAP2_ 26
#define HWCAP2_MTE_ ((uint64_t)1 << 18)

static bool read_mte(void)
{
    uint64_t pair[2];
    bool mte = false;
    long fd = raw_syscall(SYS_openat, AT_FDCWD, "/proc/self/auxv", O_RDONLY | O_CLOEXEC, 0);
    while (fd >= 0 && raw_syscall(SYS_read, fd, pair, sizeof pair) == sizeof pair && pair[0] != 0) {
        if (pair[0] == AT_HWCAP2_) mte = pair[1] & HWCAP2_MTE_;
    }
    if (fd >= 0) raw_syscall(SYS_close, fd);
    return mte;
}

static bool have(void)
{
    static _Atomic int8_t known;
    int8_t k = atomic_load_explicit(&known, memory_order_relaxed);
    if (k == 0) {
        k = read_mte() ? 1 : -1;
        atomic_store_explicit(&known, k, memory_order_relaxed);
    }
    return k > 0;
}

/* PSTATE.TCO, "tag check override": s3_3_c4_c2_7, bit 25. */
static uint64_t get(void)
{
    uint64_t tco;
    __asm__ volatile("mrs %0, s3_3_c4_c2_7" : "=r"(tco));
    return tco;
}

static void set(uint64_t to)
{
    __asm__ volatile("msr s3_3_c4_c2_7, %0" : : "r"(to) : "memory");
}

#define ALLOW_ALL ((uint64_t)1 << 25)

#endif

void load_all_begin(struct load_all *l)
{
    l->changed = have();
    if (!l->changed) return;
    l->before = get();
    set(ALLOW_ALL);
}

void load_all_end(const struct load_all *l)
{
    if (l->changed) set(l->before);
}
