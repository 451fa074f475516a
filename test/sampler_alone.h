/* sampler_alone.h: what the sampler calls of its neighbours, for tests of the sampler without them: the stack is the number that the test sets, for each
   thread.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef TEST_SAMPLER_ALONE_H
#define TEST_SAMPLER_ALONE_H

#include "heap/caller.h"
#include "heap/heap.h"
#include "sampler/sampler.h"
#include "sampler/stack_cache.h"
#include "no_short_stacks.h"

static _Thread_local uint32_t stack_now = 1;

void heap_suspend_sampling(void) {}
void heap_resume_sampling(void) {}
uintptr_t caller_address(uint32_t number)
{
    return number;
}
void stack_start(const struct sampler_options *options)
{
    (void)options;
}
void stack_fork_prepare(void) {}
void stack_fork_parent(void) {}
void stack_fork_child(void) {}
void stack_print(int fd, uint32_t id)
{
    (void)fd;
    (void)id;
}
void stack_stats(struct stack_stats *to)
{
    *to = (struct stack_stats){0};
}
void stack_cache_forget(struct stack_cache *cache)
{
    (void)cache;
}
uint32_t stack_capture_cached(struct stack_cache **cache, bool *one_frame)
{
    (void)cache;
    (void)one_frame;
    return stack_now;
}

#endif
