/* sampler_alone.h: the sampler without its neighbours, for tests: what it calls of them, where the stack is the number that the test sets, for each
   thread; and an allocator that only counts, which calls its hooks.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef TEST_SAMPLER_ALONE_H
#define TEST_SAMPLER_ALONE_H

#include "heap/caller.h"
#include "heap/heap.h"
#include "sampler/sampler.h"
#include "sampler/stack_cache.h"
#include "sampler/deaths.h"
#include "sampler/lifetime.h"
#include "no_short_stacks.h"

#include <check.h>

static _Thread_local uint32_t stack_now = 1;

void heap_suspend_sampling(void) {}
void heap_resume_sampling(void) {}
uintptr_t caller_address(uint32_t number)
{
    return number;
}
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

/* ---- an allocator that only counts ---- */

static struct heap_hooks hooks;

struct fake {
    struct heap_thread_hook hook;
};

struct block {
    void *address;
    uint32_t entry;
    size_t words;
};

static void start(uint64_t interval)
{
    struct sampler_options options = {
        .interval = interval, .all = interval == 8, .depth = 64, .fixed_seed = true, .seed = 11};
    sampler_start(&options, &hooks);
}

static struct block fake_alloc(struct fake *f, size_t words)
{
    static _Atomic uintptr_t next = 0x200000000u;
    struct block b = {(void *)(atomic_fetch_add(&next, 1) * 4096), 0, words};
    _Atomic uint32_t tag = 0;
    if (hooks.every && words % 2 == 0 && words < 8192) { /* as a block of a pool */
        ck_assert_ptr_eq(hooks.every(&f->hook, b.address, words * 8 - 1, words * 8 | HEAP_MALLOC, &tag), b.address);
        b.entry = tag;
        return b;
    }
    unsigned n = hooks.large(&f->hook, words);
    if (n) b.entry = hooks.allocated(&f->hook, b.address, words * 8 - 1, words * 8, HEAP_MALLOC, n);
    return b;
}

/* What is known of the lives at a site, with what threads have still to count; false: nothing. */
static bool lives_of(uint32_t site, struct lifetime *to)
{
    struct deaths_pending pending;
    deaths_pending(&pending);
    return lifetime_sum(site, &pending, to);
}

#endif
