/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/headroom.h"
#include "heap/os.h"
#include "heap/print.h"
#include "heap/syscall.h"
#include "preload/task_files.h"

#include <string.h>
#include <sys/resource.h>

static char text[4096], path[512];

static uint64_t number_at(const char *at)
{
    uint64_t n = 0;
    while (*at == ' ') at++;
    if (*at < '0' || *at > '9') return UINT64_MAX; /* "max" */
    for (; *at >= '0' && *at <= '9'; at++) n = n * 10 + (uint64_t)(*at - '0');
    return n;
}

static const char *after(const char *in, const char *what)
{
    size_t n = __builtin_strlen(what);
    for (; *in; in++) {
        size_t i = 0;
        while (i < n && in[i] == what[i]) i++;
        if (i == n) return in + n;
    }
    return NULL;
}

static uint64_t of_machine(void)
{
    if (task_read("/proc/meminfo", text, sizeof text) <= 0) return UINT64_MAX;
    const char *at = after(text, "MemAvailable:");
    uint64_t kib = at ? number_at(at) : UINT64_MAX;
    return kib == UINT64_MAX ? UINT64_MAX : kib * 1024;
}

static uint64_t read_group(const char *group, const char *file)
{
    print_to(path, sizeof path, "/sys/fs/cgroup%s/%s", group, file);
    return task_read(path, text, sizeof text) > 0 ? number_at(text) : UINT64_MAX;
}

static uint64_t of_group(void)
{
    static char group[256];
    if (task_read("/proc/self/cgroup", text, sizeof text) <= 0) return UINT64_MAX;
    const char *at = after(text, "0::");
    if (!at) return UINT64_MAX;
    size_t n = 0;
    while (at[n] && at[n] != '\n' && n < sizeof group - 1) n++;
    __builtin_memcpy(group, at, n);
    group[n] = 0;
    if (n == 1) group[0] = 0; /* "/" */
    uint64_t most = read_group(group, "memory.max"), now = read_group(group, "memory.current");
    if (most == UINT64_MAX || now == UINT64_MAX) return UINT64_MAX;
    return most > now ? most - now : 0;
}

uint64_t headroom_bytes(void)
{
    uint64_t machine = of_machine(), group = of_group();
    return machine < group ? machine : group;
}

static uint64_t limit_of(int resource)
{
    struct rlimit r;
    if (raw_syscall(SYS_prlimit64, 0, resource, NULL, &r) != 0 || r.rlim_cur == RLIM_INFINITY) return UINT64_MAX;
    return r.rlim_cur;
}

static uint64_t left_of(uint64_t limit, uint64_t used)
{
    return limit == UINT64_MAX ? UINT64_MAX : limit > used ? limit - used : 0;
}

/* In statm the first figure is all that is mapped, the sixth what is private and writable; in pages. */
uint64_t headroom_limits(void)
{
    uint64_t all = limit_of(RLIMIT_AS), data = limit_of(RLIMIT_DATA), figure[6] = {0};
    if (all == UINT64_MAX && data == UINT64_MAX) return UINT64_MAX;
    if (task_read("/proc/self/statm", text, sizeof text) <= 0) return UINT64_MAX;
    const char *at = text;
    for (unsigned i = 0; at && i < 6; i++) {
        figure[i] = number_at(at) * OS_PAGE;
        at = after(at, " ");
    }
    all = left_of(all, figure[0]);
    data = left_of(data, figure[5]);
    return all < data ? all : data;
}
