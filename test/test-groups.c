/* test-groups.c: lost blocks and what hangs on them against a slow oracle on random graphs, and at sizes that recursion
   or careless memory would not survive.

   The oracle knows blocks by number and keeps the edges apart from the heap; who reaches whom is Warshall's closure.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "heap/groups.h"
#include "heap/heap.h"
#include "heap/os.h"
#include "heap/rank.h"
#include "random_blocks.h"
#include "suite.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MOST 80u

#if defined(__SANITIZE_ADDRESS__)
#define LONG_LIST 300000u
#else
#define LONG_LIST 5000000u
#endif

static uintptr_t unmangled(uintptr_t word)
{
#if defined(__x86_64__)
    word = word << 47 | word >> 17;
#endif
    return word ^ GUARD;
}

static void store(uintptr_t block, size_t word, uintptr_t value)
{
    ((uintptr_t *)block)[word] = value;
}

/* Clears the bit of a block: it was reached. */
static void reach(struct white *w, uintptr_t block)
{
    struct white_block b;
    ck_assert(white_find(w, block, &b));
    ck_assert(white_take(w, &b));
}

static size_t index_of(const struct groups *g, uintptr_t block)
{
    for (size_t i = 0; i < g->count; i++)
        if (g->block[i].block.start == block) return i;
    ck_abort_msg("not among the groups");
}

/* ---- the oracle ---- */

struct node {
    uintptr_t block;
    size_t asked, given;
    bool lost;
};

static struct node node[MOST];
static bool edge[MOST][MOST], reaches[MOST][MOST]; /* by at least one edge, among lost blocks */
static unsigned nodes;

static int by_address(const void *a, const void *b)
{
    const struct node *x = a, *y = b;
    return x->block < y->block ? -1 : x->block > y->block;
}

static void build(unsigned count, unsigned edges)
{
    nodes = count;
    memset(edge, 0, sizeof edge);
    for (unsigned i = 0; i < nodes; i++) {
        node[i].asked = random_size();
        node[i].block = (uintptr_t)heap_calloc(1, node[i].asked);
        node[i].given = heap_usable_size((void *)node[i].block);
        node[i].lost = random_number() % 8 != 0;
    }
    qsort(node, nodes, sizeof *node, by_address);
    for (unsigned e = 0; e < edges; e++) {
        unsigned from = (unsigned)(random_number() % nodes),
                 to = (unsigned)(random_number() % nodes);
        store(node[from].block, random_number() % (node[from].given / 8), random_pointer(node[to].block, node[to].given));
    }
}

/* Edges as they are at last: a later word may have overwritten an earlier. */
static void read_edges(void)
{
    for (unsigned i = 0; i < nodes; i++)
        for (size_t w = 0; w < node[i].given / 8; w++) {
            uintptr_t word = ((uintptr_t *)node[i].block)[w];
            if (word == 0) continue;
            for (unsigned j = 0; j < nodes; j++)
                if ((word & 0xffffffffffff) - node[j].block < node[j].given ||
                    unmangled(word) - node[j].block < node[j].given)
                    edge[i][j] = true;
        }
}

static void close_over(void)
{
    for (unsigned i = 0; i < nodes; i++)
        for (unsigned j = 0; j < nodes; j++)
            reaches[i][j] = node[i].lost && node[j].lost && edge[i][j];
    for (unsigned k = 0; k < nodes; k++)
        for (unsigned i = 0; i < nodes; i++)
            for (unsigned j = 0; j < nodes; j++) reaches[i][j] |= reaches[i][k] && reaches[k][j];
}

static bool same(unsigned i, unsigned j)
{
    return i == j || (reaches[i][j] && reaches[j][i]);
}

static bool is_head(unsigned i)
{
    for (unsigned j = 0; j < nodes; j++) {
        if (reaches[j][i] && !same(i, j)) return false; /* another component reaches it */
        if (j < i && same(i, j))
            return false; /* one with a lower address stands for its component */
    }
    return node[i].lost;
}

