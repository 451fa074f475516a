/* test-lost-sites.c: figures of lost blocks by call stack, from records that are made up here: exact ones summed by hand,
   shared ones worked out by hand, and over many samples checked against the truth that the samples were taken from.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "heap/caller.h"
#include "heap/os.h"
#include "heap/syscall.h"
#include "heap/tag.h"
#include "heap/vet.h"
#include "sampler/estimate.h"
#include "sampler/false_lost.h"
#include "sampler/lost_sites.h"
#include "sampler/site.h"
#include "sampler/stack.h"
#include "sampler/tracked.h"
#include "suite.h"

#include <check.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* The faked neighbours.  Stack s has the innermost frame s / 10: stacks 10 to 19 are called by caller 1. */
enum { MOST = 200000, SECOND = 1000000000 };
static struct lost_view *blocks;
static unsigned block_count;
static uint64_t interval;
static uint32_t callers; /* there are; 0: none were kept */

void lost_each(void (*each)(const struct lost_view *, void *), void *user)
{
    for (unsigned i = 0; i < block_count; i++) each(&blocks[i], user);
}

#define FIRST_BLOCK ((uintptr_t)0x100000000)
#define BLOCK_STEP 64

bool lost_find(const void *block, struct lost_view *to)
{
    uintptr_t number = ((uintptr_t)block - FIRST_BLOCK) / BLOCK_STEP;
    if ((uintptr_t)block < FIRST_BLOCK || number >= block_count) return false;
    *to = blocks[number];
    return true;
}

static uintptr_t address_of(uint32_t caller)
{
    return 0x400000 + 16 * (uintptr_t)caller;
}

uintptr_t caller_address(uint32_t number)
{
    return number >= 1 && number <= callers ? address_of(number) : 0;
}

uint32_t caller_limit(void)
{
    return callers + 1;
}

uint64_t sampler_interval(void)
{
    return interval;
}

bool stack_frame(uint32_t id, struct stack_frame *to)
{
    *to = (struct stack_frame){.address = address_of(id / 10)};
    return id != 0;
}

static void set_up(void)
{
    tracked_start(0);
    ck_assert(site_start(false));
    blocks = calloc(MOST, sizeof *blocks);
    block_count = 0;
    interval = 524288;
    callers = 9;
}

/* A lost block of `given` bytes: of stack `stack` with `points` sample points, or of `caller`, or of neither. */
static struct lost_view *lose(enum lost_kind kind, size_t given, uint32_t stack, unsigned points,
                              uint32_t caller)
{
    ck_assert_uint_lt(block_count, MOST);
    struct lost_view *v = &blocks[block_count++];
    *v = (struct lost_view){.block =
                                (void *)(FIRST_BLOCK + BLOCK_STEP * (uintptr_t)(block_count - 1)),
                            .given = given,
                            .tag = TAG_LOST,
                            .kind = kind,
                            .last_reached = 100 * (uint64_t)SECOND,
                            .first_missed = 101 * (uint64_t)SECOND,
                            .misses = 1};
    v->head = v->block;
    if (stack) {
        struct tracked_view entry = {.block = v->block,
                                     .asked = given - 5,
                                     .site = site_find(stack, given, HEAP_MALLOC, 0),
                                     .n_samples = points};
        v->tag |= tracked_add(NULL, &entry);
    } else if (caller) {
        v->tag |= TAG_CALLER | caller;
    }
    return v;
}

/* What came out, for looking up. */
static struct lost_site sites[4096];
static unsigned site_count;

static void keep(const struct lost_site *s, void *user)
{
    ck_assert_uint_lt(site_count, 4096);
    ck_assert_uint_gt(s->objects, 0);
    ck_assert_uint_le(s->objects_limits.low, s->objects);
    ck_assert_uint_ge(s->objects_limits.high, s->objects);
    ck_assert_uint_le(s->bytes_limits.low, s->bytes);
    ck_assert_uint_ge(s->bytes_limits.high, s->bytes);
    if (!s->estimated) ck_assert_uint_eq(s->objects_limits.high - s->objects_limits.low, 0);
    sites[site_count++] = *s;
}

