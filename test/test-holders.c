/* test-holders.c: ways to blocks, and what is retained, against a slow oracle on random graphs.

   The oracle knows blocks by number and keeps the edges apart from the heap.  Words outside lie in an array of the test; their places
   are numbers that it gives out.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "heap/heap.h"
#include "heap/holders.h"
#include "heap/holders_retained.h"
#include "heap/os.h"
#include "random_blocks.h"
#include "suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST 120u
#define WORDS 40u
#define FAR 1000u /* no way */

static bool leads_into(uintptr_t word, uintptr_t block, size_t bytes)
{
    return (word & 0xffffffffffff) - block < bytes || mark_demangled(word, GUARD) - block < bytes;
}

/* ---- the oracle ---- */

struct node {
    uintptr_t block;
    size_t given;
};

static struct node node[MOST];
static bool edge[MOST][MOST];
static unsigned nodes;
static uintptr_t word[WORDS];
static uint64_t place[WORDS]; /* ascending */
static bool second[WORDS];    /* of the second round */
static bool points[WORDS][MOST], reaches[WORDS][MOST];
static unsigned distance[2][MOST]; /* by round: blocks before it */

static void build(unsigned count, unsigned edges, unsigned roots)
{
    nodes = count;
    memset(edge, 0, sizeof edge);
    memset(points, 0, sizeof points);
    for (unsigned i = 0; i < nodes; i++) {
        node[i].block = (uintptr_t)heap_calloc(1, random_size());
        node[i].given = heap_usable_size((void *)node[i].block);
    }
    for (unsigned e = 0; e < edges; e++) {
        unsigned from = (unsigned)(random_number() % nodes), to = (unsigned)(random_number() % nodes);
        ((uintptr_t *)node[from].block)[random_number() % (node[from].given / 8)] = random_pointer(node[to].block, node[to].given);
    }
    for (unsigned w = 0; w < WORDS; w++) {
        place[w] = w ? place[w - 1] + 8 * (1 + random_number() % 20) : 1 << 20;
        if (w < roots) {
            const struct node *to = &node[random_number() % nodes];
            word[w] = random_pointer(to->block, to->given);
        } else {
            word[w] = random_number() % 4096;
        }
        second[w] = random_number() % 3 == 0;
    }
    for (unsigned i = 0; i < nodes; i++) /* as it is at last: a later word may have overwritten an earlier */
        for (size_t at = 0; at < node[i].given / 8; at++) {
            uintptr_t w = ((uintptr_t *)node[i].block)[at];
            for (unsigned j = 0; w != 0 && j < nodes; j++) edge[i][j] |= leads_into(w, node[j].block, node[j].given);
        }
    for (unsigned w = 0; w < WORDS; w++)
        for (unsigned j = 0; j < nodes; j++) points[w][j] = leads_into(word[w], node[j].block, node[j].given);
}

static void solve(void)
{
    for (unsigned w = 0; w < WORDS; w++) {
        memcpy(reaches[w], points[w], sizeof reaches[w]);
        for (bool more = true; more;) {
            more = false;
            for (unsigned i = 0; i < nodes; i++)
                for (unsigned j = 0; reaches[w][i] && j < nodes; j++)
                    if (edge[i][j] && !reaches[w][j]) reaches[w][j] = more = true;
        }
    }
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned j = 0; j < nodes; j++) {
            distance[round][j] = FAR;
            for (unsigned w = 0; w < WORDS; w++)
                if (second[w] == round && points[w][j]) distance[round][j] = 0;
        }
        for (unsigned d = 0; d < nodes; d++) /* Bellman and Ford */
            for (unsigned i = 0; i < nodes; i++)
                for (unsigned j = 0; j < nodes; j++)
                    if (edge[i][j] && distance[round][i] + 1 < distance[round][j]) distance[round][j] = distance[round][i] + 1;
    }
}

static void destroy(void)
{
    for (unsigned i = 0; i < nodes; i++) heap_free((void *)node[i].block);
}

static unsigned node_of(uintptr_t start)
{
    for (unsigned i = 0; i < nodes; i++)
        if (node[i].block == start) return i;
    ck_abort_msg("a step is no block");
}

/* Words of a later round do not count for what an earlier one reaches. */
static bool counts(unsigned w, unsigned i)
{
    return reaches[w][i] && second[w] == (distance[0][i] == FAR);
}

