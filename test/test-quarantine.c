/* test-quarantine.c: the rules, the quarantine and the reuse of lost blocks in the heap alone, with verdicts that are made up here; and
   islands against a slow oracle.  After every test the heap's structures hold.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "heap/heap.h"
#include "heap/islands.h"
#include "heap/large_table.h"
#include "heap/lost_hash.h"
#include "heap/os.h"
#include "heap/quarantine.h"
#include "heap/reclaim.h"
#include "heap/reclaim_place.h"
#include "heap/reclaimed.h"
#include "heap/tag.h"
#include "heap/white.h"
#include "random_number.h"
#include "suite.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND 1000000000ull
#define MOST 4096

/* ---- what the layers above would say ---- */

static uint32_t place_now = 1;
static bool library_now;
static _Atomic unsigned vetoes, misuses, offs; /* counted by any thread */
static uint32_t vetoed_place;

static uint32_t place(uint32_t tag, const void *block, uint32_t *caller, bool *library)
{
    *caller = place_now ? 1000 : 0;
    *library = library_now;
    return place_now;
}

static void vetoed(struct heap_thread_hook *hook, uint32_t of, int proof)
{
    vetoes++;
    vetoed_place = of;
}

static void misuse(enum heap_misuse kind, void *address, void *block, size_t size, uint32_t entry)
{
    misuses++;
}

static void reclaim_off(const char *why)
{
    offs++;
}

static const struct heap_hooks hooks = {.place = place, .vetoed = vetoed, .misuse = misuse, .reclaim_off = reclaim_off};

static const struct reclaim_options rules = {
    .delay_ns = 60 * SECOND, .age_ns = 60 * SECOND, .confirmations = 3, .trial = 1, .share = 100};
static const struct reclaim_options forced = {.share = 10};

/* ---- verdicts ---- */

static struct verdict *verdict;
static uint64_t time_now;
static uint32_t number;
static struct reclaim_did did;

static void complain(const char *line)
{
    fprintf(stderr, "%s\n", line);
}

static void begin(const struct reclaim_options *options)
{
    heap_start(&(struct heap_options){.watch = true, .reclaim = true, .decay_ns = 10 * SECOND});
    heap_set_hooks(&hooks);
    reclaim_start(options);
    time_now = os_realtime();
    verdict = calloc(1, sizeof *verdict + MOST * sizeof verdict->block[0]);
    verdict->room = MOST;
}

static void end(void)
{
    if (verdict) ck_assert(heap_verify(complain));
}

/* A block that is filled with a byte, and old. */
static void *lose(size_t bytes, int fill)
{
    void *b = heap_malloc(bytes);
    ck_assert_ptr_nonnull(b);
    memset(b, fill, heap_usable_size(b));
    return b;
}

static void clear(void)
{
    struct white_young young;
    white_make_old(&young, NULL);
    size_t room = verdict->room;
    memset(verdict, 0, sizeof *verdict);
    verdict->room = room;
    verdict->complete = verdict->islands = true;
    verdict->stacks = number;
}

/* The block is one of an island of so many, which begins so many entries before it. */
static struct verdict_block *miss(void *block, unsigned of, unsigned back)
{
    struct verdict_block *b = &verdict->block[verdict->count];
    size_t bytes = heap_usable_size(block);
    ck_assert_uint_gt(bytes, 0);
    struct present present;
    present_start(&present, PRESENT_SCAN);
    *b = (struct verdict_block){.block = (uintptr_t)block | (uint64_t)LOST_DIRECT << 48,
                                .hash = lost_hash_of(&present, (uintptr_t)block, bytes),
                                .head = (uint32_t)verdict->count,
                                .island = (uint32_t)verdict->count - back,
                                .island_blocks = of};
    present_end(&present);
    uint64_t before;
    if (lost_hash((uintptr_t)block, &before) && before != b->hash) b->block |= VERDICT_WRITTEN;
    verdict->count++;
    return b;
}

static void apply(uint64_t seconds)
{
    uint64_t bytes, before = time_now;
    time_now += seconds * SECOND;
    number++;
    lost_apply(verdict, time_now, before, number, &bytes);
    reclaim_cycle(verdict, time_now, number, false, &did);
}