static void sum_up(void)
{
    site_count = 0;
    struct lost_sites *l = lost_sites_make();
    ck_assert_ptr_nonnull(l);
    lost_sites_each(l, keep, NULL);
    lost_sites_free(l);
}

/* The one that fits; `given` 0: of mixed sizes. */
static const struct lost_site *at(enum lost_where where, uint32_t stack_or_caller,
                                  enum lost_kind kind, size_t given)
{
    const struct lost_site *found = NULL;
    for (unsigned i = 0; i < site_count; i++) {
        const struct lost_site *s = &sites[i];
        uint32_t number =
            s->place.where == LOST_AT_SITE ? site_stack(s->place.number) : s->place.number;
        if (s->place.where != where || number != stack_or_caller || s->kind != kind ||
            s->given != given)
            continue;
        ck_assert_ptr_null(found);
        found = s;
    }
    ck_assert_msg(found != NULL, "%d %u %d %zu", where, stack_or_caller, kind, given);
    return found;
}

static uint64_t objects_at(enum lost_where where, uint32_t number, enum lost_kind kind,
                           size_t given)
{
    return at(where, number, kind, given)->objects;
}

/* Every block is tracked: sums, times, what hangs on them, by whom indirectly lost ones were lost. */
START_TEST(exact)
{
    interval = 8;
    callers = 0;
    struct lost_view *v = lose(LOST_DIRECT, 112, 10, 14, 0);
    v->hangs = 2, v->hangs_bytes = 96;
    void *head = v->block;
    v = lose(LOST_DIRECT, 112, 10, 14, 0);
    v->last_reached = 90 * (uint64_t)SECOND;
    v->first_missed = 95 * (uint64_t)SECOND;
    v->misses = 7;
    v = lose(LOST_DIRECT, 112, 10, 14, 0);
    v->last_reached = 150 * (uint64_t)SECOND;
    v->first_missed = 160 * (uint64_t)SECOND;
    lose(LOST_DIRECT, 65536, 10, 8192, 0);
    lose(LOST_INDIRECT, 48, 11, 6, 0)->head = head;
    lose(LOST_INDIRECT, 48, 11, 6, 0)->head = head;
    lose(LOST_INDIRECT, 48, 12, 6, 0)->head = (void *)1; /* gone meanwhile */
    lose(LOST_POSSIBLE, 48, 11, 6, 0)->why = VET_BEFORE;
    lose(LOST_DIRECT, 32, 0, 0, 0); /* its entry found no room */
    sum_up();
    ck_assert_uint_eq(site_count, 6);
    const struct lost_site *s = at(LOST_AT_SITE, 10, LOST_DIRECT, 112);
    ck_assert(!s->estimated);
    ck_assert_uint_eq(s->objects, 3);
    ck_assert_uint_eq(s->bytes, 336);
    ck_assert_uint_eq(s->asked, 3 * 107);
    ck_assert_uint_eq(s->hangs, 2);
    ck_assert_uint_eq(s->hangs_bytes, 96);
    ck_assert_uint_eq(s->last_reached, 90 * (uint64_t)SECOND);
    ck_assert_uint_eq(s->first_missed, 95 * (uint64_t)SECOND);
    ck_assert_uint_eq(s->last_missed, 160 * (uint64_t)SECOND);
    ck_assert_uint_eq(s->misses, 7);
    ck_assert_uint_eq(objects_at(LOST_AT_SITE, 10, LOST_DIRECT, 65536), 1);
    s = at(LOST_AT_SITE, 11, LOST_INDIRECT, 48);
    ck_assert_uint_eq(s->objects, 2);
    ck_assert_int_eq(s->head.where, LOST_AT_SITE);
    ck_assert_uint_eq(site_stack(s->head.number), 10);
    ck_assert_uint_eq(site_given(s->head.number), 112);
    ck_assert_int_eq(at(LOST_AT_SITE, 12, LOST_INDIRECT, 48)->head.where, LOST_NOWHERE);
    s = at(LOST_AT_SITE, 11, LOST_POSSIBLE, 48);
    ck_assert_uint_eq(s->objects, 1);
    ck_assert_uint_eq(s->why, VET_BEFORE);
    s = at(LOST_NOWHERE, 0, LOST_DIRECT, 32);
    ck_assert_uint_eq(s->bytes, 32);
    ck_assert(!s->estimated);
}
END_TEST

