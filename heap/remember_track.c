/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/remember_track.h"
#include "heap/mark.h"
#include "heap/os.h"
#include "heap/remember_cost.h"
#include "heap/remember_ranges.h"
#include "heap/syscall.h"
#include "heap/syscall_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/ioctl.h>
#include <linux/userfaultfd.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* linux/userfaultfd.h and linux/fs.h since 6.7; the headers may be older than the kernel. */
#define FEATURES ((uint64_t)1 << 13 | (uint64_t)1 << 15) /* WP_UNPOPULATED, WP_ASYNC */
#define USER_MODE_ONLY 1
struct scan_region {
    uint64_t from, to, categories;
};
struct scan_argument {
    uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
    uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
#define SCAN_CALL _IOWR('f', 16, struct scan_argument)
#define SCAN_ARM 1       /* PM_SCAN_WP_MATCHING */
#define SCAN_CHECK_ARM 2 /* PM_SCAN_CHECK_WPASYNC: fails where a mapping is not registered */
#define IS_WRITTEN (1 << 1)
#define IS_PRESENT (1 << 3)
#define IS_SWAPPED (1 << 4)
#define IS_HUGE (1 << 6)
#define IS_GUARD (1 << 8) /* 6.15 */

#define REGIONS 256
#define HIGH_FD (1 << 16)
#define MEASURED 64 /* pages */

enum unit { UNIT_WRITTEN, UNIT_ARMED, UNIT_ARMING, UNIT_FAILED };

static int descriptor = -1;
static uint64_t device, inode;
static long owner;    /* the process whose it is */
static bool refused;  /* by the kernel, for good, or by the self-test */
static bool tested;   /* this descriptor */
static bool missed;   /* track_start wants one */
static int left = -1; /* one that track_stop wants closed */
static bool refuse;   /* tests */
static uint8_t unit_state[RANGE_UNITS];
static bool any_armed;

void track_refuse(bool yes)
{
    refuse = yes;
    refused = false;
}

int track_descriptor(void)
{
    return descriptor;
}

void track_forget(void)
{
    if (any_armed) __builtin_memset(unit_state, UNIT_WRITTEN, sizeof unit_state);
    any_armed = false;
}

/* ---- the descriptor ---- */

static bool identify(int fd, uint64_t *dev, uint64_t *ino)
{
    struct stat st;
    if (raw_syscall(SYS_fstat, fd, &st) != 0) return false;
    *dev = st.st_dev;
    *ino = st.st_ino;
    return true;
}

/* Is it the descriptor that was opened last, and by this process? */
static bool is_ours(int fd)
{
    uint64_t dev, ino;
    return fd >= 0 && owner == raw_syscall(SYS_getpid, 0) && identify(fd, &dev, &ino) &&
           dev == device && ino == inode;
}

void track_stop(void)
{
    if (descriptor >= 0) left = descriptor;
    descriptor = -1;
    track_forget();
}

bool track_check(void)
{
    if (is_ours(descriptor)) return true;
    track_stop(); /* it may still be open in the program's table */
    return false;
}

void track_fork_child(void)
{
    uint64_t dev, ino;
    int fd = left >= 0 ? left : descriptor;
    if (fd >= 0 && !os_withheld(OS_DESCRIPTORS) && identify(fd, &dev, &ino) && dev == device && ino == inode)
        raw_syscall(SYS_close, fd);
    descriptor = left = -1;
    missed = false;
    track_forget();
}

/* Out of the way of programs that count descriptors or close the first thousand. */
static int move_high(int fd)
{
    struct rlimit limit = {0, 0};
    raw_syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, &limit);
    long least = limit.rlim_cur > HIGH_FD ? HIGH_FD : (long)limit.rlim_cur - 16;
    long high = least > fd ? raw_syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, least) : -1;
    if (high < 0) return fd;
    raw_syscall(SYS_close, fd);
    return (int)high;
}

static void open_descriptor(void)
{
    if (syscall_filter_is_on()) return;
    long fd = raw_syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | USER_MODE_ONLY);
    if (fd < 0) {
        refused = fd != -EMFILE && fd != -ENFILE && fd != -ENOMEM;
        return;
    }
    struct uffdio_api api = {.api = UFFD_API, .features = FEATURES};
    bool low = fd <= 2, works = !low && raw_syscall(SYS_ioctl, fd, UFFDIO_API, &api) == 0;
    if (!works) {
        raw_syscall(SYS_close, fd);
        refused = !low;
        return;
    }
    fd = move_high((int)fd);
    if (!identify((int)fd, &device, &inode)) {
        raw_syscall(SYS_close, fd);
        return;
    }
    descriptor = (int)fd;
    owner = raw_syscall(SYS_getpid, 0);
    tested = false;
}

