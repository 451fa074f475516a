/* test-mark.c: white blocks and marking against a slow oracle on random graphs.

   The oracle knows every block by its number; edges are remembered apart from the heap, reachability is a fixed point over them.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "random_number.h"
#include "heap/collect.h"
#include "heap/heap.h"
#include "heap/mark_team.h"
#include "suite.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS 3000
#define EDGES 4

struct node {
    uintptr_t block;
    size_t asked, given;
    unsigned edge[EDGES]; /* numbers of other nodes; BLOCKS: none */
    bool live, reached;
};

static struct node node[BLOCKS];
static size_t random_size(void)
{
    switch (random_number() % 20) {
    case 0: return 1100 + random_number() % 30000;
    case 1: return 40000 + random_number() % 400000;
    default: return 32 + random_number() % 900;
    }
}

/* A word that leads to the node, in one of the forms that count. */
static uintptr_t pointer_to(const struct node *n)
{
    uintptr_t plain = n->block;
    switch (random_number() % 6) {
    case 0: plain += random_number() % n->asked; break;
    case 1: plain += n->asked - 1; break;
    }
    switch (random_number() % 6) {
    case 0: return plain | (random_number() & 0xffff) << 48;
    case 1: return mangled(plain);
    }
    return plain;
}

/* Words that lead nowhere: not into any block, in no form. */
static uintptr_t noise(void)
{
    for (;;) {
        uintptr_t w = random_number();
        if (mark_plain(w) - window_base >= WINDOW_BYTES && mark_demangled(w, GUARD) - window_base >= WINDOW_BYTES)
            return w;
    }
}

static void build(uint64_t seed)
{
    random_state = seed * 0x9e3779b97f4a7c15u + 1;
    for (unsigned i = 0; i < BLOCKS; i++) {
        struct node *n = &node[i];
        n->asked = random_size();
        n->block = (uintptr_t)heap_malloc(n->asked);
        n->given = heap_usable_size((void *)n->block);
        n->live = true;
        for (size_t w = 0; w + 8 <= n->given; w += 8) {
            uintptr_t x = noise();
            memcpy((char *)n->block + w, &x, 8);
        }
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        for (unsigned e = 0; e < EDGES; e++) {
            node[i].edge[e] = random_number() % 3 == 0 ? (unsigned)(random_number() % BLOCKS) : BLOCKS;
            if (node[i].edge[e] == BLOCKS) continue;
            uintptr_t x = pointer_to(&node[node[i].edge[e]]);
            memcpy((char *)node[i].block + 8 * e, &x, 8);
        }
    /* Some die again: pointers to them stay, and lead to nothing.  (Not large ones: a pointer to where one began may be the end of
       its neighbour.) */
    for (unsigned i = 0; i < BLOCKS; i++)
        if (node[i].asked <= 32768 && random_number() % 10 == 0) {
            heap_free((void *)node[i].block);
            node[i].live = false;
        }
}

static void spread(void)
{
    for (bool more = true; more;) {
        more = false;
        for (unsigned i = 0; i < BLOCKS; i++) {
            if (!node[i].reached || !node[i].live) continue;
            for (unsigned e = 0; e < EDGES; e++) {
                unsigned to = node[i].edge[e];
                if (to == BLOCKS || !node[to].live || node[to].reached) continue;
                node[to].reached = more = true;
            }
        }
    }
}

static void destroy(void)
{
    for (unsigned i = 0; i < BLOCKS; i++)
        if (node[i].live) heap_free((void *)node[i].block);
    memset(node, 0, sizeof node);
}

static bool is_white(const struct white *w, const struct node *n)
{
    struct white_block b;
    ck_assert(white_find(w, n->block, &b));
    ck_assert_uint_eq(b.start, n->block);
    ck_assert_uint_eq(b.bytes, n->given);
    return white_is(w, &b);
}

static bool start_thread(void (*run)(void *), void *argument)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, (void *(*)(void *))(uintptr_t)run, argument) != 0) return false;
    pthread_detach(thread);
    return true;
}

