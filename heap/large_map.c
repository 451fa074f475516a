/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/large_map.h"
#include "heap/huge.h"
#include "heap/large_table.h"
#include "heap/os.h"
#include "heap/seal.h"

#include <sys/mman.h>

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

static struct large_region direct_region;
static _Atomic size_t mapped;

/* Unmapped address ranges for reuse, by the largest class that fits in them.  How many bytes of
   addresses belong to a direct block, which may be more than are mapped, stands in the record of
   its second page (it is inside the block, so nobody else uses it). */
#define CLASSES 128
static large_stack unused[CLASSES];

static _Atomic uint64_t *room_of(uint32_t page)
{
    return &large_record_of(page + 1)->bytes;
}

static unsigned class_below(size_t bytes) /* the number of the largest class of at most `bytes` */
{
    unsigned lg = 63 - (unsigned)__builtin_clzl(bytes);
    return (lg - 12) * 4 + (unsigned)(bytes >> (lg - 2) & 3);
}

static uint64_t cursor_of(uint32_t next, uint32_t end)
{
    return next | (uint64_t)end << 32;
}

/* The first page from `page` on whose address is a multiple of `align` pages (the window's base is one
   of 64 MiB and no more). */
static uint32_t aligned_page(uint32_t page, uint32_t align)
{
    uint64_t area = (window_base + WINDOW_LARGE_OFFSET) / OS_PAGE;
    return (uint32_t)(round_up(area + page, align) - area);
}

enum taken { TAKEN, OCCUPIED, REFUSED };

static enum taken map(uint32_t page, size_t bytes)
{
    bool occupied;
    if (os_map_at(large_address(page), bytes, &occupied)) return TAKEN;
    return occupied ? OCCUPIED : REFUSED;
}

/* Claims chunks for one large mapping.  Maps it before its tables (they are 1/200 of it), so that
   an impossible size costs two system calls and leaves nothing. */
static enum taken take_chunks(size_t bytes, uint32_t align, uint32_t *at, size_t *room)
{
    size_t claim = round_up(bytes + (align > LARGE_CHUNK_PAGES ? (size_t)align * OS_PAGE : 0), LARGE_CHUNK);
    uint32_t first = large_table_claim(claim);
    if (first == LARGE_NO_PAGE) return REFUSED;
    *at = aligned_page(first, align);
    *room = claim - (size_t)(*at - first) * OS_PAGE;
    enum taken t = map(*at, bytes);
    if (t == TAKEN) {
        bool occupied = false;
        if (large_table_map(first, claim, &occupied)) return TAKEN;
        os_unmap(large_address(*at), bytes);
        t = occupied ? OCCUPIED : REFUSED;
    }
    if (t == REFUSED) large_table_unclaim(first, claim);
    return t;
}

/* Gives the region addresses for `pages` more. */
static enum taken extend(struct large_region *g, uint64_t c, uint32_t pages, uint32_t align)
{
    size_t bytes = ((size_t)pages + (align > LARGE_CHUNK_PAGES ? align : 0)) * OS_PAGE;
    uint32_t fresh = large_table_claim(bytes), end = (uint32_t)(c >> 32);
    if (fresh == LARGE_NO_PAGE) return REFUSED;
    bool occupied = false;
    if (!large_table_map(fresh, bytes, &occupied)) {
        if (occupied) return OCCUPIED;
        large_table_unclaim(fresh, bytes);
        return REFUSED;
    }
    uint32_t fresh_end = fresh + (uint32_t)(round_up(bytes, LARGE_CHUNK) / OS_PAGE);
    /* Goes on where the old addresses end, or loses what is left of them.  Where another thread has
       extended the region meanwhile, our chunk is lost: addresses, no memory. */
    if (!atomic_compare_exchange_strong(&g->cursor, &c,
                                        cursor_of(fresh == end ? (uint32_t)c : fresh, fresh_end)))
        large_table_unclaim(fresh, bytes);
    return TAKEN;
}

