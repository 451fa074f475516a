/* test-holder-targets.c: which sampled blocks are asked for their holders.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "heap/os.h"
#include "sampler/holder_targets.h"
#include "sampler/site.h"
#include "sampler/stack.h"
#include "sampler/tracked.h"
#include "suite.h"

#include <check.h>
#include <stdlib.h>

/* In the place of stack.c: stacks are numbers here. */
static uint32_t stacks = 1;
uint32_t stack_id_limit(void)
{
    return stacks;
}

static void start(void)
{
    ck_assert(site_start(true));
    tracked_start(0);
}

/* The i-th block of a stack. */
static uintptr_t block_of(uint32_t stack, uint32_t i)
{
    return ((uintptr_t)stack << 24 | i) << 4;
}

static uint32_t add(uint32_t stack, uint32_t i)
{
    if (stack >= stacks) stacks = stack + 1;
    uint32_t site = site_find(stack, 16 * (1 + i % 3), HEAP_MALLOC, 0); /* of one stack there are several sites */
    return tracked_add(NULL, &(struct tracked_view){.block = (void *)block_of(stack, i), .asked = 1, .site = site, .n_samples = 1});
}

static const struct holder_stack *of(const struct holder_targets *t, uint32_t stack)
{
    const struct holder_stack *found = NULL;
    for (uint32_t i = 0; i < t->stacks; i++)
        if (t->stack[i].stack == stack) {
            ck_assert_ptr_null(found);
            found = &t->stack[i];
        }
    ck_assert_ptr_nonnull(found);
    return found;
}

/* All of few; of many the most, evenly. */
START_TEST(evenly)
{
    struct holder_targets t;
    start();
    for (uint32_t i = 0; i < 1000; i++) add(1, i);
    for (uint32_t i = 0; i < 30; i++) add(2, i);
    ck_assert(holder_targets_find(&t));
    ck_assert_uint_eq(t.stacks, 2);
    ck_assert_uint_eq(of(&t, 1)->live, 1000);
    ck_assert_uint_eq(of(&t, 1)->count, TARGETS_A_STACK);
    ck_assert_uint_eq(of(&t, 2)->live, 30);
    ck_assert_uint_eq(of(&t, 2)->count, 30);
    bool seen[1000] = {false};
    for (uint32_t i = 0; i < TARGETS_A_STACK; i++) {
        uintptr_t block = t.block[of(&t, 1)->first + i];
        uint32_t number = (uint32_t)(block >> 4 & 0xffffff);
        ck_assert_uint_eq(block, block_of(1, number));
        ck_assert(number < 1000 && !seen[number]);
        seen[number] = true;
    }
    for (uint32_t i = 0; i < 1000; i += 200) { /* 12.8 in each fifth; entries are given out in an order of their own within batches */
        unsigned n = 0;
        for (uint32_t k = 0; k < 200; k++) n += seen[i + k];
        ck_assert_msg(n >= 9 && n <= 17, "%u", n);
    }
    for (uint32_t i = 0; i < 30; i++) {
        bool there = false;
        for (uint32_t k = 0; k < 30; k++) there |= t.block[of(&t, 2)->first + k] == block_of(2, i);
        ck_assert(there);
    }
    holder_targets_free(&t);
}
END_TEST

/* What was freed is not asked for; a stack that nobody knows is stack 0. */
START_TEST(only_live_ones)
{
    struct holder_targets t;
    uint32_t entry[20];
    start();
    for (uint32_t i = 0; i < 20; i++) entry[i] = add(1, i);
    for (uint32_t i = 0; i < 20; i += 2)
        ck_assert(tracked_remove(NULL, entry[i], (void *)block_of(1, i), &(struct tracked_view){0}));
    add(7, 0);
    stacks = 5; /* the tables are older than that stack */
    ck_assert(holder_targets_find(&t));
    ck_assert_uint_eq(of(&t, 1)->live, 10);
    for (uint32_t i = 0; i < 10; i++) ck_assert_uint_eq(t.block[of(&t, 1)->first + i] >> 4 & 1, 1);
    ck_assert_uint_eq(of(&t, 0)->count, 1);
    ck_assert_uint_eq(t.block[of(&t, 0)->first], block_of(7, 0));
    holder_targets_free(&t);
}
END_TEST

/* With many stacks each has fewer, some at least, and in all there is a bound. */
START_TEST(many_stacks)
{
    struct holder_targets t;
    uint32_t n = _i ? 40000 : 1000, all = 0, without = 0;
    start();
    for (uint32_t stack = 1; stack <= n; stack++)
        for (uint32_t i = 0; i < (_i ? 6u : 40u); i++) add(stack, i);
    ck_assert(holder_targets_find(&t));
    ck_assert_uint_eq(t.stacks, n);
    for (uint32_t i = 0; i < t.stacks; i++) {
        ck_assert_uint_eq(t.stack[i].first, all);
        all += t.stack[i].count;
        without += t.stack[i].count == 0;
        ck_assert(without || t.stack[i].count == (_i ? TARGETS_LEAST : TARGETS_WANTED / 1000));
        ck_assert(!without || t.stack[i].count == 0);
    }
    ck_assert_uint_le(all, TARGETS_MOST);
    ck_assert_int_eq(without > 0, _i);
    for (uint32_t i = 0; i < all; i++) ck_assert_uint_ne(t.block[i], 0);
    holder_targets_free(&t);
}
END_TEST

START_TEST(nothing_and_no_memory)
{
    struct holder_targets t;
    start();
    ck_assert(holder_targets_find(&t));
    ck_assert_uint_eq(t.stacks, 0);
    holder_targets_free(&t);
    add(1, 1);
    for (unsigned skip = 0; skip < 4; skip++) {
        os_fail_mappings(skip, 1);
        ck_assert(!holder_targets_find(&t));
        ck_assert_ptr_null(t.stack);
    }
    os_fail_mappings(4, 1);
    ck_assert(holder_targets_find(&t));
    os_fail_mappings(0, 0);
    holder_targets_free(&t);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("targets of holders");
    TCase *c = tcase_create("targets");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, evenly);
    tcase_add_test(c, only_live_ones);
    tcase_add_loop_test(c, many_stacks, 0, 2);
    tcase_add_test(c, nothing_and_no_memory);
    suite_add_tcase(s, c);
    return suite_run(s);
}