/* Of the large ones alone, and without the possible ones. */
START_TEST(large_bytes)
{
    lose(LOST_DIRECT, 32768, 0, 0, 1);
    lose(LOST_DIRECT, 36864, 0, 0, 1);
    lose(LOST_INDIRECT, 1048576, 10, 2, 0);
    lose(LOST_POSSIBLE, 40960, 0, 0, 1);
    struct lost_sites *l = lost_sites_make();
    ck_assert_uint_eq(lost_sites_large_bytes(l), 36864 + 1048576);
    lost_sites_free(l);
}
END_TEST

/* Caller 1 has stacks 10 and 11, of which 2 and 1 blocks of 48 bytes were tracked: nine others are shared out 6 to 3. */
START_TEST(shared_by_caller)
{
    lose(LOST_DIRECT, 48, 10, 1, 0);
    lose(LOST_DIRECT, 48, 10, 1, 0);
    lose(LOST_DIRECT, 48, 11, 1, 0);
    for (int i = 0; i < 9; i++) lose(LOST_DIRECT, 48, 0, 0, 1);
    /* None of this kind was tracked, but of this size: 4 to 2. */
    for (int i = 0; i < 6; i++) lose(LOST_INDIRECT, 48, 0, 0, 1);
    /* None of these sizes: by sample points, 2 to 1 again, together. */
    lose(LOST_DIRECT, 32, 0, 0, 1);
    lose(LOST_DIRECT, 64, 0, 0, 1);
    lose(LOST_DIRECT, 96, 0, 0, 1);
    /* Caller 2 has no tracked block at all, and nobody knows of the last. */
    for (int i = 0; i < 4; i++) lose(LOST_DIRECT, 48, 0, 0, 2);
    lose(LOST_DIRECT, 48, 0, 0, 0);
    /* Caller 3's are all tracked. */
    lose(LOST_DIRECT, 48, 30, 1, 0);
    sum_up();

    const struct lost_site *s = at(LOST_AT_SITE, 10, LOST_DIRECT, 48);
    ck_assert_uint_eq(s->objects, 8);
    ck_assert_uint_eq(s->bytes, 8 * 48);
    ck_assert_uint_eq(s->asked, 8 * 43);
    ck_assert(s->estimated);
    ck_assert_uint_ge(s->objects_limits.low, 2);   /* they were seen */
    ck_assert_uint_le(s->objects_limits.high, 11); /* and one of stack 11 */
    ck_assert_uint_eq(s->bytes_limits.low, s->objects_limits.low * 48);
    ck_assert_uint_eq(s->bytes_limits.high, s->objects_limits.high * 48);
    ck_assert_uint_eq(objects_at(LOST_AT_SITE, 11, LOST_DIRECT, 48), 4);
    ck_assert_uint_eq(objects_at(LOST_AT_SITE, 10, LOST_INDIRECT, 48), 4);
    ck_assert_uint_eq(objects_at(LOST_AT_SITE, 11, LOST_INDIRECT, 48), 2);
    s = at(LOST_AT_SITE, 10, LOST_DIRECT, 0);
    ck_assert_uint_eq(s->objects, 2);
    ck_assert_uint_eq(s->bytes, 192 * 2 / 3);
    ck_assert_uint_eq(at(LOST_AT_SITE, 11, LOST_DIRECT, 0)->bytes, 192 / 3);
    s = at(LOST_AT_CALLER, 2, LOST_DIRECT, 48);
    ck_assert_uint_eq(s->objects, 4);
    ck_assert(!s->estimated);
    ck_assert(!at(LOST_NOWHERE, 0, LOST_DIRECT, 48)->estimated);
    s = at(LOST_AT_SITE, 30, LOST_DIRECT, 48);
    ck_assert_uint_eq(s->objects, 1);
    ck_assert(!s->estimated);
}
END_TEST