/* ---- against it ---- */

static void find(struct holders *h)
{
    *h = (struct holders){0};
    ck_assert(white_make(&h->white, WHITE_LIVE));
    ck_assert_uint_eq(h->white.blocks, nodes);
    ck_assert(holders_graph_make(&h->graph, &h->white, GUARD));
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned w = 0; w < WORDS; w++)
            if (second[w] == round) holders_graph_words(&h->graph, &word[w], &word[w] + 1, place[w], w);
        ck_assert(holders_graph_spread(&h->graph));
    }
    ck_assert(holders_find_ways(h));
}

/* A way of the shortest length, each of whose steps holds the next; from a word of the first round where there is one. */
static void check_way(const struct holders *h, unsigned i, uint32_t number, size_t room)
{
    struct holders_step step[MOST];
    const struct holders_direct *root;
    size_t left_out, n = holders_way(h, number, step, room, &left_out, &root);
    bool late = distance[0][i] == FAR;
    ck_assert_uint_eq(n + left_out, distance[late][i]);
    ck_assert_uint_eq(n, n + left_out < room ? n + left_out : room);
    ck_assert_uint_eq(second[root->kind], late);
    ck_assert_uint_eq(root->at, place[root->kind]);
    ck_assert(points[root->kind][n ? node_of(step[0].start) : i]);
    for (size_t k = 0; k < n; k++) {
        unsigned from = node_of(step[k].start);
        ck_assert_uint_eq(step[k].bytes, node[from].given);
        ck_assert_uint_lt(step[k].offset, step[k].bytes);
        ck_assert_uint_eq(distance[late][from], k == 0 ? 0 : k + left_out);
        if (k == 0 && left_out) continue;
        unsigned to = k + 1 < n ? node_of(step[k + 1].start) : i;
        uintptr_t w = *(uintptr_t *)(step[k].start + step[k].offset);
        ck_assert(leads_into(w, node[to].block, node[to].given));
    }
}

static void check_ways(const struct holders *h)
{
    unsigned reached = 0;
    for (unsigned i = 0; i < nodes; i++) {
        uint32_t number = holders_graph_number(&h->graph, node[i].block);
        bool expected = distance[0][i] < FAR || distance[1][i] < FAR;
        ck_assert_int_eq(number != HOLDERS_NO_BLOCK, expected);
        ck_assert_uint_eq(holders_graph_number(&h->graph, node[i].block + 8), HOLDERS_NO_BLOCK); /* no block starts there */
        if (!expected) continue;
        reached++;
        check_way(h, i, number, MOST);
        check_way(h, i, number, 2 + random_number() % 4);
    }
    ck_assert_uint_eq(h->graph.count, reached);
}

struct units {
    uint64_t step; /* places that are one unit */
    bool joins;
};

static struct holders_unit unit_of(uint64_t at, void *user)
{
    const struct units *u = user;
    uint64_t from = at / u->step * u->step;
    return (struct holders_unit){from, from + u->step, from % 3 == 0, u->joins};
}

/* What every range of places retains that begins and ends between units. */
static void check_shares(const struct holders_retained *r)
{
    uint64_t all = 0, sum = 0;
    for (size_t a = 0; a < r->units; a++)
        for (size_t b = a; b < r->units; b++) {
            uint64_t blocks = 0, bytes = 0, is_blocks = 0, is_bytes = 0;
            for (unsigned i = 0; i < nodes; i++) {
                bool inside = false, outside = false;
                for (unsigned w = 0; w < WORDS; w++) {
                    if (!counts(w, i)) continue;
                    bool in = place[w] >= r->unit[a].from && place[w] < r->unit[b].to;
                    inside |= in;
                    outside |= !in;
                }
                if (!inside || outside) continue;
                blocks++;
                bytes += node[i].given;
            }
            for (size_t i = 0; i < r->shares; i++) {
                if (r->share[i].low < a || r->share[i].high > b) continue;
                is_blocks += r->share[i].blocks;
                is_bytes += r->share[i].bytes;
            }
            ck_assert_uint_eq(is_blocks, blocks);
            ck_assert_uint_eq(is_bytes, bytes);
        }
    for (size_t i = 0; i < r->shares; i++) {
        ck_assert_uint_le(r->share[i].low, r->share[i].high);
        sum += r->share[i].blocks;
    }
    for (unsigned i = 0; i < nodes; i++) all += distance[0][i] < FAR || distance[1][i] < FAR;
    ck_assert_uint_eq(sum, all);
}