static enum taken take_from(struct large_region *g, size_t bytes, uint32_t align, uint32_t *at)
{
    uint32_t pages = (uint32_t)(bytes / OS_PAGE);
    uint64_t c = atomic_load(&g->cursor);
    for (;;) {
        uint32_t next = (uint32_t)c, end = (uint32_t)(c >> 32);
        *at = aligned_page(next, align);
        if (*at <= end && end - *at >= pages) {
            if (atomic_compare_exchange_weak(&g->cursor, &c, cursor_of(*at + pages, end))) break;
            continue;
        }
        enum taken t = extend(g, c, pages, align);
        if (t != TAKEN) return t;
        c = atomic_load(&g->cursor);
    }
    enum taken t = map(*at, bytes);
    if (t == REFUSED) { /* let the next one have the addresses */
        c = atomic_load(&g->cursor);
        if ((uint32_t)c == *at + pages)
            atomic_compare_exchange_strong(&g->cursor, &c, cursor_of(*at, (uint32_t)(c >> 32)));
    }
    return t;
}

static void *take(struct large_region *g, size_t bytes, size_t alignment, size_t *room)
{
    window_start();
    if (bytes > WINDOW_LARGE_BYTES / 2 || alignment > WINDOW_LARGE_BYTES / 4) return NULL;
    uint32_t align = alignment <= OS_PAGE ? 1 : (uint32_t)(alignment / OS_PAGE), at;
    enum taken t;
    do {
        *room = bytes;
        t = bytes >= LARGE_CHUNK || align > LARGE_CHUNK_PAGES ? take_chunks(bytes, align, &at, room)
                                                              : take_from(g, bytes, align, &at);
    } while (t == OCCUPIED); /* each time further on, so it ends */
    if (t == REFUSED) return NULL;
    atomic_fetch_add(&mapped, bytes);
    return large_address(at);
}

void *large_region_take(struct large_region *g, size_t bytes, size_t alignment)
{
    size_t room;
    return take(g, bytes, alignment, &room);
}

uint32_t large_region_next(struct large_region *g, uint32_t *room)
{
    uint64_t c = atomic_load(&g->cursor);
    *room = (uint32_t)(c >> 32) - (uint32_t)c;
    return (uint32_t)c;
}

static bool any_away; /* set before the first is */

void large_region_unmap(void *at, size_t bytes)
{
    uint32_t page = large_page_of(at), end = page + (uint32_t)(bytes / OS_PAGE);
    __atomic_store_n(&any_away, true, __ATOMIC_RELAXED);
    for (uint32_t i = page; i < end; i++) {
        _Atomic uint32_t *state = &large_record_of(i)->state;
        if (atomic_exchange(state, LARGE_AWAY) != LARGE_AWAY) atomic_fetch_sub(&mapped, OS_PAGE);
    }
    os_unmap(at, bytes);
}

bool large_region_restore(void *at, size_t bytes)
{
    if (likely(!__atomic_load_n(&any_away, __ATOMIC_RELAXED))) return true;
    uint32_t page = large_page_of(at), end = page + (uint32_t)(bytes / OS_PAGE);
    for (uint32_t i = page; i < end;) {
        uint32_t first = i;
        while (i < end && atomic_load(&large_record_of(i)->state) == LARGE_AWAY) i++;
        if (i == first) {
            i++;
            continue;
        }
        size_t n = (size_t)(i - first) * OS_PAGE;
        if (map(first, n) != TAKEN) return false;
        for (uint32_t k = first; k < i; k++) atomic_store(&large_record_of(k)->state, LARGE_NONE);
        atomic_fetch_add(&mapped, n);
    }
    return true;
}

/* Addresses of a freed block of at least `bytes`, not mapped; LARGE_NO_PAGE if there are none. */
static uint32_t reuse(size_t bytes, size_t alignment)
{
    large_stack *s = &unused[class_below(bytes)];
    unsigned depth;
    uint32_t page = large_stack_pop(s, &depth);
    if (page == LARGE_NO_PAGE) return page;
    if (atomic_load(room_of(page)) >= bytes &&
        ((uintptr_t)large_address(page) & (alignment - 1)) == 0)
        return page;
    large_stack_push(s, page, 256);
    return LARGE_NO_PAGE;
}

static void recycle(uint32_t page)
{
    large_stack_push(&unused[class_below(*room_of(page))], page, 256);
}

void large_map_fresh(void *at, size_t bytes)
{
    if (bytes >= 4 * MIB && atomic_load_explicit(&mapped, memory_order_relaxed) >= OS_HUGE_FROM)
        huge_prefer(at, bytes);
}

static void *map_block(size_t bytes, size_t alignment)
{
    uint32_t page = reuse(bytes, alignment);
    if (page != LARGE_NO_PAGE) {
        enum taken t = map(page, bytes);
        if (t == TAKEN) {
            atomic_fetch_add(&mapped, bytes);
            return large_address(page);
        }
        recycle(page);
        if (t == REFUSED) return NULL;
    }
    size_t room;
    void *block = take(&direct_region, bytes, alignment, &room);
    if (block) atomic_store(room_of(large_page_of(block)), room);
    return block;
}