/* One collection that misses these blocks, each alone. */
static void collect(void *const *blocks, unsigned n, uint64_t seconds)
{
    clear();
    for (unsigned i = 0; i < n; i++) miss(blocks[i], 1, 0);
    apply(seconds);
}

static enum eligible_rule rule_of(const void *block)
{
    struct lost_view v;
    ck_assert(lost_find(block, &v));
    return v.quarantined ? ELIGIBLE : v.rule;
}

/* ---- the life of a block ---- */

static const size_t sizes[] = {16, 100, 1000, 5000, 30000, 100000, 5000000};

START_TEST(quarantined_then_reclaimed)
{
    begin(&forced);
    size_t size = sizes[_i];
    void *block[20];
    for (unsigned i = 0; i < 20; i++) block[i] = lose(size, 0x55);
    struct heap_stats before, after;
    heap_stats(&before);
    collect(block, 20, 0);
    heap_stats(&after);
    ck_assert_uint_eq(did.quarantined, 20);
    ck_assert_uint_eq(did.reclaimed, 0);
    ck_assert_uint_eq(after.live, before.live);
    for (unsigned i = 0; i < 20; i++) ck_assert_int_eq(*(char *)block[i], 0x55);
    size_t given = heap_usable_size(block[0]);
    struct lost_totals totals;
    lost_totals(&totals);
    ck_assert_uint_eq(totals.quarantined, 20);
    ck_assert_uint_eq(totals.quarantined_bytes, 20 * given);
    ck_assert(heap_verify(complain));
    collect(block, 20, 0);
    ck_assert_uint_eq(did.reclaimed, 20);
    ck_assert_uint_eq(did.reclaimed_bytes, 20 * given);
    heap_stats(&after);
    ck_assert_uint_eq(after.live, before.live - 20);
    ck_assert_uint_eq(after.live_bytes, before.live_bytes - 20 * given);
    ck_assert_uint_eq(after.freed, before.freed + 20);
    lost_totals(&totals);
    ck_assert_uint_eq(totals.lost, 0);
    uint64_t blocks = 0, bytes = 0;
    for (unsigned c = 0; c < HEAP_CLASSES; c++) {
        uint64_t n, b;
        reclaim_of_class(c, &n, &b);
        blocks += n;
        bytes += b;
    }
    ck_assert_uint_eq(blocks, 20);
    ck_assert_uint_eq(bytes, 20 * given);
    struct reclaim_figures f;
    reclaim_figures(&f);
    ck_assert(f.reclaimed == 20 && f.reclaimed_bytes == 20 * given && f.vetoes == 0 && !f.off_why);
    for (unsigned i = 0; i < 20; i++) ck_assert_uint_eq(heap_usable_size(block[i]), 0);
}
END_TEST

/* Until a slot is given out again it holds what it held; its new owner finds nothing of that, and its own double free is one. */
START_TEST(reused)
{
    begin(&forced);
    enum { N = 64 };
    void *block[N], *again[8 * N];
    for (unsigned i = 0; i < N; i++) block[i] = lose(200, 0x55);
    collect(block, N, 0);
    collect(block, N, 0);
    ck_assert_uint_eq(did.reclaimed, N);
    for (unsigned i = 0; i < N; i++) ck_assert_int_eq(((char *)block[i])[150], 0x55);
    unsigned same = 0;
    for (unsigned i = 0; i < 8 * N; i++) {
        again[i] = heap_malloc(200);
        for (unsigned k = 0; k < N; k++) {
            if (again[i] != block[k]) continue;
            same++;
            for (unsigned j = 0; j < 200; j++) ck_assert_int_eq(((char *)again[i])[j], 0);
        }
    }
    ck_assert_uint_eq(same, N);
    for (unsigned i = 0; i < 8 * N; i++) heap_free(again[i]);
    ck_assert_uint_eq(misuses, 0);
    heap_free(block[3]);
    ck_assert_uint_eq(misuses, 1);
    ck_assert_uint_eq(vetoes, 0);
}
END_TEST

