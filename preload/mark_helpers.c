/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/mark_helpers.h"
#include "heap/os.h"
#include "heap/syscall.h"
#include "preload/raw_clone.h"

#include <sched.h>

#define STACK_BYTES (128 * KIB)
#define MARKERS_MOST 4u

unsigned mark_helpers_wanted(void)
{
    uint64_t processors[16] = {0}; /* 1024 of them */
    long bytes = raw_syscall(SYS_sched_getaffinity, 0, sizeof processors, processors);
    unsigned n = 0;
    for (long i = 0; i < bytes / 8; i++) n += (unsigned)__builtin_popcountll(processors[i]);
    unsigned markers = n / 2 < MARKERS_MOST ? n / 2 : MARKERS_MOST;
    return markers > 1 ? markers - 1 : 0;
}

struct start {
    void (*run)(void *);
    void *argument;
};

static void run_and_end(void *argument)
{
    struct start *s = argument;
    s->run(s->argument);
    raw_syscall(SYS_exit, 0);
}

bool mark_helpers_start(void (*run)(void *), void *argument)
{
    char *stack = os_map(STACK_BYTES);
    if (!stack) return false;
    struct start *s = (struct start *)stack; /* at the far end of the stack */
    *s = (struct start){run, argument};
    long tid = raw_clone(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_UNTRACED,
                         stack + STACK_BYTES, run_and_end, s, NULL);
    if (tid > 0) return true;
    os_unmap(stack, STACK_BYTES);
    return false;
}
