/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/large_table.h"
#include "heap/os.h"

_Atomic uint8_t large_chunk_known[LARGE_CHUNKS];
static _Atomic uint32_t next_chunk; /* chunks from here on are nobody's */
static _Atomic size_t table_bytes;

/* Whole units of the largest page size (64 KiB on some aarch64 kernels). */
#define TABLE_MAPPED ((sizeof(struct large_chunk_tables) + 64 * KIB - 1) & ~(64 * KIB - 1))

#define NEAR 16u /* pages */
#define FAR 4096u

static uint32_t chunks(size_t bytes)
{
    return (uint32_t)((bytes + LARGE_CHUNK - 1) / LARGE_CHUNK);
}

/* Two small numbers side by side, or the high half of an address and the low one of the next, read as an address near a multiple of 4
   GiB: nearly every process has such for any of them.  A block there would be held by them for ever, so the chunks on both sides
   of a multiple stay unused.  What is longer than a row between two of them has to lie across. */
#define ROW ((uint32_t)(4 * GIB / LARGE_CHUNK))

/* Where in its row a chunk lies: the first and the last are the unused ones. */
static uint32_t in_row(uint32_t chunk)
{
    return (uint32_t)(((window_base + WINDOW_LARGE_OFFSET) / LARGE_CHUNK + chunk) % ROW);
}

/* The first place from `at` on for `n` chunks. */
static uint32_t place_for(uint32_t at, uint32_t n)
{
    uint32_t place = in_row(at);
    if (n > ROW - 2) return at;
    if (place == 0) return at + 1;
    return place + n < ROW ? at : at + ROW + 1 - place;
}

uint32_t large_table_claim(size_t bytes)
{
    if (bytes > WINDOW_LARGE_BYTES) return LARGE_NO_PAGE;
    uint32_t n = chunks(bytes), next = atomic_load(&next_chunk), at;
    do {
        at = place_for(next, n);
        if (at + n > LARGE_CHUNKS) return LARGE_NO_PAGE;
    } while (!atomic_compare_exchange_weak(&next_chunk, &next, at + n));
    return at * LARGE_CHUNK_PAGES;
}

void large_table_unclaim(uint32_t page, size_t bytes)
{
    uint32_t first = page / LARGE_CHUNK_PAGES, end = first + chunks(bytes);
    atomic_compare_exchange_strong(&next_chunk, &end, first);
}

bool large_table_claim_after(uint32_t end, size_t bytes)
{
    uint32_t at = end / LARGE_CHUNK_PAGES, n = chunks(bytes);
    return at + n <= LARGE_CHUNKS && place_for(at, n) == at && atomic_compare_exchange_strong(&next_chunk, &at, at + n);
}

bool large_table_map(uint32_t page, size_t bytes, bool *occupied)
{
    uint32_t first = page / LARGE_CHUNK_PAGES, n = chunks(bytes);
    for (uint32_t c = first; c < first + n; c++) {
        if (atomic_load(&large_chunk_known[c])) continue; /* claimed before and returned */
        if (!os_map_at(large_tables_of(c * LARGE_CHUNK_PAGES), TABLE_MAPPED, occupied))
            return false;
        atomic_fetch_add(&table_bytes, TABLE_MAPPED);
        atomic_store_explicit(&large_chunk_known[c], 1, memory_order_release);
    }
    return true;
}

uint32_t large_table_pages(void)
{
    return atomic_load(&next_chunk) * LARGE_CHUNK_PAGES;
}

size_t large_table_bytes(void)
{
    return atomic_load(&table_bytes);
}

void large_table_enter_again(uint32_t page, size_t bytes)
{
    uint32_t end = page + (uint32_t)(bytes / OS_PAGE), far = (page / FAR + 1) * FAR;
    uint32_t near_end = end < far ? end : far;
    for (uint32_t p = (page / NEAR + 1) * NEAR; p < near_end; p += NEAR)
        atomic_store_explicit(&large_tables_of(p)->near[p % LARGE_CHUNK_PAGES / NEAR], page,
                              memory_order_relaxed);
    for (uint32_t p = far; p < end; p += FAR)
        atomic_store_explicit(&large_tables_of(p)->far[p % LARGE_CHUNK_PAGES / FAR], page,
                              memory_order_relaxed);
    atomic_store_explicit(&large_record_of(page)->bytes, bytes, memory_order_release);
}