static void compare(const struct groups *g)
{
    unsigned number[MOST], n = 0; /* of the lost ones */
    uint32_t hangs[MOST] = {0};
    uint64_t bytes[MOST] = {0};
    for (unsigned i = 0; i < nodes; i++)
        if (node[i].lost) number[n++] = i;
    ck_assert_uint_eq(g->count, n);
    for (unsigned a = 0; a < n; a++) {
        const struct group_block *x = &g->block[a];
        unsigned i = number[a];
        ck_assert_uint_eq(x->block.start, node[i].block);
        ck_assert_uint_eq(x->block.bytes, node[i].given);
        ck_assert_uint_lt(x->component, n);
        ck_assert_uint_lt(x->head, n);
        ck_assert_int_eq(x->in_cycle, reaches[i][i]);
        ck_assert_int_eq(x->head == a, is_head(i));
        ck_assert(x->head == a || reaches[number[x->head]][i]);
        ck_assert(is_head(number[x->head]));
        for (unsigned b = 0; b < n; b++)
            ck_assert_int_eq(x->component == g->block[b].component, same(i, number[b]));
        if (x->head == a) continue;
        hangs[x->head]++;
        bytes[x->head] += x->block.bytes;
    }
    for (unsigned a = 0; a < n; a++) {
        ck_assert_uint_eq(g->block[a].hangs, hangs[a]);
        ck_assert_uint_eq(g->block[a].hangs_bytes, bytes[a]);
    }
}

static void check_graph(unsigned count, unsigned edges)
{
    struct white w;
    struct groups g;
    build(count, edges);
    read_edges();
    close_over();
    ck_assert(white_make(&w, WHITE_LIVE));
    ck_assert_uint_eq(w.blocks, nodes);
    for (unsigned i = 0; i < nodes; i++)
        if (!node[i].lost) reach(&w, node[i].block);
    ck_assert(groups_find(&g, &w, GUARD));
    compare(&g);
    groups_free(&g);
    white_free(&w);
    for (unsigned i = 0; i < nodes; i++) heap_free((void *)node[i].block);
}

/* From hardly any edge to giant components. */
START_TEST(agrees_with_the_oracle)
{
    static const unsigned per_ten[] = {2, 6, 10, 14, 25, 60};
    for (unsigned n = 1; n <= 60; n++) {
        seed(n * 100 + (unsigned)_i);
        unsigned count = 1 + (unsigned)(random_number() % MOST);
        check_graph(count, 1 + count * per_ten[_i] / 10);
    }
}
END_TEST

/* ---- shapes ---- */

START_TEST(a_pointer_to_itself)
{
    struct white w;
    struct groups g;
    uintptr_t a = (uintptr_t)heap_calloc(1, 64), b = (uintptr_t)heap_calloc(1, 64);
    store(a, 3, a + 8);
    store(a, 4, b);
    ck_assert(white_make(&w, WHITE_LIVE));
    ck_assert(groups_find(&g, &w, 0));
    const struct group_block *x = &g.block[index_of(&g, a)], *y = &g.block[index_of(&g, b)];
    ck_assert(x->in_cycle && !y->in_cycle);
    ck_assert_uint_eq(x->head, index_of(&g, a));
    ck_assert_uint_eq(y->head, index_of(&g, a));
    ck_assert_uint_ne(x->component, y->component);
    ck_assert_uint_eq(x->hangs, 1);
    ck_assert_uint_eq(x->hangs_bytes, heap_usable_size((void *)b));
    groups_free(&g);
    white_free(&w);
}
END_TEST

START_TEST(no_guard_no_mangled_pointers)
{
    struct white w;
    struct groups g;
    uintptr_t a = (uintptr_t)heap_calloc(1, 64), b = (uintptr_t)heap_calloc(1, 64);
    store(a, 0, mangled(b));
    ck_assert(white_make(&w, WHITE_LIVE));
    ck_assert(groups_find(&g, &w, _i ? GUARD : 0));
    ck_assert_uint_eq(g.block[index_of(&g, b)].head, index_of(&g, _i ? a : b));
    groups_free(&g);
    white_free(&w);
}
END_TEST

START_TEST(nothing_is_lost)
{
    struct white w;
    struct groups g;
    uintptr_t a = (uintptr_t)heap_malloc(64);
    ck_assert(white_make(&w, WHITE_LIVE));
    reach(&w, a);
    ck_assert(groups_find(&g, &w, GUARD));
    ck_assert_uint_eq(g.count, 0);
    groups_free(&g);
    white_free(&w);
}
END_TEST

/* As the marker: where no other block starts there. */
START_TEST(a_large_blocks_end)
{
    struct white w;
    struct groups g;
    uintptr_t large = (uintptr_t)heap_calloc(1, MIB), a = (uintptr_t)heap_calloc(1, 64);
    size_t given = heap_usable_size((void *)large);
    store(a, 0, large + given);
    ck_assert(white_make(&w, WHITE_LIVE));
    ck_assert(groups_find(&g, &w, GUARD));
    ck_assert_uint_eq(g.block[index_of(&g, large)].head, index_of(&g, a));
    groups_free(&g);
    store(a, 0, large + given + 8);
    ck_assert(groups_find(&g, &w, GUARD));
    ck_assert_uint_eq(g.block[index_of(&g, large)].head, index_of(&g, large));
    groups_free(&g);
    white_free(&w);
}
END_TEST

