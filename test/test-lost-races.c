/* test-lost-races.c: a block is freed, freed and allocated anew, or resized, between any two steps by which a verdict that names it is applied.
   What the program has afterwards is not lost, and counts as no proof when it is freed.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "heap/heap.h"
#include "heap/lost_record.h"
#include "heap/os.h"
#include "heap/pool.h"
#include "heap/white.h"
#include "suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned misuses;
static void misuse(enum heap_misuse kind, void *address, void *block, size_t size, uint32_t entry) { misuses++; }
static const struct heap_hooks hooks = {.misuse = misuse};

static void complain(const char *line) { fprintf(stderr, "%s\n", line); }

/* The last: a free looks at the block before it is made lost, and marks it free afterwards (the fast path: fast.h). */
enum then { FREE, FREE_AND_ALLOCATE, RESIZE, SLIPPING_FREE, SLIPPING_FREE_AND_ALLOCATE, THENS };

static struct {
    enum then then;
    enum lost_step at;
    bool done;
    size_t size;
    void *lost, *kept;
} program;

static bool slips(void) { return program.then >= SLIPPING_FREE; }

static void act(enum lost_step step)
{
    if (step != program.at || program.done) return;
    program.done = true;
    if (slips()) *state_of(program.lost, program.size > 1024) &= STATE_CLASS; /* what that free has seen */
    if (program.then == RESIZE) program.kept = heap_realloc(program.lost, program.size * 3);
    else heap_free(program.lost);
    if (program.then == FREE_AND_ALLOCATE || program.then == SLIPPING_FREE_AND_ALLOCATE) program.kept = heap_malloc(program.size);
}

static struct verdict *verdict;
static uint32_t number;

static void make_all_old(void)
{
    struct white_young young;
    white_make_old(&young, NULL);
}

/* A collection that misses the block, or none. */
static uint64_t apply(void *block)
{
    uint64_t bytes;
    *verdict = (struct verdict){.complete = true, .room = 1, .count = block != NULL};
    verdict->block[0] = (struct verdict_block){.block = (uintptr_t)block | (uint64_t)LOST_DIRECT << 48};
    number++;
    return lost_apply(verdict, 2000 + number, 1000 + number, number, &bytes);
}

static uint64_t proofs(void)
{
    struct lost_totals t;
    lost_totals(&t);
    uint64_t sum = 0;
    for (unsigned i = 0; i < PROOFS; i++) sum += t.proofs[i];
    return sum;
}

static uint64_t lost_now(void)
{
    struct lost_totals t;
    uint64_t of[HEAP_CLASSES], sum = 0;
    lost_totals(&t);
    lost_of_classes(of);
    for (unsigned i = 0; i < HEAP_CLASSES; i++) sum += of[i];
    ck_assert_uint_eq(sum, t.lost);
    return sum;
}

static const size_t sizes[] = {16, 100, 3000, 100000};
#define SIZES 4
#define LOOPS (SIZES * THENS * LOST_STEPS * 2)

/* False where there is no such case. */
static bool begin(int loop)
{
    program.size = sizes[loop % SIZES];
    program.then = loop / SIZES % THENS;
    program.at = loop / SIZES / THENS % LOST_STEPS;
    bool large = program.size > 32 * KIB;
    if ((large && (slips() || program.at == LOST_TAGGED)) || (slips() && program.at != LOST_MADE)) return false;
    verdict = calloc(1, sizeof *verdict + sizeof verdict->block[0]);
    heap_start(&(struct heap_options){.watch = loop / SIZES / THENS / LOST_STEPS});
    heap_set_hooks(&hooks);
    lost_step = act;
    program.lost = heap_malloc(program.size);
    make_all_old();
    return true;
}

START_TEST(between_two_steps)
{
    if (!begin(_i)) return;
    uint64_t fresh = apply(program.lost);
    ck_assert(program.done);
    /* Where a large block is, it may have grown before it was called lost: it is the same block then. */
    bool grown = program.then == RESIZE && program.kept == program.lost && program.at != LOST_MADE;
    bool proved = program.at == LOST_MADE && !slips();
    ck_assert_uint_eq(fresh, program.at == LOST_MADE || grown);
    ck_assert_uint_eq(proofs(), proved);
    ck_assert_uint_eq(lost_now(), grown);
    struct lost_view view;
    ck_assert(lost_find(program.lost, &view) == grown);
    if (program.kept) {
        if (program.then != RESIZE) ck_assert_ptr_eq(program.kept, program.lost);
        /* It is old when the next collection looks, and was its own from the beginning. */
        make_all_old();
        ck_assert_uint_eq(lost_now(), grown);
        heap_free(program.kept);
    }
    ck_assert_uint_eq(proofs(), proved + grown);
    ck_assert_uint_eq(lost_now(), 0);
    apply(NULL);
    ck_assert_uint_eq(proofs(), proved + grown);
    ck_assert_uint_eq(misuses, 0);
    ck_assert(heap_verify(complain));
}
END_TEST

/* The next collection misses what lies there now: that is newly lost; what the record before says of its contents does not matter. */
START_TEST(lost_anew)
{
    if (!begin(_i) || (program.then != FREE_AND_ALLOCATE && program.then != SLIPPING_FREE_AND_ALLOCATE)) return;
    apply(program.lost);
    uint64_t before = proofs(), bytes;
    ck_assert_ptr_eq(program.kept, program.lost);
    make_all_old();
    verdict->block[0].block = (uintptr_t)program.kept | (uint64_t)LOST_DIRECT << 48 | VERDICT_WRITTEN;
    verdict->count = 1;
    number++;
    ck_assert_uint_eq(lost_apply(verdict, 2000 + number, 1000 + number, number, &bytes), 1);
    struct lost_view view;
    ck_assert(lost_find(program.kept, &view) && view.first_number == number && view.misses == 1);
    ck_assert_uint_eq(lost_now(), 1);
    ck_assert_uint_eq(proofs(), before);
    heap_free(program.kept);
    ck_assert_uint_eq(proofs(), before + 1);
    ck_assert_uint_eq(lost_now(), 0);
    ck_assert(heap_verify(complain));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("lost races");
    TCase *c = tcase_create("lost races");
    tcase_set_timeout(c, 240);
    tcase_add_loop_test(c, between_two_steps, 0, LOOPS);
    tcase_add_loop_test(c, lost_anew, 0, LOOPS);
    suite_add_tcase(s, c);
    return suite_run(s);
}