/* No callers were kept: small blocks are not blamed on stacks of which only large ones are known. */
START_TEST(shared_by_area)
{
    callers = 0;
    lose(LOST_DIRECT, 48, 10, 1, 0);
    lose(LOST_DIRECT, 48, 20, 1, 0);
    lose(LOST_DIRECT, 1048576, 30, 2, 0);
    for (int i = 0; i < 10; i++) lose(LOST_DIRECT, 48, 0, 0, 0);
    for (int i = 0; i < 4; i++) lose(LOST_DIRECT, 512, 0, 0, 0);  /* small, too */
    for (int i = 0; i < 3; i++) lose(LOST_DIRECT, 8192, 0, 0, 0); /* medium: nothing is known */
    sum_up();
    ck_assert_uint_eq(objects_at(LOST_AT_SITE, 10, LOST_DIRECT, 48), 6);
    ck_assert_uint_eq(objects_at(LOST_AT_SITE, 20, LOST_DIRECT, 48), 6);
    ck_assert_uint_eq(objects_at(LOST_AT_SITE, 10, LOST_DIRECT, 0), 2);
    ck_assert_uint_eq(at(LOST_AT_SITE, 20, LOST_DIRECT, 0)->bytes, 1024);
    ck_assert(!at(LOST_AT_SITE, 30, LOST_DIRECT, 1048576)->estimated);
    ck_assert_uint_eq(objects_at(LOST_NOWHERE, 0, LOST_DIRECT, 8192), 3);
}
END_TEST

/* One stack under several heads, and several kinds, gets its part once. */
START_TEST(many_records_of_one_stack)
{
    void *heads[2];
    for (int i = 0; i < 2; i++) heads[i] = lose(LOST_DIRECT, 256, 10 + (unsigned)i, 1, 0)->block;
    lose(LOST_INDIRECT, 48, 12, 1, 0)->head = heads[0];
    lose(LOST_INDIRECT, 48, 12, 1, 0)->head = heads[1];
    lose(LOST_INDIRECT, 48, 12, 1, 0)->head = heads[1];
    for (int i = 0; i < 6; i++) lose(LOST_INDIRECT, 48, 0, 0, 1);
    for (int i = 0; i < 5; i++) lose(LOST_POSSIBLE, 48, 0, 0, 1);
    for (int i = 0; i < 10; i++) lose(LOST_POSSIBLE, 80, 0, 0, 1);
    sum_up();
    uint64_t indirect = 0;
    for (unsigned i = 0; i < site_count; i++)
        if (sites[i].kind == LOST_INDIRECT) indirect += sites[i].objects;
    ck_assert_uint_eq(indirect, 9);
    ck_assert_uint_eq(objects_at(LOST_AT_SITE, 12, LOST_POSSIBLE, 48), 5);
    /* By points: 3 of 5 are stack 12's, the others 10's and 11's. */
    ck_assert_uint_eq(objects_at(LOST_AT_SITE, 12, LOST_POSSIBLE, 0), 6);
    ck_assert_uint_eq(objects_at(LOST_AT_SITE, 10, LOST_POSSIBLE, 0), 2);
}
END_TEST

/* Whatever the mixture, the sums are those of the records. */
static void expect_sums(void)
{
    uint64_t objects[3] = {0}, bytes[3] = {0}, hangs = 0, hangs_bytes = 0;
    for (unsigned i = 0; i < block_count; i++) {
        objects[blocks[i].kind]++;
        bytes[blocks[i].kind] += blocks[i].given;
        if (blocks[i].kind == LOST_DIRECT)
            hangs += blocks[i].hangs, hangs_bytes += blocks[i].hangs_bytes;
    }
    sum_up();
    for (unsigned i = 0; i < site_count; i++) {
        objects[sites[i].kind] -= sites[i].objects;
        bytes[sites[i].kind] -= sites[i].bytes;
        hangs -= sites[i].hangs;
        hangs_bytes -= sites[i].hangs_bytes;
    }
    for (int k = 0; k < 3; k++) {
        ck_assert_uint_eq(objects[k], 0);
        ck_assert_uint_eq(bytes[k], 0);
    }
    ck_assert_uint_eq(hangs | hangs_bytes, 0);
}