void large_table_enter(uint32_t page, size_t bytes, uint32_t state)
{
    struct large_record *r = large_record_of(page);
    large_table_enter_again(page, bytes);
    atomic_store_explicit(&r->entry, 0, memory_order_relaxed);
    atomic_store_explicit(&r->state, state, memory_order_release);
}

static bool is_live(const struct large_record *r)
{
    uint32_t s = atomic_load_explicit(&r->state, memory_order_acquire) & LARGE_STATE_MASK;
    return s == LARGE_LIVE || s == LARGE_BUSY;
}

/* Does a live block start at `start` that reaches over `page`? */
static bool covers(uint32_t start, uint32_t page, size_t *bytes)
{
    if (start > page ||
        !atomic_load_explicit(&large_chunk_known[start / LARGE_CHUNK_PAGES], memory_order_acquire))
        return false;
    struct large_record *r = large_record_of(start);
    if (!is_live(r)) return false;
    *bytes = atomic_load_explicit(&r->bytes, memory_order_relaxed);
    return page - start < *bytes / OS_PAGE;
}

bool large_table_find(const void *address, uint32_t *start, size_t *bytes)
{
    uintptr_t offset = (uintptr_t)address - window_base - WINDOW_LARGE_OFFSET;
    if (offset >= WINDOW_LARGE_BYTES ||
        !atomic_load_explicit(&large_chunk_known[offset / LARGE_CHUNK], memory_order_acquire))
        return false;
    uint32_t page = (uint32_t)(offset / OS_PAGE), in_chunk = page % LARGE_CHUNK_PAGES;
    struct large_chunk_tables *t = large_tables_of(page);
    for (uint32_t p = page, first = page / NEAR * NEAR;; p--) {
        if (is_live(large_record_of(p))) {
            *start = p;
            return covers(p, page, bytes); /* blocks do not overlap: no other can */
        }
        if (p == first) break;
    }
    *start = atomic_load_explicit(&t->near[in_chunk / NEAR], memory_order_relaxed);
    if (covers(*start, page, bytes)) return true;
    *start = atomic_load_explicit(&t->far[in_chunk / FAR], memory_order_relaxed);
    return covers(*start, page, bytes);
}

void large_table_each(bool (*each)(uint32_t page, size_t bytes, void *user), void *user)
{
    uint32_t end = atomic_load(&next_chunk) * LARGE_CHUNK_PAGES;
    for (uint32_t p = 0; p < end;) {
        if (!atomic_load_explicit(&large_chunk_known[p / LARGE_CHUNK_PAGES],
                                  memory_order_acquire)) {
            p = (p / LARGE_CHUNK_PAGES + 1) * LARGE_CHUNK_PAGES;
            continue;
        }
        struct large_record *r = large_record_of(p);
        if (!is_live(r)) {
            p++;
            continue;
        }
        size_t bytes = atomic_load(&r->bytes);
        if (!each(p, bytes, user)) return;
        p += bytes < OS_PAGE ? 1 : (uint32_t)(bytes / OS_PAGE);
    }
}

uint32_t large_stack_take(large_stack *s, unsigned *depth)
{
    uint64_t old = atomic_load_explicit(s, memory_order_acquire);
    do {
        if (LARGE_TOP(old) == 0) return LARGE_NO_PAGE;
    } while (!atomic_compare_exchange_weak_explicit(s, &old, large_head_(0, 0, old),
                                                    memory_order_acquire, memory_order_acquire));
    *depth = LARGE_DEPTH(old);
    return LARGE_TOP(old) - 1;
}

uint32_t large_stack_next(uint32_t page)
{
    return atomic_load_explicit(&large_record_of(page)->entry, memory_order_relaxed) - 1;
}