START_TEST(freed_late)
{
    begin(&forced);
    void *block[10];
    for (unsigned i = 0; i < 10; i++) block[i] = lose(sizes[_i], 0x55);
    collect(block, 10, 0);
    /* In quarantine: freed as any block, a proof. */
    heap_free(block[0]);
    ck_assert_uint_eq(vetoes, 1);
    ck_assert_uint_eq(vetoed_place, 1);
    ck_assert(reclaim_is_on()); /* nothing was reclaimed yet */
    heap_free(block[0]);
    ck_assert_uint_eq(misuses, 1);
    collect(block + 1, 9, 0);
    ck_assert_uint_eq(did.reclaimed, 0);
    for (unsigned i = 1; i < 10; i++) ck_assert_int_eq(rule_of(block[i]), RULE_VETOED);
    /* Another place. */
    place_now = 2;
    void *other[10];
    for (unsigned i = 0; i < 10; i++) other[i] = lose(sizes[_i], 0x66);
    for (unsigned k = 0; k < 2; k++) {
        clear();
        for (unsigned i = 1; i < 10; i++) miss(block[i], 1, 0);
        for (unsigned i = 0; i < 10; i++) miss(other[i], 1, 0);
        apply(0);
    }
    ck_assert_uint_eq(did.reclaimed, 10);
    struct heap_stats before, after;
    heap_stats(&before);
    heap_free(other[5]);
    heap_stats(&after);
    ck_assert_uint_eq(after.live, before.live);
    ck_assert_uint_eq(misuses, 1);
    ck_assert_uint_eq(vetoes, 2);
    ck_assert_uint_eq(vetoed_place, 2);
    ck_assert_uint_eq(offs, 1);
    ck_assert(!reclaim_is_on());
    heap_free(other[5]);
    ck_assert_uint_eq(misuses, 2);
    collect(block + 1, 9, 0);
    for (unsigned i = 1; i < 10; i++) ck_assert_int_eq(rule_of(block[i]), RULE_OFF);
}
END_TEST

/* What kept lost blocks is told as of the latest collection, also where that finds nothing lost. */
START_TEST(nothing_is_lost_any_more)
{
    begin(&forced);
    void *block = lose(100, 0x55);
    struct reclaim_figures f;
    collect(&block, 1, 0);
    reclaim_figures(&f);
    ck_assert_uint_eq(f.rule[ELIGIBLE].blocks, 1);
    heap_free(block);
    clear();
    verdict->islands = false; /* there are none */
    apply(0);
    reclaim_figures(&f);
    for (unsigned i = 0; i < ELIGIBLE_RULES; i++) ck_assert(f.rule[i].blocks == 0 && f.rule[i].bytes == 0);
}
END_TEST

START_TEST(resized_late)
{
    begin(&forced);
    void *block[4], *other[4];
    for (unsigned i = 0; i < 4; i++) block[i] = lose(sizes[_i], 0x55);
    collect(block, 4, 0);
    char *moved = heap_realloc(block[0], 2 * sizes[_i] + 100), *stays = heap_realloc(block[1], sizes[_i] - 1);
    ck_assert(moved && stays);
    for (unsigned i = 0; i < sizes[_i] - 1; i++) ck_assert(moved[i] == 0x55 && stays[i] == 0x55);
    ck_assert_uint_eq(vetoes, 2);
    place_now = 2;
    for (unsigned i = 0; i < 4; i++) other[i] = lose(sizes[_i], 0x66);
    collect(other, 4, 0);
    collect(other, 4, 0);
    ck_assert_uint_eq(did.reclaimed, 4);
    char *late = heap_realloc(other[0], 2 * sizes[_i] + 100);
    ck_assert_ptr_nonnull(late);
    if (sizes[_i] <= 32768)
        for (unsigned i = 0; i < sizes[_i]; i++) ck_assert_int_eq(late[i], 0x66);
    ck_assert_uint_eq(vetoes, 3);
    ck_assert_uint_eq(misuses, 0);
}
END_TEST