static void check_graph(uint64_t seed, unsigned helpers)
{
    uintptr_t roots[20];
    struct white w;
    struct mark_stats stats;
    struct heap_stats heap;
    build(seed);
    heap_stats(&heap);
    ck_assert(white_make(&w, WHITE_LIVE));
    ck_assert_uint_eq(w.blocks, heap.live);
    ck_assert_uint_eq(w.bytes, heap.live_bytes);
    struct marker *m = mark_start(&w, GUARD, NULL);
    ck_assert_ptr_nonnull(m);
    uint64_t blocks = 0, bytes = 0;
    for (unsigned i = 0; i < 20; i++) {
        unsigned to = (unsigned)(random_number() % BLOCKS);
        roots[i] = pointer_to(&node[to]);
        if (node[to].live) node[to].reached = true;
    }
    spread();
    struct mark_team *team = mark_team_start(m, helpers, start_thread);
    ck_assert_int_eq(team != NULL, helpers > 0);
    mark_words(m, roots, roots + 20);
    mark_drain(m);
    mark_team_end(team);
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (!node[i].live) continue;
        ck_assert_msg(is_white(&w, &node[i]) != node[i].reached, "block %u of %zu bytes, seed %lu: %s", i, node[i].asked,
                      (unsigned long)seed, node[i].reached ? "missed" : "reached by nothing");
        blocks += node[i].reached;
        bytes += node[i].reached ? node[i].given : 0;
    }
    mark_stats(m, &stats);
    ck_assert_uint_eq(stats.blocks, blocks);
    ck_assert_uint_eq(stats.bytes, bytes);
    mark_end(m);
    white_free(&w);
    destroy();
}

START_TEST(reaches_what_the_oracle_reaches)
{
    for (uint64_t seed = 1; seed <= 20; seed++) check_graph(seed * 100 + (uint64_t)_i, 0);
}
END_TEST

START_TEST(a_team_reaches_the_same)
{
    mark_limit_stack(_i == 1 ? 600 : 0); /* deep enough to be shared, and often full */
    for (uint64_t seed = 1; seed <= 10; seed++) check_graph(seed * 77 + (uint64_t)_i, 1 + (unsigned)seed % 3);
    mark_limit_stack(0);
}
END_TEST

/* Wide enough that work is given away. */
START_TEST(a_team_marks_each_block_once)
{
    enum { WIDE = 40000 };
    struct white w;
    struct mark_stats stats;
    random_state = 12345;
    uintptr_t *table = heap_malloc(WIDE * 8);
    for (unsigned i = 0; i < WIDE; i++) {
        uintptr_t *child = heap_malloc(64);
        for (unsigned k = 0; k < 8; k++) child[k] = i > 0 ? table[random_number() % i] : 0;
        table[i] = (uintptr_t)child;
    }
    uintptr_t root = (uintptr_t)table;
    ck_assert(white_make(&w, WHITE_LIVE));
    struct marker *m = mark_start(&w, GUARD, NULL);
    struct mark_team *team = mark_team_start(m, 3, start_thread);
    ck_assert_ptr_nonnull(team);
    mark_words(m, &root, &root + 1);
    mark_drain(m);
    mark_team_end(team);
    mark_stats(m, &stats);
    ck_assert_uint_eq(stats.blocks, WIDE + 1);
    mark_end(m);
    white_free(&w);
    for (unsigned i = 0; i < WIDE; i++) heap_free((void *)table[i]);
    heap_free(table);
}
END_TEST

START_TEST(survives_a_full_stack)
{
    static const size_t rooms[] = {1, 2, 7, 100};
    mark_limit_stack(rooms[_i]);
    for (uint64_t seed = 1; seed <= 5; seed++) check_graph(seed * 1000 + (uint64_t)_i, 0);
    mark_limit_stack(0);
}
END_TEST

START_TEST(counts_rescans_of_a_full_stack)
{
    struct white w;
    struct mark_stats stats;
    uintptr_t *table = heap_malloc(1000 * 8);
    for (unsigned i = 0; i < 1000; i++) table[i] = (uintptr_t)heap_calloc(1, 64);
    uintptr_t root = (uintptr_t)table;
    mark_limit_stack(3);
    ck_assert(white_make(&w, WHITE_LIVE));
    struct marker *m = mark_start(&w, GUARD, NULL);
    mark_words(m, &root, &root + 1);
    mark_drain(m);
    mark_stats(m, &stats);
    ck_assert_uint_eq(stats.blocks, 1001);
    ck_assert_uint_ge(stats.rescans, 1);
    mark_end(m);
    white_free(&w);
    mark_limit_stack(0);
    for (unsigned i = 0; i < 1000; i++) heap_free((void *)table[i]);
    heap_free(table);
}
END_TEST

