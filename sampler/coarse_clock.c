/* coarse_clock.c: see coarse_clock.h.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sampler/coarse_clock.h"
#include "heap/proc_text.h"

#include <fcntl.h>
#include <time.h>

static const struct coarse_words no_time = {UINT64_MAX, UINT64_MAX};
const struct coarse_words *coarse_words = &no_time;

static bool says(const struct coarse_words *words, const struct timespec *time)
{
    return atomic_load_explicit(&words->nanoseconds, memory_order_relaxed) == (uint64_t)time->tv_nsec &&
           atomic_load_explicit(&words->seconds, memory_order_relaxed) == (uint64_t)time->tv_sec;
}

static uint64_t ticks_base;

NOINLINE void coarse_clock_anew(struct coarse_clock *c)
{
    struct timespec now;
    os_clock(CLOCK_MONOTONIC_COARSE, &now);
    c->ticks = (uint32_t)(os_ticks_of(&now) - ticks_base);
    c->nanoseconds = 0;
    c->seconds = says(coarse_words, &now) ? (uint64_t)now.tv_sec : UINT64_MAX - 1;
    if (c->seconds == (uint64_t)now.tv_sec) c->nanoseconds = (uint64_t)now.tv_nsec;
}

/* The words in these pages that say what the clock says. */
static const struct coarse_words *find(uintptr_t from, uintptr_t to)
{
    const struct coarse_words *found = NULL;
    struct timespec before, after;
    do {
        os_clock(CLOCK_MONOTONIC_COARSE, &before);
        for (uintptr_t at = from; at <= to - sizeof *found && !found; at += sizeof(uint64_t))
            if (says((const struct coarse_words *)at, &before)) found = (const struct coarse_words *)at;
        os_clock(CLOCK_MONOTONIC_COARSE, &after);
    } while (!found && (before.tv_nsec != after.tv_nsec || before.tv_sec != after.tv_sec));
    return found;
}

void coarse_clock_start(uint64_t base)
{
    ticks_base = base;
    char buffer[512], *line;
    struct proc_text maps;
    if (proc_open(&maps, AT_FDCWD, "/proc/self/maps", buffer, sizeof buffer) != 0) return;
    uint64_t from = 0, to = 0;
    while ((line = proc_line(&maps))) {
        const char *name = proc_find(line, " [vvar]");
        if (!name) continue;
        const char *end = proc_hex(line, &from);
        if (*end == '-') proc_hex(end + 1, &to);
        break;
    }
    proc_close(&maps);
    /* Its first page alone: those behind it may be of clocks that the machine has not, and end in SIGBUS. */
    if (to - from >= OS_PAGE && to > from) to = from + OS_PAGE;
    const struct coarse_words *found = to > from ? find((uintptr_t)from, (uintptr_t)to) : NULL;
    if (found) coarse_words = found;
}