/* ---- size ---- */

struct long_list {
    struct white white;
    struct groups groups;
    bool ok;
};

static void *find_groups(void *argument)
{
    struct long_list *l = argument;
    l->ok = groups_find(&l->groups, &l->white, GUARD);
    return NULL;
}

/* In a thread whose stack would hold a frame of no thousandth of them. */
static void find_on_a_small_stack(struct long_list *l)
{
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    ck_assert_int_eq(pthread_attr_setstacksize(&attributes, 64 * KIB), 0);
    ck_assert_int_eq(pthread_create(&thread, &attributes, find_groups, l), 0);
    pthread_join(thread, NULL);
    ck_assert(l->ok);
}

static uintptr_t *long_list(size_t n, bool back)
{
    uintptr_t *block = malloc(n * sizeof *block);
    for (size_t i = 0; i < n; i++) block[i] = (uintptr_t)heap_calloc(1, 32);
    seed(n);
    for (size_t i = n - 1; i > 0; i--) { /* not in the order of addresses */
        size_t j = random_number() % (i + 1);
        uintptr_t moved = block[i];
        block[i] = block[j];
        block[j] = moved;
    }
    for (size_t i = 0; i + 1 < n; i++) {
        store(block[i], 0, block[i + 1]);
        if (back) store(block[i + 1], 1, block[i]);
    }
    return block;
}

START_TEST(a_list_of_millions)
{
    struct long_list l;
    uintptr_t *block = long_list(LONG_LIST, false);
    ck_assert(white_make(&l.white, WHITE_LIVE));
    find_on_a_small_stack(&l);
    ck_assert_uint_eq(l.groups.count, LONG_LIST);
    ck_assert_uint_le(l.groups.bytes_mapped, LONG_LIST * (size_t)60);
    size_t heads = 0, cycles = 0;
    for (size_t i = 0; i < l.groups.count; i++) {
        const struct group_block *b = &l.groups.block[i];
        cycles += b->in_cycle;
        if (b->head != i) continue;
        heads++;
        ck_assert_uint_eq(b->block.start, block[0]);
        ck_assert_uint_eq(b->hangs, LONG_LIST - 1);
        ck_assert_uint_eq(b->hangs_bytes, (LONG_LIST - 1) * (uint64_t)32);
    }
    ck_assert_uint_eq(heads, 1);
    ck_assert_uint_eq(cycles, 0);
    groups_free(&l.groups);
    white_free(&l.white);
    free(block);
}
END_TEST

START_TEST(a_doubly_linked_list)
{
    enum { N = LONG_LIST / 5 };
    struct long_list l;
    uintptr_t *block = long_list(N, true), lowest = UINTPTR_MAX;
    for (size_t i = 0; i < N; i++)
        if (block[i] < lowest) lowest = block[i];
    ck_assert(white_make(&l.white, WHITE_LIVE));
    find_on_a_small_stack(&l);
    ck_assert_uint_eq(l.groups.count, N);
    for (size_t i = 0; i < N; i++) {
        ck_assert_uint_eq(l.groups.block[i].component, l.groups.block[0].component);
        ck_assert_uint_eq(l.groups.block[i].head, 0);
        ck_assert(l.groups.block[i].in_cycle);
    }
    ck_assert_uint_eq(l.groups.block[0].block.start, lowest);
    ck_assert_uint_eq(l.groups.block[0].hangs, N - 1);
    groups_free(&l.groups);
    white_free(&l.white);
    free(block);
}
END_TEST

/* ---- memory that must not be touched ---- */

static size_t resident(uintptr_t from, size_t bytes)
{
    static unsigned char page[GIB / OS_PAGE + 16];
    size_t n = 0;
    ck_assert_uint_le(bytes / OS_PAGE, sizeof page);
    ck_assert_int_eq(mincore((void *)from, bytes, page), 0);
    for (size_t i = 0; i < bytes / OS_PAGE; i++) n += page[i] & 1;
    return n;
}

START_TEST(a_gigabyte_that_was_never_written)
{
    struct white w;
    struct groups g;
    uintptr_t large = (uintptr_t)heap_malloc(GIB), child[3];
    size_t given = heap_usable_size((void *)large), words[] = {0, given / 16 + 77, given / 8 - 1};
    madvise((void *)large, given, MADV_NOHUGEPAGE);
    for (unsigned i = 0; i < 3; i++) {
        child[i] = (uintptr_t)heap_calloc(1, 48);
        store(large, words[i], child[i]);
    }
    size_t before = resident(large, given);
    ck_assert_uint_lt(before, 100);
    ck_assert(white_make(&w, WHITE_LIVE));
    ck_assert(groups_find(&g, &w, GUARD));
    for (unsigned i = 0; i < 3; i++)
        ck_assert_uint_eq(g.block[index_of(&g, child[i])].head, index_of(&g, large));
    ck_assert_uint_eq(g.block[index_of(&g, large)].hangs, 3);
    ck_assert_uint_eq(resident(large, given), before);
    groups_free(&g);
    white_free(&w);
    heap_free((void *)large);
}
END_TEST