START_TEST(asks_only_for_young_blocks)
{
    struct white w;
    struct white_young aged;
    void *sizes[3][2];
    static const size_t asked[3] = {48, 5000, 100000};
    for (unsigned i = 0; i < 3; i++) sizes[i][0] = heap_malloc(asked[i]);
    white_make_old(&aged, NULL);
    white_make_old(&aged, NULL);
    ck_assert_uint_eq(aged.blocks, 0); /* nothing was young any more */
    size_t young_bytes = 0;
    for (unsigned i = 0; i < 3; i++) {
        sizes[i][1] = heap_malloc(asked[i]);
        young_bytes += heap_usable_size(sizes[i][1]);
    }
    ck_assert(white_make(&w, WHITE_YOUNG));
    ck_assert_uint_eq(w.blocks, 3);
    ck_assert_uint_eq(w.bytes, young_bytes);
    for (unsigned i = 0; i < 3; i++) {
        struct white_block b;
        ck_assert(heap_is_old(sizes[i][0]) && !heap_is_old(sizes[i][1]));
        ck_assert(white_find(&w, (uintptr_t)sizes[i][0], &b) && !white_is(&w, &b));
        ck_assert(white_find(&w, (uintptr_t)sizes[i][1], &b) && white_is(&w, &b));
    }
    white_make_old(&aged, &w); /* looks at the pools of these three only */
    white_free(&w);
    ck_assert_uint_eq(aged.blocks, 3);
    ck_assert_uint_eq(aged.bytes, young_bytes);
    /* A slot that is freed and given out again is young. */
    for (unsigned i = 0; i < 3; i++) {
        heap_free(sizes[i][1]);
        void *again = heap_malloc(asked[i]);
        ck_assert(!heap_is_old(again));
        heap_free(again);
        heap_free(sizes[i][0]);
    }
    ck_assert(heap_verify(NULL));
}
END_TEST

START_TEST(old_blocks_are_freed_like_others)
{
    static const size_t asked[] = {16, 1000, 1100, 30000, 50000};
    static void *block[5][2000];
    struct white_young aged;
    struct heap_stats before, after;
    heap_stats(&before);
    for (unsigned s = 0; s < 5; s++)
        for (unsigned i = 0; i < 2000; i++) block[s][i] = heap_malloc(asked[s]);
    white_make_old(&aged, NULL);
    for (unsigned s = 0; s < 5; s++)
        for (unsigned i = 0; i < 2000; i++) heap_free(block[s][i]);
    heap_stats(&after);
    ck_assert_uint_eq(after.live, before.live);
    ck_assert(heap_verify(NULL));
}
END_TEST

static uintptr_t seen[4];
static unsigned n_seen;

static void see(uintptr_t start, size_t bytes, void *unused)
{
    ck_assert_uint_lt(n_seen, 4);
    ck_assert_uint_eq(bytes, heap_usable_size((void *)start));
    seen[n_seen++] = start;
}

START_TEST(leaves_out_ignored_blocks)
{
    struct white w;
    void *named[3] = {heap_malloc(100), heap_malloc(3000), heap_malloc(70000)}, *inside;
    for (unsigned i = 0; i < 3; i++) ck_assert(heap_ignore(named[i]));
    ck_assert(!heap_ignore((char *)named[0] + 8));
    heap_ignore_begin();
    inside = heap_malloc(100);
    heap_ignore_end();
    void *after = heap_malloc(100);
    n_seen = 0;
    white_each_ignored(see, NULL);
    ck_assert_uint_eq(n_seen, 4);
    ck_assert(white_make(&w, WHITE_LIVE));
    struct white_block b;
    ck_assert(white_find(&w, (uintptr_t)inside, &b) && !white_is(&w, &b));
    ck_assert(white_find(&w, (uintptr_t)after, &b) && white_is(&w, &b));
    for (unsigned i = 0; i < 3; i++) ck_assert(white_find(&w, (uintptr_t)named[i], &b) && !white_is(&w, &b));
    white_free(&w);
    for (unsigned i = 0; i < 3; i++) heap_free(named[i]);
    heap_free(inside);
    heap_free(after);
    /* The mark goes with the block. */
    n_seen = 0;
    white_each_ignored(see, NULL);
    ck_assert_uint_eq(n_seen, 0);
    ck_assert(heap_verify(NULL));
}
END_TEST

START_TEST(a_large_blocks_end_counts)
{
    struct white w;
    char *block = heap_malloc(1 << 20);
    size_t given = heap_usable_size(block);
    uintptr_t end = (uintptr_t)block + given;
    struct white_block b;
    ck_assert(white_make(&w, WHITE_LIVE));
    struct marker *m = mark_start(&w, 0, NULL);
    mark_words(m, &end, &end + 1);
    mark_drain(m);
    ck_assert(white_find(&w, (uintptr_t)block, &b) && !white_is(&w, &b));
    mark_end(m);
    white_free(&w);
    heap_free(block);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("mark");
    TCase *c = tcase_create("mark");
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, reaches_what_the_oracle_reaches, 0, 3);
    tcase_add_loop_test(c, a_team_reaches_the_same, 0, 2);
    tcase_add_test(c, a_team_marks_each_block_once);
    tcase_add_loop_test(c, survives_a_full_stack, 0, 4);
    tcase_add_test(c, counts_rescans_of_a_full_stack);
    tcase_add_test(c, asks_only_for_young_blocks);
    tcase_add_test(c, old_blocks_are_freed_like_others);
    tcase_add_test(c, leaves_out_ignored_blocks);
    tcase_add_test(c, a_large_blocks_end_counts);
    suite_add_tcase(s, c);
    return suite_run(s);
}