/* The pool that a reclaimed slot was in has gone back to its area, and one of another class has come of it. */
START_TEST(pool_gone)
{
    begin(&forced);
    enum { N = 2000 };
    static void *block[N];
    for (unsigned i = 0; i < N; i++) block[i] = lose(800, 0x55);
    collect(block, N, 0);
    collect(block, N, 0);
    ck_assert_uint_eq(did.reclaimed, N);
    heap_trim();
    unsigned gone = 0;
    for (unsigned i = 0; i < N; i++) {
        if (pool_of(block[i], false)->class != 0) continue;
        gone++;
        if (gone == 7) heap_free(block[i]);
    }
    ck_assert_uint_gt(gone, N / 2);
    ck_assert_uint_eq(misuses, 0);
    ck_assert_uint_eq(vetoes, 1);
    ck_assert(heap_verify(complain));
    /* Slots that were not given out since: of the other class nothing was reclaimed. */
    unsigned tried = 0;
    for (unsigned i = 0; i < 300; i++) {
        struct pool *p = pool_of(heap_malloc(600), false);
        void *last = slot_address(p, 39); /* the last one that there was, of 816 bytes */
        if (state_is_live(*state_of(last, false))) continue;
        heap_free(last);
        ck_assert_uint_eq(misuses, ++tried);
    }
    ck_assert_uint_gt(tried, 20);
    ck_assert_uint_eq(vetoes, 1);
}
END_TEST

/* A free that comes when reclaim has claimed the block already leaves it alone. */
START_TEST(claimed)
{
    begin(&forced);
    void *block = lose(sizes[_i], 0x55);
    collect(&block, 1, 0);
    ck_assert(lost_claim(lost_record_find((uintptr_t)block, 0)));
    struct heap_stats before, after;
    heap_stats(&before);
    heap_free(block);
    heap_stats(&after);
    ck_assert_uint_eq(after.live, before.live);
    ck_assert_uint_ne(heap_usable_size(block), 0);
    ck_assert_uint_eq(vetoes, 1);
    ck_assert_uint_eq(misuses, 0);
}
END_TEST

/* ---- the rules ---- */

/* Four collections, 30 seconds apart, after the place has condemned others long before; then one more. */
static void live_through(void **block, unsigned n)
{
    for (unsigned i = 0; i < 4; i++) collect(block, n, 30);
}

static void condemn_others(void)
{
    void *others[3];
    time_now += 100 * SECOND;
    for (unsigned i = 0; i < 3; i++) others[i] = lose(64, 0x77);
    live_through(others, 3);
    for (unsigned i = 0; i < 3; i++) ck_assert_int_eq(rule_of(others[i]), RULE_TRIAL);
    time_now += 100 * SECOND;
    collect(NULL, 0, 0);
    for (unsigned i = 0; i < 3; i++) heap_free(others[i]);
    ck_assert_uint_eq(vetoes, 0); /* they were reached again */
}

START_TEST(all_rules_met)
{
    begin(&rules);
    condemn_others();
    void *block[2] = {lose(100, 1), lose(200, 2)};
    collect(block, 2, 30);
    ck_assert_int_eq(rule_of(block[0]), RULE_CONFIRMATIONS);
    collect(block, 2, 10);
    ck_assert_int_eq(rule_of(block[0]), RULE_CONFIRMATIONS);
    collect(block, 2, 10);
    ck_assert_int_eq(rule_of(block[0]), RULE_AGE);
    collect(block, 2, 39);
    ck_assert_int_eq(rule_of(block[0]), RULE_AGE);
    collect(block, 2, 2);
    ck_assert_int_eq(rule_of(block[0]), ELIGIBLE);
    ck_assert_uint_eq(did.quarantined, 2);
    collect(block, 2, 2);
    ck_assert_uint_eq(did.reclaimed, 2);
}
END_TEST

/* At the same place of all threads a miss counts no second time, until ten seconds have passed. */
START_TEST(same_stacks)
{
    begin(&rules);
    condemn_others();
    void *block = lose(100, 1);
    for (unsigned i = 0; i < 5; i++) {
        clear();
        verdict->stacks = 7;
        miss(block, 1, 0);
        apply(1);
        ck_assert_int_eq(rule_of(block), RULE_CONFIRMATIONS);
    }
    for (unsigned i = 0; i < 2; i++) {
        clear();
        verdict->stacks = 7;
        miss(block, 1, 0);
        apply(11);
    }
    ck_assert_int_eq(rule_of(block), RULE_AGE);
}
END_TEST

