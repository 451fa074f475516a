/* test-unrecorded.c: lost blocks for which there is no memory: for records of them, or in the list of a collection.  They are counted, and as
   soon as there is memory again they have records like others.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "heap/collect.h"
#include "heap/heap.h"
#include "heap/lost_record.h"
#include "heap/meta.h"
#include "heap/os.h"
#include "heap/white.h"
#include "suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS 400
#define KEY 0x00c3a9e517d2b86full /* addresses that a collection must not find */

static uint64_t hidden[BLOCKS];
static uint32_t number;
static uint64_t clock_now = 1000000000;

static void complain(const char *line) { fprintf(stderr, "%s\n", line); }

/* Every second one is 160 bytes, the others are 96. */
static NOINLINE void lose(void)
{
    for (unsigned i = 0; i < BLOCKS; i++) {
        void *b = heap_malloc(i % 2 ? 150 : 90);
        ck_assert_ptr_nonnull(b);
        memset(b, 0, heap_usable_size(b));
        ck_assert_uint_eq(heap_usable_size(b), i % 2 ? 160 : 96);
        hidden[i] = (uint64_t)(uintptr_t)b ^ KEY;
    }
}

static NOINLINE void scrub(void)
{
    volatile char dead[100000];
    for (size_t i = 0; i < sizeof dead; i++) dead[i] = 0;
}

static struct lost_totals apply(const struct verdict *v, uint64_t expected_new)
{
    struct lost_totals t;
    uint64_t bytes, before = clock_now;
    clock_now += 1000000000;
    ck_assert_uint_eq(lost_apply(v, clock_now, before, ++number, &bytes), expected_new);
    lost_totals(&t);
    ck_assert_uint_eq(t.lost + t.unrecorded, v->lost);
    ck_assert_uint_eq(t.lost_bytes + t.unrecorded_bytes, v->lost_bytes);
    ck_assert(heap_verify(complain));
    return t;
}

static size_t verdict_bytes(size_t room) { return round_up(sizeof(struct verdict) + room * sizeof(struct verdict_block), OS_PAGE); }

static struct verdict *new_verdict(size_t room)
{
    struct verdict *v = os_map(verdict_bytes(room));
    ck_assert_ptr_nonnull(v);
    v->room = room;
    return v;
}

/* A verdict that is made up: all blocks, the odd ones possibly lost. */
START_TEST(no_memory_for_records)
{
    struct white_young aged;
    heap_start(&(struct heap_options){.watch = true});
    lose();
    white_make_old(&aged, NULL);
    struct verdict *v = new_verdict(BLOCKS);
    for (unsigned i = 0; i < BLOCKS; i++)
        v->block[v->count++] = (struct verdict_block){
            .block = (hidden[i] ^ KEY) | (uint64_t)(i % 2 ? LOST_POSSIBLE : LOST_DIRECT) << 48, .head = i};
    v->lost = BLOCKS / 2;
    v->lost_bytes = v->lost * 96;
    v->complete = true;
    os_fail_mappings(0, UINT32_MAX);
    while (meta_alloc(64)) {} /* what is mapped already */
    struct lost_totals t = apply(v, 0);
    ck_assert_uint_eq(t.unrecorded, BLOCKS / 2);
    ck_assert_uint_eq(t.unrecorded_bytes, BLOCKS / 2 * 96);
    ck_assert_uint_eq(t.lost + t.possible, 0);
    t = apply(v, 0); /* of the latest collection, no sum */
    ck_assert_uint_eq(t.unrecorded, BLOCKS / 2);
    os_fail_mappings(0, 0);
    t = apply(v, BLOCKS / 2);
    ck_assert_uint_eq(t.unrecorded + t.unrecorded_bytes, 0);
    ck_assert_uint_eq(t.direct, BLOCKS / 2);
    ck_assert_uint_eq(t.possible, BLOCKS / 2);
}
END_TEST

static NOINLINE void collect(struct verdict *v)
{
    struct cut_range ours = {(uintptr_t)v, (uintptr_t)v + verdict_bytes(v->room)};
    const struct cut cut = {.ours = &ours, .n_ours = 1};
    scrub();
    collect_major(v, &cut, &(struct collect_options){.at_best = PRESENT_SCAN});
    ck_assert_msg(v->complete, "%s", v->why_not);
    ck_assert_uint_ge(v->lost, BLOCKS - 4); /* a word may look like one */
    ck_assert_uint_le(v->lost, BLOCKS);
    ck_assert_uint_eq(v->possible, 0);
    ck_assert_uint_eq(v->count + v->truncated, v->lost);
}

/* The list has room for some. */
START_TEST(short_list)
{
    struct collection age = {0};
    heap_start(&(struct heap_options){.watch = true});
    lose();
    collect_age(&age);
    struct verdict *some = new_verdict(100);
    collect(some);
    ck_assert_uint_eq(some->count, 100);
    ck_assert_uint_eq(some->unlisted, some->truncated);
    struct lost_totals t = apply(some, 100);
    ck_assert_uint_eq(t.lost, 100);
    ck_assert_uint_eq(t.unrecorded, some->lost - 100);
    os_unmap(some, verdict_bytes(100)); /* the next one would find the blocks in it */
    struct verdict *all = new_verdict(BLOCKS);
    collect(all);
    t = apply(all, all->lost - 100);
    ck_assert_uint_eq(t.unrecorded + t.unrecorded_bytes, 0);
    os_unmap(all, verdict_bytes(BLOCKS));
    /* What has a record is not counted again. */
    struct verdict *again = new_verdict(100);
    collect(again);
    ck_assert_uint_eq(again->unlisted + again->unlisted_bytes, 0);
    apply(again, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("unrecorded");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 60);
    tcase_add_test(all, no_memory_for_records);
    tcase_add_test(all, short_list);
    suite_add_tcase(s, all);
    return suite_run(s);
}