void track_settle(void)
{
    if (is_ours(left)) raw_syscall(SYS_close, left);
    left = -1;
    if (missed && descriptor < 0 && !refused) open_descriptor();
    missed = false;
}

/* ---- the kernel's calls ---- */

/* Registers the mappings in the range and takes all protection from its pages: before Linux 6.13 pages that mremap has moved keep the
   mark of an armed page, though they can be written. */
static bool add(uintptr_t from, uintptr_t to)
{
    struct uffdio_register r = {.range = {from, to - from}, .mode = UFFDIO_REGISTER_MODE_WP};
    struct uffdio_writeprotect w = {.range = {from, to - from}, .mode = 0};
    return raw_syscall(SYS_ioctl, descriptor, UFFDIO_REGISTER, &r) == 0 &&
           raw_syscall(SYS_ioctl, descriptor, UFFDIO_WRITEPROTECT, &w) == 0;
}

void track_join(uintptr_t from, uintptr_t to)
{
    if (any_armed && is_ours(descriptor)) add(from, to);
}

static bool read_and_arm(struct present *p, uintptr_t from, uintptr_t to,
                         void (*each)(uintptr_t, uintptr_t, void *), void *user)
{
    struct scan_region region[REGIONS];
    while (from < to) {
        struct scan_argument a = {
            .size = sizeof a,
            .flags = SCAN_ARM | SCAN_CHECK_ARM,
            .start = from,
            .end = to,
            .vec = (uintptr_t)region,
            .vec_len = REGIONS,
            .category_mask = IS_WRITTEN | (p->knows_guards ? IS_GUARD : 0),
            .category_anyof_mask = IS_PRESENT | IS_SWAPPED,
            .category_inverted = p->knows_guards ? IS_GUARD : 0,
            .return_mask = IS_WRITTEN | IS_PRESENT,
        };
        long n = raw_syscall(SYS_ioctl, p->fd, SCAN_CALL, &a);
        if (n < 0 || a.walk_end <= from) return false;
        for (long i = 0; i < n; i++) {
            p->absent = p->swapped = !(region[i].categories & IS_PRESENT);
            each(region[i].from, region[i].to, user);
        }
        from = a.walk_end;
    }
    return true;
}

uint64_t track_huge_bytes(struct present *p, uintptr_t from, uintptr_t to)
{
    struct scan_region region[REGIONS];
    uint64_t bytes = 0;
    while (p->way == PRESENT_SCAN && from < to) {
        struct scan_argument a = {.size = sizeof a,
                                  .start = from,
                                  .end = to,
                                  .vec = (uintptr_t)region,
                                  .vec_len = REGIONS,
                                  .category_mask = IS_HUGE,
                                  .return_mask = IS_HUGE};
        long n = raw_syscall(SYS_ioctl, p->fd, SCAN_CALL, &a);
        if (n < 0 || a.walk_end <= from) break;
        for (long i = 0; i < n; i++) bytes += region[i].to - region[i].from;
        from = a.walk_end;
    }
    return bytes;
}

static void count_pages(uintptr_t from, uintptr_t to, void *user)
{
    *(uint64_t *)user += (to - from) / OS_PAGE;
}

/* ---- the self-test ---- */

/* Which of `pages` pages are written, as bits. */
static void note_page(uintptr_t from, uintptr_t to, void *user)
{
    uintptr_t *note = user; /* the first page, and the bits */
    for (; from < to; from += OS_PAGE) note[1] |= (uintptr_t)1 << (from - note[0]) / OS_PAGE;
}

static bool written_are(struct present *p, uintptr_t at, unsigned pages, uintptr_t expected)
{
    uintptr_t note[2] = {at, 0};
    return read_and_arm(p, at, at + pages * OS_PAGE, note_page, note) && note[1] == expected;
}

static bool test(struct present *p)
{
    enum {
        PAGES = 4
    }; /* stored to, read(2) to, left alone, and not there when the others are armed */
    char *m = os_map(PAGES * OS_PAGE);
    if (!m) return false;
    volatile char *v = m;
    for (unsigned i = 0; i < 3; i++) v[i * OS_PAGE] = 1;
    uintptr_t at = (uintptr_t)m;
    bool ok = add(at, at + PAGES * OS_PAGE) && written_are(p, at, PAGES, 7) &&
              written_are(p, at, PAGES, 0);
    if (ok) {
        v[0] = 2;
        ok = raw_syscall(SYS_pread64, p->fd, m + OS_PAGE, 8, at / OS_PAGE * 8) == 8;
        v[3 * OS_PAGE] = 1;
        ok =
            ok && written_are(p, at, PAGES, 1 | 2 | 8) && written_are(p, at, PAGES, 0) && v[0] == 2;
    }
    os_unmap(m, PAGES * OS_PAGE);
    return ok;
}

