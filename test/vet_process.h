/* vet_process.h: what the tests of the vetting sweep have in common: a process of one root and some blocks, live and lost.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_TEST_VET_PROCESS_H
#define GLEANER_TEST_VET_PROCESS_H

#undef NDEBUG
#include "heap/heap.h"
#include "heap/os.h"
#include "heap/vet.h"
#include "random_number.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define WAYS 3
#define BLOCKS_MOST 40000u
#define ROOT_BYTES (64 * KIB)

struct block {
    uintptr_t start;
    size_t bytes;
    bool live, lost;
};

static struct block block[BLOCKS_MOST];
static unsigned blocks;
static uint8_t *root;
static size_t root_bytes;
static struct root root_list[4];
static struct white w;
static struct groups g;
static struct roots roots;
static struct cut cut;
static struct vet_result r;

static inline void *map(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(p, MAP_FAILED);
    return p;
}

static inline void begin(size_t bytes)
{
    root_bytes = bytes;
    root = map(bytes);
    root_list[0] = (struct root){.from = (uintptr_t)root, .to = (uintptr_t)root + bytes};
    roots = (struct roots){.root = root_list, .count = 1, .bytes = bytes, .complete = true};
    cut = (struct cut){.pointer_guard = GUARD};
}

static inline struct block *make(size_t size, bool lost)
{
    ck_assert_uint_lt(blocks, BLOCKS_MOST);
    void *p = heap_calloc(1, size);
    block[blocks] = (struct block){(uintptr_t)p, heap_usable_size(p), true, lost};
    return &block[blocks++];
}

static inline int by_address(const void *a, const void *b)
{
    const struct block *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* `n` live blocks side by side in one pool: the first of them. */
static inline struct block *make_row(unsigned n, size_t size)
{
    unsigned first = blocks;
    for (unsigned i = 0; i < 8 * n; i++) make(size, false);
    qsort(block + first, 8 * n, sizeof *block, by_address);
    for (unsigned i = first, start = first; i < blocks; i++) {
        if (i > start && block[i].start != block[i - 1].start + block[i - 1].bytes) start = i;
        if (i - start + 1 == n) return &block[start];
    }
    ck_abort_msg("no row of blocks");
}

static inline void drop(struct block *b)
{
    heap_free((void *)b->start);
    b->live = b->lost = false;
}

static inline void plant(size_t offset, uint64_t value)
{
    memcpy(root + offset, &value, 8);
}

static inline void plant_half(size_t offset, uint32_t value)
{
    memcpy(root + offset, &value, 4);
}

static inline void run(bool freed_too)
{
    vet_free(&r);
    groups_free(&g);
    white_free(&w);
    ck_assert(white_make(&w, WHITE_LIVE));
    uint64_t lost = 0;
    for (unsigned i = 0; i < blocks; i++) {
        struct white_block b;
        if (!block[i].live) continue;
        ck_assert(white_find(&w, block[i].start, &b) && white_is(&w, &b));
        if (!block[i].lost) white_take(&w, &b);
        lost += block[i].lost;
    }
    ck_assert(groups_find(&g, &w, cut.pointer_guard));
    ck_assert_uint_eq(g.count, lost);
    ck_assert(vet(&r, &w, &g, &roots, &cut, freed_too));
    ck_assert_uint_eq(r.count, lost);
}

static inline enum vet_why why_of(const struct block *b)
{
    for (size_t i = 0; i < g.count; i++)
        if (g.block[i].block.start == b->start) return (enum vet_why)r.why[i];
    ck_abort_msg("not lost");
}

static inline unsigned explained(void)
{
    unsigned n = 0;
    for (size_t i = 0; i < r.count; i++) n += r.why[i] != VET_NONE;
    return n;
}

/* The block is explained so, and nobody else is. */
static inline void check_only(const struct block *b, enum vet_why why)
{
    run(false);
    ck_assert_int_eq(why_of(b), why);
    ck_assert_uint_eq(explained(), why != VET_NONE);
}

/* A row of five of which the middle three are lost. */
static inline struct block *begin_row(size_t size)
{
    begin(ROOT_BYTES);
    struct block *row = make_row(5, size);
    for (unsigned i = 1; i < 4; i++) row[i].lost = true;
    return row;
}

static const size_t row_size[] = {16, 64, 1008, 5000};
#define SIZES (sizeof row_size / sizeof *row_size)

/* Loops over all sizes and ways. */
#define SIZE row_size[_i % SIZES]
#define BY_WAY() vet_limit_filter((unsigned)_i / SIZES)
#define LOOPS ((int)SIZES * WAYS)

/* No form of it is a small number. */
static inline bool is_beyond_numbers(const struct block *b)
{
    return (uint32_t)b->start >> 16 != 0 && (uint32_t)(b->start >> 3) >> 16 != 0;
}

#endif
