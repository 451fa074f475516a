/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/large_cache.h"
#include "heap/large_gate.h"
#include "heap/large_map.h"
#include "heap/large_table.h"

/* Four classes a doubling, from 32 KiB (not included) to 256 KiB: 40, 48, 56, 64 KiB … */
#define CLASSES 12

/* Of each class one block may always be kept; beyond it the bytes of a shard are bounded. */
#define ALWAYS 1
#define DEEPEST 64
#define SHARD_EXCESS (3 * MIB)

static struct shard {
    _Alignas(64) large_stack of[CLASSES];
    _Atomic uint32_t taken; /* a bit for each class: something was taken since the last flush */
    _Atomic int64_t excess; /* bytes of the blocks that lie deeper than ALWAYS */
} shards[LARGE_SHARDS];

/* 0 … CLASSES-1 for a size class, CLASSES for other sizes. */
static unsigned class_of(size_t bytes)
{
    if (bytes <= 32 * KIB || bytes > LARGE_CACHE_MAX) return CLASSES;
    unsigned lg = 63 - (unsigned)__builtin_clzl(bytes - 1);
    if (bytes & (((size_t)1 << (lg - 2)) - 1)) return CLASSES;
    return (lg - 15) * 4 + (unsigned)((bytes - 1) >> (lg - 2) & 3);
}

static size_t class_bytes(unsigned c)
{
    return (5 + c % 4) * ((size_t)1 << (c / 4 + 13));
}

static size_t excess_of(unsigned depth, size_t bytes)
{
    return depth > ALWAYS ? (depth - ALWAYS) * bytes : 0;
}

uint32_t large_cache_get(unsigned shard, size_t bytes)
{
    unsigned c = class_of(bytes), depth;
    if (c == CLASSES) return LARGE_NO_PAGE;
    struct shard *s = &shards[shard];
    uint32_t page = large_stack_pop(&s->of[c], &depth);
    if (page == LARGE_NO_PAGE) return page;
    if (depth >= ALWAYS)
        atomic_fetch_sub_explicit(&s->excess, (int64_t)bytes, memory_order_relaxed);
    uint32_t taken = atomic_load_explicit(&s->taken, memory_order_relaxed);
    if (!(taken & 1u << c)) atomic_fetch_or_explicit(&s->taken, 1u << c, memory_order_relaxed);
    return page;
}

bool large_cache_put(unsigned shard, uint32_t page, size_t bytes)
{
    unsigned c = class_of(bytes);
    if (c == CLASSES) return false;
    struct shard *s = &shards[shard];
    bool full = atomic_load_explicit(&s->excess, memory_order_relaxed) >= (int64_t)SHARD_EXCESS;
    unsigned limit = full ? ALWAYS : DEEPEST;
    unsigned depth = large_stack_push(&s->of[c], page, limit);
    if (depth == limit) return false;
    if (depth >= ALWAYS)
        atomic_fetch_add_explicit(&s->excess, (int64_t)bytes, memory_order_relaxed);
    return true;
}

bool large_cache_flush(bool all, void (*give)(uint32_t page))
{
    bool any = false;
    for (struct shard *s = shards; s < shards + LARGE_SHARDS; s++) {
        uint32_t taken = atomic_exchange(&s->taken, 0);
        for (unsigned c = 0; c < CLASSES; c++) {
            if ((!all && taken & 1u << c) || large_stack_empty(&s->of[c])) continue;
            unsigned depth;
            uint32_t page = large_stack_take(&s->of[c], &depth);
            if (page == LARGE_NO_PAGE) continue;
            atomic_fetch_sub(&s->excess, (int64_t)excess_of(depth, class_bytes(c)));
            any = true;
            while (page != LARGE_NO_PAGE) {
                uint32_t next = large_stack_next(page); /* of the last one: 0 - 1, NO_PAGE */
                give(page);
                page = next;
            }
        }
    }
    return any;
}

size_t large_cache_bytes(void)
{
    size_t bytes = 0;
    for (unsigned i = 0; i < LARGE_SHARDS; i++)
        for (unsigned c = 0; c < CLASSES; c++)
            bytes += class_bytes(c) * large_stack_depth(&shards[i].of[c]);
    return bytes;
}

void large_cache_forget(void)
{
    for (struct shard *s = shards; s < shards + LARGE_SHARDS; s++) {
        for (unsigned c = 0; c < CLASSES; c++) atomic_store(&s->of[c], 0);
        atomic_store(&s->excess, 0);
    }
}