START_TEST(sums_are_exact)
{
    static const size_t sizes[] = {16, 48, 64, 1024, 1152, 32768, 40960, 1048576};
    srandom(7);
    for (int round = 0; round < 60; round++) {
        block_count = 0;
        callers = round % 3 ? 9 : 0;
        interval = round % 10 == 9 ? 8 : 524288;
        int most = 1 + (int)(random() % 2000), known = 1 + (int)(random() % 100);
        for (int i = 0; i < most; i++) {
            bool tracked = random() % 100 < known;
            struct lost_view *v =
                lose((enum lost_kind)(random() % 3), sizes[random() % 8],
                     tracked ? 10 + (uint32_t)(random() % 80) : 0, 1 + (unsigned)(random() % 3),
                     random() % 8 ? 1 + (uint32_t)(random() % 9) : 0);
            if (v->kind == LOST_DIRECT)
                v->hangs = (uint32_t)(random() % 4), v->hangs_bytes = v->hangs * 48;
            if (v->kind == LOST_INDIRECT) v->head = blocks[(unsigned)random() % block_count].block;
        }
        expect_sums();
    }
}
END_TEST

/* Without memory the sums are right all the same; without any, there is no result. */
START_TEST(without_memory)
{
    for (uint32_t i = 0; i < 3000; i++) {
        lose((enum lost_kind)(i % 3), 48 + 16 * (i % 50), 10 + i % 80, 1, 0);
        lose((enum lost_kind)(i % 3), 48 + 16 * (i % 50), 0, 0, 1 + i % 9);
    }
    for (unsigned skip = 3; skip < 14; skip++) {
        site_count = 0;
        os_fail_mappings(skip, 1000);
        struct lost_sites *l = lost_sites_make();
        os_fail_mappings(0, 0);
        ck_assert_ptr_nonnull(l);
        uint64_t objects = 0;
        lost_sites_each(l, keep, NULL);
        lost_sites_free(l);
        for (unsigned i = 0; i < site_count; i++) objects += sites[i].objects;
        ck_assert_uint_eq(objects, 6000);
    }
    for (unsigned skip = 0; skip < 3; skip++) {
        os_fail_mappings(skip, 1000);
        struct lost_sites *l = lost_sites_make();
        os_fail_mappings(0, 0);
        ck_assert_ptr_null(l);
    }
}
END_TEST

/* Three stacks lost 600, 300 and 100 blocks at one caller; each block is tracked with the same probability.  Over many such
   samples the estimates' mean is the truth, and the limits contain it in 95 of 100 cases. */
START_TEST(unbiased_and_covered)
{
    static const unsigned truth[3] = {600, 300, 100};
    static const double chances[] = {0.01, 0.05, 0.3};
    enum { ROUNDS = 500 };
    double chance = chances[_i], sum[3] = {0}, squares[3] = {0}, used = 0;
    unsigned covered = 0, estimates = 0;
    srandom(11);
    for (int round = 0; round < ROUNDS; round++) {
        unsigned tracked = 0;
        block_count = 0;
        for (uint32_t s = 0; s < 3; s++)
            for (unsigned i = 0; i < truth[s]; i++) {
                bool is = (double)random() < chance * 0x1p31;
                lose(LOST_DIRECT, 64, is ? 10 + s : 0, 1, 1);
                tracked += is;
            }
        sum_up();
        for (unsigned i = 0; i < site_count; i++) {
            if (sites[i].place.where != LOST_AT_SITE) continue;
            uint32_t s = site_stack(sites[i].place.number) - 10;
            sum[s] += (double)sites[i].objects;
            squares[s] += (double)sites[i].objects * (double)sites[i].objects;
            covered +=
                sites[i].objects_limits.low <= truth[s] && truth[s] <= sites[i].objects_limits.high;
            estimates++;
        }
        used += tracked > 0;
        for (unsigned i = 0; i < block_count; i++) {
            struct tracked_view was;
            if (tag_entry(blocks[i].tag))
                tracked_remove(NULL, tag_entry(blocks[i].tag), blocks[i].block, &was);
        }
    }
    for (int s = 0; s < 3; s++) {
        double mean = sum[s] / used, deviation = sqrt(squares[s] / used - mean * mean);
        ck_assert_double_eq_tol(mean, truth[s], 4 * deviation / sqrt(used));
    }
    ck_assert_msg(covered >= 0.93 * estimates, "%u of %u", covered, estimates);
}
END_TEST