static void check_units(const struct holders *h, const struct holders_retained *r)
{
    for (unsigned i = 0; i < nodes; i++) {
        uint32_t number = holders_graph_number(&h->graph, node[i].block);
        uint64_t low = UINT64_MAX, high = 0;
        if (number == HOLDERS_NO_BLOCK) continue;
        for (unsigned w = 0; w < WORDS; w++) {
            if (!counts(w, i)) continue;
            if (place[w] < low) low = place[w];
            if (place[w] > high) high = place[w];
        }
        ck_assert_uint_eq(r->low[number], holders_unit_at(r, low));
        ck_assert_uint_eq(r->high[number], holders_unit_at(r, high));
        ck_assert(r->unit[r->low[number]].from <= low && low < r->unit[r->low[number]].to);
        ck_assert(r->unit[r->high[number]].from <= high && high < r->unit[r->high[number]].to);
    }
}

static void check_graph(unsigned count, unsigned edges, unsigned roots)
{
    static const struct units units[] = {{8, false}, {64, false}, {8, true}, {400, true}};
    static const size_t most[] = {SIZE_MAX, SIZE_MAX, 3, 1};
    struct holders h;
    build(count, edges, roots);
    solve();
    find(&h);
    check_ways(&h);
    for (unsigned i = 0; i < 4; i++) {
        struct holders_retained r;
        ck_assert(holders_retained_make(&r, &h.graph, unit_of, (void *)&units[i], most[i]));
        ck_assert_ptr_nonnull(r.low);
        check_units(&h, &r);
        check_shares(&r);
        holders_retained_free(&r);
    }
    holders_free(&h);
    destroy();
}

/* From hardly any edge to giant components, with few and many words outside. */
START_TEST(agrees_with_the_oracle)
{
    static const unsigned per_ten[] = {5, 10, 14, 20, 30, 60};
    for (unsigned n = 1; n <= 12; n++) {
        seed(n * 100 + (unsigned)_i);
        unsigned count = 1 + (unsigned)(random_number() % MOST);
        check_graph(count, 1 + count * per_ten[_i] / 10, 1 + (unsigned)(random_number() % WORDS));
    }
}
END_TEST

/* Units of one area join until few are left, and never with another's. */
static struct holders_unit unit_of_two(uint64_t at, void *user)
{
    return (struct holders_unit){at, at + 8, at >= *(uint64_t *)user, true};
}

START_TEST(units_join_within_their_area)
{
    enum { BLOCKS = 300 };
    static uintptr_t words[BLOCKS];
    struct holders h = {0};
    struct holders_retained r;
    uint64_t border = 8 * 100;
    for (unsigned i = 0; i < BLOCKS; i++) words[i] = (uintptr_t)heap_calloc(1, 64);
    ck_assert(white_make(&h.white, WHITE_LIVE));
    ck_assert(holders_graph_make(&h.graph, &h.white, GUARD));
    holders_graph_words(&h.graph, words, words + BLOCKS, 0, 0);
    ck_assert(holders_graph_spread(&h.graph));
    ck_assert(holders_retained_make(&r, &h.graph, unit_of_two, &border, 50));
    ck_assert_uint_le(r.shares, 50);
    ck_assert_uint_gt(r.shares, 2);
    uint64_t blocks[2] = {0};
    for (size_t i = 0; i < r.shares; i++) {
        ck_assert_uint_eq(r.share[i].low, r.share[i].high);
        blocks[r.unit[r.share[i].low].area] += r.share[i].blocks;
    }
    ck_assert_uint_eq(blocks[0], 100);
    ck_assert_uint_eq(blocks[1], 200);
    for (size_t i = 0; i < r.units; i++) ck_assert_uint_eq(r.unit[i].area, r.unit[i].from >= border);
    holders_retained_free(&r);
    ck_assert(holders_retained_make(&r, &h.graph, unit_of_two, &border, 1)); /* there are two areas */
    ck_assert_uint_eq(r.shares, 2);
    holders_retained_free(&r);
    holders_free(&h);
    for (unsigned i = 0; i < BLOCKS; i++) heap_free((void *)words[i]);
}
END_TEST