/* A block with an unreadable page in its midst; small blocks lie in such a page, too. */
START_TEST(unreadable_pages)
{
    struct white w;
    struct groups g;
    struct ranges blind = {0};
    static const size_t sizes[] = {3 * OS_PAGE, 20 * OS_PAGE, MIB};
    uintptr_t block = (uintptr_t)heap_aligned(OS_PAGE, sizes[_i]), child[3],
              inside = block + OS_PAGE;
    for (unsigned i = 0; i < 3; i++) {
        child[i] = (uintptr_t)heap_calloc(1, 48);
        store(block, i * OS_PAGE / 8, child[i]);
    }
    ck_assert_int_eq(mprotect((void *)inside, OS_PAGE, PROT_NONE), 0);
    ranges_add(&blind, inside, inside + OS_PAGE);
    ranges_settle(&blind);
    ck_assert(white_make(&w, WHITE_LIVE));
    w.blind = &blind;
    ck_assert(groups_find(&g, &w, GUARD));
    for (unsigned i = 0; i < 3; i++)
        ck_assert_uint_eq(g.block[index_of(&g, child[i])].head,
                          index_of(&g, i == 1 ? child[i] : block));
    ck_assert_int_eq(mprotect((void *)inside, OS_PAGE, PROT_READ | PROT_WRITE), 0);
    groups_free(&g);
    white_free(&w);
    ranges_free(&blind);
}
END_TEST

/* ---- without memory ---- */

START_TEST(memory_is_refused)
{
    struct white w;
    struct groups g;
    uintptr_t a = (uintptr_t)heap_calloc(1, 64), b = (uintptr_t)heap_calloc(1, MIB);
    store(a, 0, b);
    store(b, 0, a);
    ck_assert(white_make(&w, WHITE_LIVE));
    bool ok = false;
    unsigned refusals = 0;
    for (; !ok; refusals++) {
        os_fail_mappings(refusals, 1);
        ok = groups_find(&g, &w, GUARD);
        os_fail_mappings(0, 0);
        if (!ok) {
            ck_assert(g.count == 0 || g.count == 2);
            for (uint32_t i = 0; i < g.count; i++) {
                ck_assert_uint_eq(g.block[i].head, i);
                ck_assert_uint_eq(g.block[i].component, i);
                ck_assert_uint_eq(g.block[i].hangs, 0);
                ck_assert_uint_eq(g.block[i].block.start, i == 0 ? a : b);
            }
        } else {
            ck_assert_uint_eq(g.block[1].head, 0);
        }
        groups_free(&g);
    }
    ck_assert_uint_gt(refusals, 3); /* three bitmaps' ranks and the result at least */
    white_free(&w);
}
END_TEST

START_TEST(numbers_blocks_by_address)
{
    struct white w;
    struct rank r;
    seed(5);
    build(MOST, 0);
    ck_assert(white_make(&w, WHITE_LIVE));
    for (unsigned i = 0; i < nodes; i++)
        if (!node[i].lost) reach(&w, node[i].block);
    ck_assert(rank_make(&r, &w));
    uint32_t n = 0;
    for (unsigned i = 0; i < nodes; i++) {
        struct white_block b;
        if (!node[i].lost) continue;
        ck_assert(white_find(&w, node[i].block, &b));
        ck_assert_uint_eq(rank_of(&r, b.area, b.granule), n++);
    }
    ck_assert_uint_eq(r.count, n);
    rank_free(&r);
    white_free(&w);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("groups");
    TCase *c = tcase_create("groups");
    tcase_set_timeout(c, 240);
    tcase_add_loop_test(c, agrees_with_the_oracle, 0, 6);
    tcase_add_test(c, a_pointer_to_itself);
    tcase_add_loop_test(c, no_guard_no_mangled_pointers, 0, 2);
    tcase_add_test(c, nothing_is_lost);
    tcase_add_test(c, a_large_blocks_end);
    tcase_add_test(c, a_list_of_millions);
    tcase_add_test(c, a_doubly_linked_list);
    tcase_add_test(c, a_gigabyte_that_was_never_written);
    tcase_add_loop_test(c, unreadable_pages, 0, 3);
    tcase_add_test(c, memory_is_refused);
    tcase_add_test(c, numbers_blocks_by_address);
    suite_add_tcase(s, c);
    return suite_run(s);
}