/* As the snapshot child does it: a raw clone, no libc set up in the child. */
START_TEST(raw_clone)
{
    for (uint32_t i = 0; i < 100; i++) lose(LOST_DIRECT, 48, i % 2 ? 10 : 0, 1, 1);
    long child = raw_syscall(SYS_clone, CLONE_FILES | CLONE_FS, 0L, 0L, 0L, 0L);
    if (child == 0) {
        struct lost_sites *l = lost_sites_make();
        raw_syscall(SYS_exit_group, l ? 42L : 1L);
    }
    int status;
    ck_assert_int_eq(waitpid((pid_t)child, &status, __WALL), child);
    ck_assert_int_eq(WEXITSTATUS(status), 42);
}
END_TEST

/* Proofs: by place; what a collection reached again is none. */
static uint64_t false_objects, false_bytes, false_places;

static void count_false(const struct false_lost *f, void *user)
{
    const struct lost_place *wanted = user;
    if (wanted && (f->place.where != wanted->where || f->place.number != wanted->number)) return;
    false_objects += f->objects;
    false_bytes += f->bytes;
    false_places++;
}

static void count_falses(struct lost_place *wanted)
{
    false_objects = false_bytes = false_places = 0;
    false_lost_each(count_false, wanted);
}

START_TEST(proofs)
{
    struct lost_view *v = lose(LOST_DIRECT, 48, 10, 1, 0);
    struct lost_place site = {LOST_AT_SITE, site_find(10, 48, HEAP_MALLOC, 0)},
                      caller = {LOST_AT_CALLER, 3};
    false_lost_note(NULL, v->tag, 48, PROOF_FREED);
    false_lost_note(NULL, v->tag, 48, PROOF_WRITTEN);
    false_lost_note(NULL, v->tag, 48, PROOF_REACHED);
    false_lost_note(NULL, TAG_LOST | TAG_CALLER | 3, 96, PROOF_RESIZED);
    false_lost_note(NULL, TAG_LOST, 16, PROOF_FREED);
    count_falses(&site);
    ck_assert_uint_eq(false_objects, 2);
    ck_assert_uint_eq(false_bytes, 96);
    count_falses(&caller);
    ck_assert_uint_eq(false_objects, 1);
    ck_assert_uint_eq(false_bytes, 96);
    count_falses(NULL);
    ck_assert_uint_eq(false_objects, 4);
    ck_assert_uint_eq(false_places, 3);
}
END_TEST

/* More places than are kept apart: the others are counted, without a place. */
START_TEST(proofs_are_bounded)
{
    callers = 3 * FALSE_LOST_PLACES;
    for (uint32_t i = 1; i <= callers; i++) false_lost_note(NULL, TAG_CALLER | i, 32, PROOF_FREED);
    struct lost_place nowhere = {LOST_NOWHERE, 0};
    count_falses(&nowhere);
    ck_assert_uint_eq(false_objects, 2 * FALSE_LOST_PLACES);
    count_falses(NULL);
    ck_assert_uint_eq(false_objects, callers);
    ck_assert_uint_eq(false_bytes, 32 * (uint64_t)callers);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lost sites");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, NULL);
    tcase_add_test(tests, exact);
    tcase_add_test(tests, large_bytes);
    tcase_add_test(tests, shared_by_caller);
    tcase_add_test(tests, shared_by_area);
    tcase_add_test(tests, many_records_of_one_stack);
    tcase_add_test(tests, sums_are_exact);
    tcase_add_test(tests, without_memory);
    tcase_add_loop_test(tests, unbiased_and_covered, 0, 3);
    tcase_add_test(tests, raw_clone);
    tcase_add_test(tests, proofs);
    tcase_add_test(tests, proofs_are_bounded);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