void *large_map_alloc(size_t bytes, size_t alignment)
{
    bytes = round_up(bytes, OS_PAGE);
    void *block = map_block(bytes < 2 * OS_PAGE ? 2 * OS_PAGE : bytes, alignment);
    if (!block) return NULL;
    large_map_fresh(block, bytes);
    large_table_enter(large_page_of(block), bytes, LARGE_LIVE | LARGE_DIRECT);
    return block;
}

void large_map_free(uint32_t page)
{
    struct large_record *r = large_record_of(page);
    size_t bytes = atomic_load(&r->bytes);
    os_unmap(large_address(page), bytes);
    atomic_fetch_sub(&mapped, bytes);
    if (!(atomic_load(&r->state) & LARGE_DIRECT)) atomic_store(room_of(page), bytes);
    atomic_store(&r->state, LARGE_FREED | LARGE_DIRECT);
    recycle(page);
}

static bool grow_mapping(void *block, size_t from, size_t to)
{
    if (seal_meets((uintptr_t)block, from)) return false; /* of a file's mapping it would be more of the file */
    return os_move(block, from, to, 0, NULL) == (long)block;
}

bool large_map_resize(uint32_t page, size_t bytes)
{
    struct large_record *r = large_record_of(page);
    size_t old = atomic_load(&r->bytes), room = atomic_load(room_of(page));
    char *block = large_address(page);
    if (bytes < old) {
        os_unmap(block + bytes, old - bytes);
        atomic_fetch_sub(&mapped, old - bytes);
    } else if (bytes > old) {
        if (bytes > room) { /* the chunks behind it, where they are nobody's */
            uint32_t end = page + (uint32_t)(room / OS_PAGE);
            if (end % LARGE_CHUNK_PAGES != 0 || bytes > WINDOW_LARGE_BYTES / 2 ||
                !large_table_claim_after(end, bytes - room))
                return false;
            if (!large_table_map(end, bytes - room, NULL)) {
                large_table_unclaim(end, bytes - room);
                return false;
            }
            atomic_store(room_of(page), room + round_up(bytes - room, LARGE_CHUNK));
        }
        if (!grow_mapping(block, old, bytes)) return false;
        atomic_fetch_add(&mapped, bytes - old);
    }
    return true;
}

bool large_map_move_to(uint32_t page, void *to, size_t bytes, uint32_t state)
{
    struct large_record *r = large_record_of(page);
    size_t old = atomic_load(&r->bytes), n = old < bytes ? old : bytes;
    bool direct = atomic_load(&r->state) & LARGE_DIRECT;
    char *from = large_address(page), *end = (char *)to + n;
    if (seal_meets((uintptr_t)from, old)) return false;
    /* Page tables are moved whole where both ends lie alike within 2 MiB. */
    long moved = direct ? os_move(from, n, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to)
                        : os_move(from, n, n, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to);
    if (moved != (long)to) return false; /* an old kernel, or the pages lie in several mappings */
    if (!direct && bytes > n) { /* one mapping again, so that it can grow and move as one */
        os_unmap(end, bytes - n);
        if (!grow_mapping(to, n, bytes)) os_map_at(end, bytes - n, NULL);
    }
    large_table_enter(large_page_of(to), bytes, state);
    if (direct) {
        if (old > n) os_unmap(from + n, old - n);
        atomic_fetch_sub(&mapped, old);
        atomic_store(&r->state, LARGE_FREED | LARGE_DIRECT);
        recycle(page);
    }
    return true;
}

void *large_map_move(uint32_t page, size_t bytes)
{
    void *to = map_block(bytes, OS_PAGE);
    if (!to || large_map_move_to(page, to, bytes, LARGE_LIVE | LARGE_DIRECT)) return to;
    uint32_t new = large_page_of(to);
    atomic_store(&large_record_of(new)->bytes, bytes);
    atomic_store(&large_record_of(new)->state, LARGE_BUSY | LARGE_DIRECT);
    large_map_free(new);
    return NULL;
}

size_t large_map_bytes(void)
{
    return atomic_load(&mapped);
}

void large_map_forget(void)
{
    for (unsigned c = 0; c < CLASSES; c++) atomic_store(&unused[c], 0);
}
