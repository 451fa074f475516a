/* present.c: the three ways to ask for a range's pages.

   1. PAGEMAP_SCAN walks page tables in the kernel: its time follows what is present, so that a reservation of
      16 TiB takes a few milliseconds.
   2. /proc/self/pagemap has 8 bytes for every page, mapped or not: 1-2 ms a GiB of emptiness.  Where nothing is
      swapped out, mincore, five times as fast on emptiness, looks first at ranges of a GiB or more.
   3. Guard regions (MADV_GUARD_INSTALL, Linux 6.13; glibc 2.42 puts them under threads' stacks) and poisoned pages
      look like swapped ones unless the kernel tells them apart.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/present.h"
#include "heap/proc_text.h"
#include "heap/syscall.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/ioctl.h>
#include <sys/mman.h>

/* linux/fs.h since 6.7; the headers of a distribution may be older than its kernel. */
struct scan_region {
    uint64_t from, to, categories;
};
struct scan_argument {
    uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
    uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
#define SCAN_CALL _IOWR('f', 16, struct scan_argument)
#define IS_FILE (1 << 2)
#define IS_PRESENT (1 << 3)
#define IS_SWAPPED (1 << 4)
#define IS_ZERO (1 << 5)
#define IS_GUARD (1 << 8) /* 6.15 */

/* Bits of an entry of pagemap. */
#define ENTRY_PRESENT ((uint64_t)1 << 63)
#define ENTRY_SWAPPED ((uint64_t)1 << 62)
#define ENTRY_FILE ((uint64_t)1 << 61)
#define ENTRY_GUARD ((uint64_t)1 << 58) /* 6.15 */

#define GUARD_INSTALL 102 /* MADV_GUARD_INSTALL, 6.13 */

#define REGIONS 512
#define ENTRIES 2048
#define RESIDENT 16384
#define LOOK_FIRST GIB

static uint32_t page_bytes(void)
{
#ifdef __x86_64__
    return 4096;
#else
    /* An address within a page is refused even where the length is 0. */
    uint32_t page = 4096;
    while (page < 65536 && raw_syscall(SYS_madvise, page, 0, MADV_NORMAL) == -EINVAL) page *= 4;
    return page;
#endif
}

static long scan(struct present *p, struct scan_argument *a, uintptr_t from, uintptr_t to,
                 enum present_what what)
{
    /* To tell a file's page, the kernel looks at its struct page, which is seldom in a cache. */
    uint64_t never =
        IS_ZERO | (what == PRESENT_COPIED ? IS_FILE : 0) | (p->knows_guards ? IS_GUARD : 0);
    a->size = sizeof *a;
    a->start = from;
    a->end = to;
    a->category_inverted = a->category_mask = never;
    a->category_anyof_mask = IS_PRESENT | IS_SWAPPED;
    a->return_mask = IS_PRESENT;
    return raw_syscall(SYS_ioctl, p->fd, SCAN_CALL, a);
}

/* The page that `p` lies in is present. */
static bool scan_works(struct present *p)
{
    struct scan_region region;
    struct scan_argument a = {.vec = (uintptr_t)&region, .vec_len = 1};
    uintptr_t here = (uintptr_t)p & ~(uintptr_t)(p->page - 1);
    for (int guards = 1; guards >= 0; guards--) {
        p->knows_guards = guards;
        long n = scan(p, &a, here, here + p->page, PRESENT_COPIED);
        if (n == 1 && region.from == here) return true;
        if (n != -EINVAL) break;
    }
    p->knows_guards = false;
    return false;
}

/* Asked for nothing, an advice that is unknown is refused all the same. */
static bool has_guards(uint32_t page)
{
    return raw_syscall(SYS_madvise, page, 0, GUARD_INSTALL) == 0;
}

static bool pagemap_works(struct present *p)
{
    uint64_t entry = 0;
    return raw_syscall(SYS_pread64, p->fd, &entry, 8, (uintptr_t)p / p->page * 8) == 8 &&
           (entry & ENTRY_PRESENT);
}

static bool mincore_works(struct present *p)
{
    unsigned char resident = 0;
    uintptr_t here = (uintptr_t)p & ~(uintptr_t)(p->page - 1);
    return raw_syscall(SYS_mincore, here, p->page, &resident) == 0 && (resident & 1);
}

static bool nothing_swapped(void)
{
    uint64_t kib;
    return proc_status("VmSwap:", &kib) && kib == 0;
}

void present_start(struct present *p, enum present_way at_best)
{
    *p = (struct present){.way = PRESENT_NONE, .fd = -1, .page = page_bytes()};
    if (at_best <= PRESENT_PAGEMAP) {
        /* That of the process is empty once its main thread has ended; that of a thread came with Linux 3.17. */
        p->fd = (int)raw_syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/pagemap",
                                 O_RDONLY | O_CLOEXEC, 0);
        if (p->fd < 0) {
            p->fd = (int)raw_syscall(SYS_openat, AT_FDCWD, "/proc/self/pagemap",
                                     O_RDONLY | O_CLOEXEC, 0);
        }
    }
    if (p->fd >= 0 && at_best == PRESENT_SCAN && scan_works(p)) {
        p->way = PRESENT_SCAN;
    } else if (p->fd >= 0 && pagemap_works(p)) {
        p->way = PRESENT_PAGEMAP;
    } else if (at_best <= PRESENT_MINCORE && mincore_works(p)) {
        p->way = PRESENT_MINCORE;
    }
    if (p->way < PRESENT_MINCORE) p->may_be_guards = !p->knows_guards && has_guards(p->page);
    if (p->way == PRESENT_PAGEMAP || p->way == PRESENT_MINCORE) p->no_swap = nothing_swapped();
}