/* What is missed, reached, and missed again begins anew. */
START_TEST(reached_between)
{
    begin(&rules);
    condemn_others();
    void *block = lose(100, 1);
    for (unsigned i = 0; i < 3; i++) collect(&block, 1, 30);
    ck_assert_int_eq(rule_of(block), ELIGIBLE);
    collect(NULL, 0, 30);
    struct lost_view v;
    ck_assert(!lost_find(block, &v));
    ck_assert_uint_eq(heap_usable_size(block), 112);
    collect(&block, 1, 30);
    ck_assert_int_eq(rule_of(block), RULE_CONFIRMATIONS);
    ck_assert_uint_eq(vetoes, 0);
}
END_TEST

START_TEST(each_rule)
{
    struct reclaim_options o = rules;
    static const enum eligible_rule expected[] = {RULE_START, RULE_NO_PLACE, RULE_LIBRARY, RULE_VETOED, RULE_TRIAL,
                                                  RULE_FREED_MEMORY, RULE_CONTENTS, RULE_EXOTIC, RULE_BUDGET, RULE_GROUP};
    enum eligible_rule rule = expected[_i];
    if (rule == RULE_START) o.delay_ns = 10000 * SECOND;
    if (rule == RULE_BUDGET) o.share = 1;
    begin(&o);
    if (rule != RULE_TRIAL && rule != RULE_START) condemn_others();
    if (rule == RULE_TRIAL) time_now += 100 * SECOND;
    if (rule == RULE_NO_PLACE) place_now = 0;
    if (rule == RULE_LIBRARY) library_now = true;
    size_t size = rule == RULE_BUDGET ? 30000 : 100;
    enum { N = 300 };
    void *block[N];
    for (unsigned i = 0; i < N; i++) block[i] = lose(size, 1);
    if (rule == RULE_VETOED) {
        void *used = lose(100, 3);
        collect(&used, 1, 1);
        heap_free(used);
        ck_assert_uint_eq(vetoes, 1);
    }
    for (unsigned k = 0; k < 4; k++) {
        clear();
        for (unsigned i = 0; i < N; i++) {
            struct verdict_block *b = miss(block[i], rule == RULE_GROUP ? 2 : 1, rule == RULE_GROUP ? i % 2 : 0);
            if (rule == RULE_FREED_MEMORY) b->block |= VERDICT_FREED;
            if (rule == RULE_CONTENTS) b->hash = 0, b->block &= ~VERDICT_WRITTEN;
            if (rule == RULE_EXOTIC) b->block += (uint64_t)(LOST_POSSIBLE - LOST_DIRECT) << 48;
            if (rule == RULE_GROUP && i % 2) b->block |= VERDICT_FREED;
        }
        apply(30);
    }
    if (rule == RULE_BUDGET) {
        struct reclaim_figures f;
        reclaim_figures(&f);
        /* 4 MiB a collection are 128 of these; twice so many were let in. */
        size_t most = 4 * MIB / heap_usable_size(block[N - 1]);
        ck_assert_uint_eq(did.reclaimed, most);
        ck_assert_uint_eq(did.quarantined, most);
        ck_assert_uint_eq(f.rule[RULE_BUDGET].blocks, N - 2 * most);
        return;
    }
    ck_assert_uint_eq(did.quarantined, 0);
    ck_assert_uint_eq(did.reclaimed, 0);
    ck_assert_int_eq(rule_of(block[0]), rule);
    struct reclaim_figures f;
    reclaim_figures(&f);
    ck_assert_uint_eq(f.rule[rule].blocks, rule == RULE_GROUP ? N / 2 : N);
}
END_TEST

/* What is written in quarantine is proven; what is connected with it comes back. */
START_TEST(written_in_quarantine)
{
    begin(&forced);
    void *block[4];
    for (unsigned i = 0; i < 4; i++) block[i] = lose(100, 1);
    for (unsigned k = 0; k < 2; k++) {
        clear();
        for (unsigned i = 0; i < 4; i++) miss(block[i], 2, i % 2);
        apply(0);
        if (k == 0) ((char *)block[1])[50] = 9;
    }
    ck_assert_uint_eq(did.reclaimed, 0); /* their place is vetoed, all four have the same */
    ck_assert_uint_eq(vetoes, 1);
    ck_assert(heap_is_ignored(block[1]));
    for (unsigned i = 0; i < 4; i++) ck_assert_uint_eq(heap_usable_size(block[i]), 112);
}
END_TEST

