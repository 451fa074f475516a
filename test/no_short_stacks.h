/* no_short_stacks.h: stand-ins for stacks that need no start and know no fork, and for the short ways to one (stack_again.c), none of which is open: for
   tests of the sampler that say themselves what stack is captured, by their stack_capture_cached.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_TEST_NO_SHORT_STACKS_H
#define GLEANER_TEST_NO_SHORT_STACKS_H

#include "sampler/stack_cache.h"

_Atomic uint32_t module_epoch_now;

void stack_start(const struct sampler_options *options)
{
    (void)options;
}
void stack_fork_prepare(void) {}
void stack_fork_parent(void) {}
void stack_fork_child(void) {}

uint32_t stack_capture_frame(struct stack_cache **cache, const uintptr_t *frame)
{
    (void)frame;
    return stack_capture_cached(cache, NULL);
}

uint32_t stack_again(struct stack_cache *cache, const uintptr_t *frame)
{
    (void)cache;
    (void)frame;
    return 0;
}

#endif