/* ---- size ---- */

#if defined(__SANITIZE_ADDRESS__)
#define LONG_LIST 100000u
#else
#define LONG_LIST 2000000u
#endif

/* The last block is as many steps away as there are others; steps in the middle are left out. */
START_TEST(a_long_list)
{
    struct holders h = {0};
    struct holders_retained r;
    uintptr_t head = 0, last = 0;
    uint64_t border = UINT64_MAX;
    for (unsigned i = 0; i < LONG_LIST; i++) {
        uintptr_t *n = heap_calloc(1, 32);
        n[2] = head;
        head = (uintptr_t)n;
        if (!last) last = head;
    }
    ck_assert(white_make(&h.white, WHITE_LIVE));
    ck_assert(holders_graph_make(&h.graph, &h.white, GUARD));
    holders_graph_words(&h.graph, &head, &head + 1, 80, 7);
    ck_assert(holders_graph_spread(&h.graph));
    ck_assert_uint_eq(h.graph.count, LONG_LIST);
    ck_assert(holders_retained_make(&r, &h.graph, unit_of_two, &border, 100));
    ck_assert_uint_eq(r.shares, 1);
    ck_assert_uint_eq(r.share[0].blocks, LONG_LIST);
    ck_assert_uint_eq(r.share[0].bytes, (uint64_t)LONG_LIST * heap_usable_size((void *)head));
    holders_retained_free(&r);
    holders_graph_forget_pointers(&h.graph);
    ck_assert(holders_find_ways(&h));
    struct holders_step step[10];
    const struct holders_direct *root;
    size_t left_out;
    uint32_t number = holders_graph_number(&h.graph, last);
    ck_assert_uint_eq(number, LONG_LIST - 1);
    ck_assert_uint_eq(holders_way(&h, number, step, 10, &left_out, &root), 10);
    ck_assert_uint_eq(left_out, LONG_LIST - 1 - 10);
    ck_assert_uint_eq(root->at, 80);
    ck_assert_uint_eq(root->kind, 7);
    ck_assert_uint_eq(step[0].start, head);
    for (unsigned i = 0; i < 10; i++) ck_assert_uint_eq(step[i].offset, 16);
    for (unsigned i = 1; i < 10; i++)
        ck_assert_uint_eq(((uintptr_t *)step[i].start)[2], i < 9 ? step[i + 1].start : last);
    holders_free(&h);
    for (uintptr_t next; head; head = next) {
        next = ((uintptr_t *)head)[2];
        heap_free((void *)head);
    }
}
END_TEST

/* Wherever memory is refused it says so, and holds nothing; where only what is retained cannot be known, the units are. */
START_TEST(memory_is_refused)
{
    seed(77);
    build(60, 90, 20);
    memset(second, 0, sizeof second);
    solve();
    bool whole = false, partly = false;
    for (unsigned skip = 0; !whole && skip < 200; skip++) {
        static const struct units units = {8, false};
        struct holders h = {0};
        struct holders_retained r;
        ck_assert(white_make(&h.white, WHITE_LIVE));
        os_fail_mappings(skip, 1000);
        bool ok = holders_graph_make(&h.graph, &h.white, GUARD);
        for (unsigned w = 0; ok && w < WORDS; w++) holders_graph_words(&h.graph, &word[w], &word[w] + 1, place[w], w);
        ok = ok && holders_graph_spread(&h.graph);
        if (ok && holders_retained_make(&r, &h.graph, unit_of, (void *)&units, 1000)) {
            ck_assert_uint_gt(r.units, 0);
            partly |= !r.low;
            ck_assert_int_eq(r.low != NULL, r.share != NULL);
            if (r.low) check_shares(&r);
            holders_retained_free(&r);
            whole = holders_find_ways(&h);
        }
        os_fail_mappings(0, 0);
        holders_free(&h);
    }
    ck_assert(whole && partly);
    destroy();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("holders");
    TCase *c = tcase_create("holders");
    tcase_set_timeout(c, 240);
    tcase_add_loop_test(c, agrees_with_the_oracle, 0, 6);
    tcase_add_test(c, units_join_within_their_area);
    tcase_add_test(c, a_long_list);
    tcase_add_test(c, memory_is_refused);
    suite_add_tcase(s, c);
    return suite_run(s);
}