/* Written between the collection's cut and its verdict. */
START_TEST(written_since_the_cut)
{
    begin(&forced);
    void *block[4];
    for (unsigned i = 0; i < 4; i++) block[i] = lose(100, 1);
    collect(block, 4, 0);
    clear();
    for (unsigned i = 0; i < 4; i++) miss(block[i], 2, i % 2);
    ((char *)block[2])[20] = 5;
    apply(0);
    ck_assert_uint_eq(did.reclaimed, 2);
    ck_assert_uint_eq(heap_usable_size(block[2]), 112);
    ck_assert_uint_eq(heap_usable_size(block[3]), 112);
    ck_assert_int_eq(rule_of(block[2]), RULE_CONTENTS);
    ck_assert_int_eq(rule_of(block[3]), RULE_GROUP);
}
END_TEST

/* A list that had no room lacks blocks of an island: nothing of it goes. */
START_TEST(part_of_an_island)
{
    begin(&forced);
    void *block[6];
    for (unsigned i = 0; i < 6; i++) block[i] = lose(100, 1);
    for (unsigned k = 0; k < 2; k++) {
        clear();
        for (unsigned i = 0; i < 6; i++) miss(block[i], i < 3 ? 3 : 4, i % 3);
        verdict->truncated = 1;
        apply(0);
    }
    for (unsigned i = 0; i < 6; i++) ck_assert_uint_eq(heap_usable_size(block[i]), i < 3 ? 0 : 112);
    ck_assert_int_eq(rule_of(block[4]), RULE_GROUP);
}
END_TEST

/* ---- who is first ---- */

static void *contested[MOST];
static pthread_barrier_t start;

static void *free_all(void *unused)
{
    pthread_barrier_wait(&start);
    for (unsigned i = 0; i < MOST; i++) heap_free(contested[MOST - 1 - i]);
    return NULL;
}

/* A thread frees what is being reclaimed: each block goes back once. */
START_TEST(free_races_reclaim)
{
    begin(&forced);
    pthread_barrier_init(&start, NULL, 2);
    struct heap_stats before, after;
    static const size_t mixed[] = {16, 100, 3000, 100000};
    heap_stats(&before);
    for (unsigned i = 0; i < MOST; i++) contested[i] = lose(mixed[i % (_i % 2 ? 4 : 3)], 1);
    collect(contested, MOST, 0);
    ck_assert_uint_eq(did.quarantined, MOST);
    clear();
    for (unsigned i = 0; i < MOST; i++) miss(contested[i], 1, 0);
    pthread_t t;
    heap_before_thread();
    pthread_create(&t, NULL, free_all, NULL);
    pthread_barrier_wait(&start);
    apply(0);
    pthread_join(t, NULL);
    struct reclaim_figures f;
    struct lost_totals totals;
    reclaim_figures(&f);
    lost_totals(&totals);
    heap_stats(&after);
    ck_assert_uint_eq(after.live, before.live);
    ck_assert_uint_eq(after.live_bytes, before.live_bytes);
    ck_assert_uint_eq(misuses, 0);
    ck_assert_uint_eq(vetoes, MOST); /* each free is one, of a block that was reclaimed or was about to be */
    ck_assert_uint_eq(totals.lost, 0);
    ck_assert_uint_ge(f.reclaimed + totals.proofs[PROOF_FREED] + f.late, MOST);
}
END_TEST

static bool reclaimed_now;
static void reclaim_at(enum lost_step step)
{
    size_t given;
    if (step == LOST_FOUND && !reclaimed_now) reclaimed_now = quarantine_reuse(lost_record_find((uintptr_t)contested[0], 0), &given);
}