void present_end(struct present *p)
{
    if (p->fd >= 0) raw_syscall(SYS_close, p->fd);
    p->fd = -1;
    p->way = PRESENT_NONE;
}

/* Joins pages and pieces of a look to runs. */
struct run {
    struct present *present;
    uintptr_t from, to;
    bool absent;
    void (*each)(uintptr_t from, uintptr_t to, void *user);
    void *user;
};

static void run_end(struct run *r)
{
    r->present->absent = r->absent;
    r->present->swapped = r->absent && r->present->may_be_guards;
    if (r->from < r->to) r->each(r->from, r->to, r->user);
    r->from = r->to = 0;
}

static void run_add(struct run *r, uintptr_t from, uintptr_t to, bool absent)
{
    if (from != r->to || absent != r->absent) {
        run_end(r);
        r->from = from;
        r->absent = absent;
    }
    r->to = to;
}

static bool by_scan(struct run *r, uintptr_t from, uintptr_t to, enum present_what what)
{
    struct scan_region region[REGIONS];
    while (from < to) {
        struct scan_argument a = {.vec = (uintptr_t)region, .vec_len = REGIONS};
        long n = scan(r->present, &a, from, to, what);
        if (n == -EINTR) continue;
        if (n < 0 || a.walk_end <= from) return false;
        for (long i = 0; i < n; i++) {
            run_add(r, region[i].from, region[i].to, !(region[i].categories & IS_PRESENT));
        }
        from = a.walk_end;
    }
    return true;
}

/* Is any page of the range in memory?  Says yes where it cannot tell. */
static bool any_resident(struct present *p, uintptr_t from, size_t pages)
{
    unsigned char resident[ENTRIES];
    if (raw_syscall(SYS_mincore, from, pages * p->page, resident) != 0) return true;
    for (size_t i = 0; i < pages; i++) {
        if (resident[i] & 1) return true;
    }
    return false;
}

static bool by_pagemap(struct run *r, uintptr_t from, uintptr_t to, enum present_what what)
{
    struct present *p = r->present;
    uint64_t entry[ENTRIES];
    bool look_first = what == PRESENT_ANONYMOUS && p->no_swap && to - from >= LOOK_FIRST;
    for (size_t page = p->page; from < to;) {
        size_t pages = (to - from) / page;
        if (pages > ENTRIES) pages = ENTRIES;
        if (look_first && !any_resident(p, from, pages)) {
            from += pages * page;
            continue;
        }
        long n = raw_syscall(SYS_pread64, p->fd, entry, pages * 8, from / page * 8);
        if (n == -EINTR) continue;
        if (n < 8) return false;
        for (long i = 0; i < n / 8; i++, from += page) {
            uint64_t e = entry[i];
            if (!(e & (ENTRY_PRESENT | ENTRY_SWAPPED)) || (e & ENTRY_GUARD)) continue;
            if (what == PRESENT_COPIED && (e & ENTRY_FILE)) continue;
            run_add(r, from, from + page, !(e & ENTRY_PRESENT));
        }
    }
    return true;
}

static bool by_mincore(struct run *r, uintptr_t from, uintptr_t to)
{
    unsigned char resident[RESIDENT];
    for (size_t page = r->present->page; from < to;) {
        size_t pages = (to - from) / page;
        if (pages > RESIDENT) pages = RESIDENT;
        long e = raw_syscall(SYS_mincore, from, pages * page, resident);
        if (e == -EAGAIN) continue;
        if (e != 0) return false;
        for (size_t i = 0; i < pages; i++, from += page) {
            if (resident[i] & 1) run_add(r, from, from + page, false);
        }
    }
    return r->present->no_swap;
}

bool present_each(struct present *p, uintptr_t from, uintptr_t to, enum present_what what,
                  void (*each)(uintptr_t from, uintptr_t to, void *user), void *user)
{
    struct run r = {.present = p, .each = each, .user = user};
    bool complete = false;
    from &= ~(uintptr_t)(p->page - 1);
    to = round_up(to, p->page);
    if (p->way == PRESENT_SCAN) complete = by_scan(&r, from, to, what);
    if (p->way == PRESENT_PAGEMAP) complete = by_pagemap(&r, from, to, what);
    if (p->way == PRESENT_MINCORE) complete = by_mincore(&r, from, to);
    run_end(&r);
    return complete;
}