bool track_start(struct present *p)
{
    if (refused || refuse || p->way != PRESENT_SCAN || p->page != OS_PAGE) return false;
    if (!track_check()) {
        missed = true;
        return false;
    }
    if (!tested && !test(p)) {
        refused = true;
        track_stop();
        return false;
    }
    return tested = true;
}

bool track_measure(struct present *p, double *fault_ns, double *arm_ns)
{
    char *m = os_map(MEASURED * OS_PAGE);
    if (!m) return false;
    os_populate(m, MEASURED * OS_PAGE);
    volatile char *v = m;
    for (unsigned i = 0; i < MEASURED; i++) v[i * OS_PAGE] = 1;
    uintptr_t at = (uintptr_t)m;
    uint64_t armed = 0, began = 0, middle = 0, end = 0;
    bool ok = add(at, at + MEASURED * OS_PAGE);
    if (ok) {
        began = cost_clock();
        ok = read_and_arm(p, at, at + MEASURED * OS_PAGE, count_pages, &armed) && armed == MEASURED;
        middle = cost_clock();
        for (unsigned i = 0; i < MEASURED; i++) v[i * OS_PAGE] = 2;
        end = cost_clock();
    }
    os_unmap(m, MEASURED * OS_PAGE);
    *arm_ns = (double)(middle - began) / MEASURED;
    *fault_ns = (double)(end - middle) / MEASURED;
    return ok;
}

/* ---- ranges ---- */

bool track_read(struct present *p, uintptr_t from, uintptr_t to,
                void (*each)(uintptr_t, uintptr_t, void *), void *user)
{
    uint8_t *unit = &unit_state[range_unit(from)];
    if (*unit != UNIT_ARMED) return false;
    if (read_and_arm(p, from, to, each, user)) return true;
    *unit = UNIT_WRITTEN;
    return false;
}

static bool is_mapped(const struct pool *p)
{
    return p->list != POOL_NOWHERE && p->list != POOL_AWAY;
}

/* Registers all mappings of the unit, also those in which no block lives yet: mappings stay few. */
static bool add_unit(unsigned unit)
{
    uintptr_t base = window_base + ((uintptr_t)unit << RANGE_UNIT_SHIFT),
              end = base + ((uintptr_t)1 << RANGE_UNIT_SHIFT);
    if (base - window_base >= WINDOW_LARGE_OFFSET) return add(base, end);
    bool medium = base - window_base >= WINDOW_MEDIUM_OFFSET;
    uint32_t first, count;
    pool_range(medium, &first, &count);
    uint32_t id = pool_id(pool_of((const void *)base, medium)),
             last = pool_id(pool_of((const void *)(end - 1), medium)) + 1;
    if (last > first + count) last = first + count;
    while (id < last) {
        uint32_t run = id;
        while (id < last && is_mapped(pool_of_id(id))) id++;
        if (id > run && !add(pool_base(pool_of_id(run)),
                             pool_base(pool_of_id(run)) + (id - run) * pool_bytes(pool_of_id(run))))
            return false;
        if (id == run) id++;
    }
    return true;
}

bool track_is_armed(uintptr_t address) { return unit_state[range_unit(address)] == UNIT_ARMED; }

bool track_is_written(struct present *p, uintptr_t page)
{
    struct scan_region region;
    struct scan_argument a = {.size = sizeof a,
                              .start = page,
                              .end = page + OS_PAGE,
                              .vec = (uintptr_t)&region,
                              .vec_len = 1,
                              .category_mask = IS_WRITTEN,
                              .return_mask = IS_WRITTEN};
    return raw_syscall(SYS_ioctl, p->fd, SCAN_CALL, &a) != 0;
}

bool track_arm(struct present *p, uintptr_t from, uintptr_t to, void (*each)(uintptr_t, uintptr_t, void *), void *user)
{
    unsigned number = range_unit(from);
    uint8_t *unit = &unit_state[number];
    if (*unit == UNIT_ARMED) return true;
    any_armed = true;
    if (*unit == UNIT_WRITTEN) *unit = add_unit(number) ? UNIT_ARMING : UNIT_FAILED;
    if (*unit == UNIT_ARMING && !read_and_arm(p, from, to, each, user)) *unit = UNIT_FAILED;
    return *unit == UNIT_ARMING;
}

void track_armed(void)
{
    for (unsigned i = 0; any_armed && i < RANGE_UNITS; i++) {
        if (unit_state[i] == UNIT_ARMING)
            unit_state[i] = UNIT_ARMED;
        else if (unit_state[i] == UNIT_FAILED)
            unit_state[i] = UNIT_WRITTEN;
    }
}