/* It is reclaimed after its free has found the record, and before that could end it: the free comes late. */
START_TEST(reclaimed_under_a_free)
{
    begin(&forced);
    const size_t bytes = _i ? 3000 : 100;
    contested[0] = lose(bytes, 1);
    collect(contested, 1, 0);
    ck_assert_uint_eq(did.quarantined, 1);
    reclaimed_now = false;
    lost_step = reclaim_at;
    heap_free(contested[0]);
    lost_step = NULL;
    ck_assert(reclaimed_now);
    ck_assert_uint_eq(vetoes, 1);
    ck_assert_uint_eq(misuses, 0);
    struct reclaim_figures f;
    reclaim_figures(&f);
    ck_assert_uint_eq(f.late, 1);
    ck_assert(heap_verify(complain));
    /* The slot is given out once. */
    void *again[2] = {heap_malloc(bytes), heap_malloc(bytes)};
    ck_assert_ptr_ne(again[0], again[1]);
}
END_TEST

static enum lost_step late_step;
static void collect_at(enum lost_step step)
{
    if (step == late_step && !reclaimed_now) apply(0);
    reclaimed_now |= step == late_step;
}

/* A collection comes by when a free has taken the block's tag, or has looked for the record: the free proves the block all the same, once, and
   at its place.  Then another block lies there, and its free is one like any. */
START_TEST(collected_under_a_free)
{
    begin(&forced);
    static const size_t bytes[] = {100, 3000, 100000};
    static const enum lost_step steps[] = {LOST_TAKEN, LOST_FOUND};
    late_step = steps[_i % 2];
    void *block = lose(bytes[_i / 2 % 3], 1);
    bool confirmed = _i / 6 == 0;
    collect(&block, 1, 0);
    ck_assert_uint_eq(did.quarantined, 1);
    clear();
    if (confirmed) miss(block, 1, 0);
    reclaimed_now = false;
    lost_step = collect_at;
    heap_free(block);
    lost_step = NULL;
    ck_assert(reclaimed_now);
    ck_assert_uint_eq(vetoes, 1);
    ck_assert_uint_eq(vetoed_place, place_now);
    ck_assert_uint_eq(misuses, 0);
    struct lost_totals totals;
    lost_totals(&totals);
    ck_assert_uint_eq(totals.lost, 0);
    ck_assert(heap_verify(complain));
    void *again = lose(bytes[_i / 2 % 3], 1);
    collect(&again, 1, 0); /* is lost, but stays: its place has a veto */
    lost_totals(&totals);
    ck_assert_uint_eq(totals.lost, 1);
    ck_assert_int_eq(rule_of(again), RULE_VETOED);
    heap_free(again);
    ck_assert_uint_eq(vetoes, 2);
    lost_totals(&totals);
    ck_assert_uint_eq(totals.lost, 0);
    ck_assert_uint_eq(totals.proofs[PROOF_FREED], 2);
}
END_TEST

/* ---- places ---- */

START_TEST(places)
{
    uint32_t first;
    ck_assert(!reclaim_place_know(0, 0));
    ck_assert(!reclaim_place_know(RECLAIM_PLACES, 0));
    ck_assert(reclaim_place_is_vetoed(5)); /* unknown */
    for (uint32_t i = 1; i < 5; i++) ck_assert(reclaim_place_know(i, 900));
    ck_assert(reclaim_place_know(900, 900));
    ck_assert(!reclaim_place_is_vetoed(1) && !reclaim_place_is_vetoed(900));
    /* A proof against a stack is one against its caller's other blocks, whose stack is not known; not against other stacks. */
    reclaim_place_veto(2);
    ck_assert(reclaim_place_is_vetoed(2) && reclaim_place_is_vetoed(900) && !reclaim_place_is_vetoed(1));
    /* One against a block of which only the caller is known is one against all its stacks. */
    reclaim_place_veto(900);
    ck_assert(reclaim_place_is_vetoed(1));
    reclaim_place_condemn(3, 10, 77);
    reclaim_place_condemn(3, 10, 77);
    ck_assert_uint_eq(reclaim_place_condemned_before(3, 10, &first), 0);
    ck_assert_uint_eq(reclaim_place_condemned_before(3, 11, &first), 2);
    reclaim_place_condemn(3, 12, 99);
    ck_assert_uint_eq(reclaim_place_condemned_before(3, 12, &first), 2);
    ck_assert_uint_eq(reclaim_place_condemned_before(3, 13, &first), 3);
    ck_assert_uint_eq(first, 77);
}
END_TEST

/* ---- islands ---- */

START_TEST(islands_against_an_oracle)
{
    enum { N = 60 };
    static const size_t some[] = {64, 500, 4000, 60000, 400000};
    heap_start(NULL);
    random_state += (uint64_t)_i * 7919;
    uintptr_t *block[N];
    unsigned of[N];
    for (unsigned i = 0; i < N; i++) {
        size_t bytes = some[random_number() % 5];
        block[i] = heap_malloc(bytes);
        memset(block[i], 0, bytes);
        of[i] = i;
    }
    for (unsigned e = random_number() % N; e > 0; e--) {
        unsigned a = random_number() % N, b = random_number() % N;
        size_t words = heap_usable_size(block[a]) / 8;
        block[a][random_number() % words] = (uintptr_t)block[b] + random_number() % (heap_usable_size(block[b]) - 8);
    }
    bool changed = true; /* the oracle: every word of every block, until nothing changes */
    while (changed) {
        changed = false;
        for (unsigned a = 0; a < N; a++)
            for (size_t k = 0; k < heap_usable_size(block[a]) / 8; k++)
                for (unsigned b = 0; block[a][k] != 0 && b < N; b++) {
                    uintptr_t at = block[a][k] - (uintptr_t)block[b];
                    if (at >= heap_usable_size(block[b]) || of[a] == of[b]) continue;
                    unsigned low = of[a] < of[b] ? of[a] : of[b];
                    of[a] = of[b] = low;
                    changed = true;
                }
    }
    struct white white;
    struct groups groups;
    struct islands islands;
    ck_assert(white_make(&white, WHITE_LIVE));
    ck_assert(groups_find(&groups, &white, 0));
    ck_assert(islands_find(&islands, &groups, &white, 0));
    size_t at[N];
    for (unsigned i = 0; i < N; i++) {
        for (at[i] = 0; groups.block[at[i]].block.start != (uintptr_t)block[i]; at[i]++) ck_assert_uint_lt(at[i], groups.count);
    }
    for (unsigned i = 0; i < N; i++) {
        unsigned blocks = 0;
        for (unsigned k = 0; k < N; k++) {
            ck_assert_int_eq(islands.of[at[i]] == islands.of[at[k]], of[i] == of[k]);
            blocks += of[i] == of[k];
        }
        ck_assert_uint_le(islands.of[at[i]], at[i]);
        ck_assert_uint_eq(islands.blocks[islands.of[at[i]]], blocks);
    }
    islands_free(&islands);
    groups_free(&groups);
    white_free(&white);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("quarantine");
    TCase *c = tcase_create("all");
    int n = (int)(sizeof sizes / sizeof *sizes);
    tcase_set_timeout(c, 120);
    tcase_add_checked_fixture(c, NULL, end);
    tcase_add_loop_test(c, quarantined_then_reclaimed, 0, n);
    tcase_add_test(c, reused);
    tcase_add_loop_test(c, freed_late, 0, n);
    tcase_add_loop_test(c, resized_late, 0, n);
    tcase_add_test(c, nothing_is_lost_any_more);
    tcase_add_test(c, pool_gone);
    tcase_add_loop_test(c, claimed, 0, 5); /* of large ones the free wins */
    tcase_add_test(c, all_rules_met);
    tcase_add_test(c, same_stacks);
    tcase_add_test(c, reached_between);
    tcase_add_loop_test(c, each_rule, 0, 10);
    tcase_add_test(c, written_in_quarantine);
    tcase_add_test(c, written_since_the_cut);
    tcase_add_test(c, part_of_an_island);
    tcase_add_loop_test(c, free_races_reclaim, 0, 6);
    tcase_add_loop_test(c, reclaimed_under_a_free, 0, 2);
    tcase_add_loop_test(c, collected_under_a_free, 0, 12);
    tcase_add_test(c, places);
    tcase_add_loop_test(c, islands_against_an_oracle, 0, 40);
    suite_add_tcase(s, c);
    return suite_run(s);
}
