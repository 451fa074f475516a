/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/large_big.h"
#include "heap/large_gate.h"
#include "heap/large_keep.h"
#include "heap/large_map.h"
#include "heap/os.h"
#include "heap/seal.h"

/* 1. Arenas.  Each has a lock that nobody waits for: who finds it taken allocates from the next arena, so threads that
      never meet share the first one and its unused memory.  A freed block goes on the arena's stack `returned`; who holds
      the lock, or gets it then, puts it among the free spans.  The lock is held only inside the gate, so no fork copies it
      taken.
   2. Where a block comes from: the dirty span that fits best; a dirty span and the clean one behind it; a clean span;
      fresh addresses, and of those only what the last span lacks.
   3. Giving back.  Spans are detached under the lock and discarded outside of it; meanwhile they are in no list, and
      come back clean over `returned`.  The decay is that of large_jemalloc.c: the least that lay unused during a
      period is what nobody needed in it.
   4. Where addresses are limited, what is given back is unmapped and becomes the direct path's (large_map.h). */

static struct arena {
    _Alignas(64) _Atomic uint32_t locked;
    large_stack returned;
    struct large_region region;
    struct large_spans spans;
    size_t mapped;         /* = used + spans.bytes[], but for what is on its way in `returned` */
    _Atomic uint64_t used; /* bytes in blocks */
    _Atomic uint64_t unused; /* spans.bytes[SPAN_DIRTY], for those who do not hold the lock */
    _Atomic uint64_t low;    /* the least of it in this period */
    _Atomic uint64_t period_start;
} arenas[BIG_ARENAS];

static atomic_bool addresses_are_scarce; /* a mapping was refused */

/* ---- the lock and what is returned ---- */

static bool try_lock(struct arena *a)
{
    uint32_t no = 0;
    if (!atomic_compare_exchange_strong(&a->locked, &no, 1)) return false;
    a->spans.arena = (unsigned)(a - arenas);
    return true;
}

static void take_returned(struct arena *a)
{
    if (large_stack_empty(&a->returned)) return;
    unsigned depth;
    uint32_t page = large_stack_take(&a->returned, &depth);
    while (page != LARGE_NO_PAGE) {
        uint32_t next = large_stack_next(page);
        struct large_record *r = large_record_of(page);
        enum span_kind kind = atomic_load(&r->state) & LARGE_CLEAN ? SPAN_CLEAN : SPAN_DIRTY;
        atomic_store(&r->state, LARGE_FREED);
        spans_add(&a->spans, page, (uint32_t)(atomic_load(&r->bytes) / OS_PAGE), kind, false);
        page = next;
    }
}

static void publish(struct arena *a)
{
    uint64_t unused = a->spans.bytes[SPAN_DIRTY];
    atomic_store_explicit(&a->unused, unused, memory_order_relaxed);
    if (unused < atomic_load_explicit(&a->low, memory_order_relaxed))
        atomic_store_explicit(&a->low, unused, memory_order_relaxed);
}

/* Between the lock's end and the look at `returned` nothing may be reordered: who pushes and finds the lock taken
   leaves the block to us. */
static void unlock(struct arena *a)
{
    publish(a);
    atomic_store(&a->locked, 0);
    atomic_thread_fence(memory_order_seq_cst);
    while (!large_stack_empty(&a->returned) && try_lock(a)) {
        take_returned(a);
        publish(a);
        atomic_store(&a->locked, 0);
        atomic_thread_fence(memory_order_seq_cst);
    }
}

static void give(struct arena *a, uint32_t page, size_t bytes, bool clean)
{
    struct large_record *r = large_record_of(page);
    atomic_store(&r->bytes, bytes);
    atomic_store(&r->state, LARGE_CACHED | (clean ? LARGE_CLEAN : 0));
    large_stack_push(&a->returned, page, 256);
    atomic_thread_fence(memory_order_seq_cst);
    if (!try_lock(a)) return;
    take_returned(a);
    unlock(a);
}

/* ---- giving back to the system ---- */

/* Takes at least `bytes` from a span's end, from a huge page's start on, or all of it; returns how many. */
static size_t detach(struct arena *a, struct span p, uint64_t bytes, large_stack *to)
{
    uint32_t end = p.page + p.pages, page = p.page;
    if (bytes < (uint64_t)p.pages * OS_PAGE) {
        page = (uint32_t)((end - (round_up(bytes, SPAN_BYTES) / OS_PAGE)) & ~(2 * MIB / OS_PAGE - 1));
        if (page < p.page) page = p.page;
    }
    spans_remove(&a->spans, p);
    if (page > p.page) spans_add(&a->spans, p.page, page - p.page, p.kind, true);
    bytes = (uint64_t)(end - page) * OS_PAGE;
    atomic_store(&large_record_of(page)->bytes, bytes);
    large_stack_push(to, page, 256);
    return bytes;
}

/* The detached pieces go back; true if there were any. */
static bool discard(struct arena *a, large_stack *out, bool unmap)
{
    unsigned depth;
    uint32_t page = large_stack_take(out, &depth);
    bool any = page != LARGE_NO_PAGE;
    while (page != LARGE_NO_PAGE) {
        uint32_t next = large_stack_next(page);
        size_t bytes = atomic_load(&large_record_of(page)->bytes);
        if (unmap) {
            large_map_free(page);
        } else {
            seal_discard(large_address(page), bytes);
            give(a, page, bytes, true);
        }
        page = next;
    }
    return any;
}

/* Gives back the oldest unused memory, `bytes` of it or a little more. */
static bool purge(struct arena *a, uint64_t bytes)
{
    large_stack out = 0;
    if (!try_lock(a)) return false;
    take_returned(a);
    bool unmap = atomic_load_explicit(&addresses_are_scarce, memory_order_relaxed);
    for (struct span p; bytes > 0 && (p = spans_oldest(&a->spans)).pages;) {
        size_t n = detach(a, p, bytes, &out);
        if (unmap) a->mapped -= n;
        bytes -= n < bytes ? n : bytes;
    }
    unlock(a);
    return discard(a, &out, unmap);
}

/* Where addresses are limited, also the clean spans. */
static bool unmap_clean(struct arena *a)
{
    large_stack out = 0;
    if (!try_lock(a)) return false;
    for (struct span p; (p = spans_fit(&a->spans, SPAN_PAGES, SPAN_CLEAN)).pages;)
        a->mapped -= detach(a, p, UINT64_MAX, &out);
    unlock(a);
    return discard(a, &out, true);
}

bool big_trim(void)
{
    bool any = false;
    for (struct arena *a = arenas; a < arenas + BIG_ARENAS; a++) {
        any |= purge(a, UINT64_MAX);
        if (atomic_load(&addresses_are_scarce)) any |= unmap_clean(a);
    }
    return any;
}

void big_save_addresses(void) { atomic_store(&addresses_are_scarce, true); }

void big_decay(uint64_t now, uint64_t decay_ns)
{
    uint64_t used, unused;
    large_counts(&used, &unused);
    uint64_t keep = large_worth_keeping(used);
    for (struct arena *a = arenas; a < arenas + BIG_ARENAS; a++) {
        bool excess = unused > keep;
        uint64_t start = atomic_load(&a->period_start), period = excess ? decay_ns / 8 : decay_ns;
        if (now - start < period || !atomic_compare_exchange_strong(&a->period_start, &start, now)) continue;
        uint64_t n = atomic_exchange(&a->low, atomic_load(&a->unused));
        if (start == 0 || n == 0) continue;
        if (excess && n > unused - keep) n = unused - keep;
        purge(a, n);
        unused -= n < unused ? n : unused;
    }
}

/* ---- allocation ---- */

/* Fresh addresses: `pages` in one piece, or what a free span in front of them lacks. */
static bool grow(struct arena *a, uint32_t pages)
{
    uint32_t room, next = large_region_next(&a->region, &room);
    struct span last = spans_ending(&a->spans, next);
    uint32_t lacks = last.pages < pages ? pages - last.pages : pages;
    size_t bytes = (size_t)(lacks <= room && lacks < LARGE_CHUNK_PAGES ? lacks : pages) * OS_PAGE;
    bool scarce = atomic_load_explicit(&addresses_are_scarce, memory_order_relaxed);
    size_t more = scarce ? bytes : round_up(bytes, 2 * MIB);
    void *at = large_region_take(&a->region, more, SPAN_BYTES);
    if (!at && more > bytes) at = large_region_take(&a->region, more = bytes, SPAN_BYTES);
    if (!at) return false;
    a->mapped += more;
    spans_add(&a->spans, large_page_of(at), (uint32_t)(more / OS_PAGE), SPAN_CLEAN, false);
    return true;
}

/* Cuts `pages` from the span, which the clean one behind it continues if it is too short; *dirty of them, the first ones, may have
   their pages. */
static uint32_t cut(struct arena *a, struct span p, uint32_t pages, uint32_t align, uint32_t *dirty)
{
    uint32_t start = (uint32_t)round_up(p.page, align), end = start + pages, limit = p.page + p.pages;
    spans_remove(&a->spans, p);
    if (start > p.page) spans_add(&a->spans, p.page, start - p.page, p.kind, true);
    *dirty = p.kind == SPAN_CLEAN ? 0 : end < limit ? pages : limit - start;
    if (end < limit) spans_add(&a->spans, end, limit - end, p.kind, true);
    if (end > limit) {
        struct span next = spans_starting(&a->spans, limit);
        spans_remove(&a->spans, next);
        if (next.pages > end - limit)
            spans_add(&a->spans, end, next.pages - (end - limit), SPAN_CLEAN, false);
    }
    return start;
}

static struct span find(struct arena *a, uint32_t pages, uint32_t align, bool bare)
{
    struct span p = {0};
    if (!bare) p = spans_fit(&a->spans, pages, SPAN_DIRTY);
    if (!p.pages && !bare && align == SPAN_PAGES) p = spans_with_next(&a->spans, pages);
    if (!p.pages) p = spans_fit(&a->spans, pages, SPAN_CLEAN);
    return p;
}

/* The first page of the block, or LARGE_NO_PAGE. */
static uint32_t take(struct arena *a, uint32_t pages, uint32_t align, bool bare, uint32_t *dirty)
{
    uint32_t most = pages + align - SPAN_PAGES;
    take_returned(a);
    if (bare && spans_fit(&a->spans, pages, SPAN_DIRTY).pages) return LARGE_NO_PAGE;
    struct span p = find(a, most, align, bare);
    for (unsigned tries = 0; !p.pages && tries < 2; tries++) {
        if (!grow(a, most)) return LARGE_NO_PAGE;
        p = find(a, most, align, bare);
    }
    return p.pages ? cut(a, p, pages, align, dirty) : LARGE_NO_PAGE;
}

/* Pages that were not there will be touched: those that lie unused elsewhere make room for them. */
static void took_fresh(struct arena *a, uint32_t page, uint32_t pages)
{
    size_t bytes = (size_t)pages * OS_PAGE;
    large_map_fresh(large_address(page), bytes);
    uint64_t used, unused;
    large_counts(&used, &unused);
    uint64_t most = large_most_growing(used);
    if (unlikely(unused > most)) purge(a, unused - most < bytes ? unused - most : bytes);
}

static void *alloc(size_t bytes, size_t alignment, bool zero, bool bare, unsigned *arena)
{
    uint32_t pages = (uint32_t)(bytes / OS_PAGE);
    uint32_t align = alignment > SPAN_BYTES ? (uint32_t)(alignment / OS_PAGE) : SPAN_PAGES;
    for (unsigned i = 0; i < BIG_ARENAS; i++) {
        struct arena *a = &arenas[i];
        if (!try_lock(a)) continue;
        uint32_t dirty = 0, page = take(a, pages, align, bare, &dirty);
        if (page != LARGE_NO_PAGE) atomic_fetch_add_explicit(&a->used, bytes, memory_order_relaxed);
        unlock(a);
        if (page == LARGE_NO_PAGE) return NULL;
        if (dirty < pages && !bare) took_fresh(a, page + dirty, pages - dirty);
        if (zero && dirty > 0) __builtin_memset(large_address(page), 0, (size_t)dirty * OS_PAGE);
        *arena = i;
        return large_address(page);
    }
    return NULL;
}

void *big_alloc(size_t bytes, size_t alignment, bool zero, unsigned *arena)
{
    return alloc(bytes, alignment, zero, false, arena);
}

void *big_alloc_bare(size_t bytes, unsigned *arena) { return alloc(bytes, SPAN_BYTES, false, true, arena); }

static void freed(struct arena *a)
{
    uint64_t used, unused;
    large_counts(&used, &unused);
    uint64_t most = large_most_freed(used);
    if (unlikely(unused > most)) purge(a, unused - most);
}

void big_free(uint32_t page, size_t bytes, unsigned arena, bool bare)
{
    struct arena *a = &arenas[arena];
    atomic_fetch_sub_explicit(&a->used, bytes, memory_order_relaxed);
    give(a, page, bytes, bare);
    if (!bare) freed(a);
}

/* ---- resizing ---- */

/* Pages behind `end`, in a free span and in the clean one behind that. */
static uint32_t free_behind(struct arena *a, uint32_t end, struct span *first)
{
    *first = spans_starting(&a->spans, end);
    if (!first->pages || first->kind == SPAN_CLEAN) return first->pages;
    struct span next = spans_starting(&a->spans, end + first->pages);
    return first->pages + next.pages;
}

static bool extend(struct arena *a, uint32_t end, uint32_t pages, uint32_t *dirty)
{
    struct span first;
    uint32_t behind = free_behind(a, end, &first), room;
    if (behind < pages) { /* only where fresh addresses follow at once */
        uint32_t lacks = pages - behind, next = large_region_next(&a->region, &room);
        if (next != end + behind || lacks > room || lacks >= LARGE_CHUNK_PAGES) return false;
        void *at = large_region_take(&a->region, (size_t)lacks * OS_PAGE, SPAN_BYTES);
        if (!at) return false;
        a->mapped += (size_t)lacks * OS_PAGE;
        spans_add(&a->spans, large_page_of(at), lacks, SPAN_CLEAN, false);
        if (free_behind(a, end, &first) < pages) return false; /* something lay there: it is further on */
    }
    cut(a, first, pages, SPAN_PAGES, dirty);
    return true;
}

size_t big_resize(uint32_t page, size_t old, size_t bytes, unsigned arena)
{
    struct arena *a = &arenas[arena];
    if (bytes == old || !try_lock(a)) return old;
    take_returned(a);
    uint32_t have = (uint32_t)(old / OS_PAGE), want = (uint32_t)(bytes / OS_PAGE), dirty = 0;
    bool done = true;
    if (want < have) { /* the block ends before its tail is somebody else's */
        atomic_store(&large_record_of(page)->bytes, bytes);
        spans_add(&a->spans, page + want, have - want, SPAN_DIRTY, false);
    } else {
        done = extend(a, page + have, want - have, &dirty);
    }
    if (done) atomic_fetch_add_explicit(&a->used, bytes - old, memory_order_relaxed);
    unlock(a);
    if (!done) return old;
    if (want < have) freed(a);
    else if (dirty < want - have) took_fresh(a, page + have + dirty, want - have - dirty);
    return bytes;
}

/* ---- figures ---- */

void big_counts(uint64_t *used, uint64_t *unused)
{
    *used = *unused = 0;
    for (struct arena *a = arenas; a < arenas + BIG_ARENAS; a++) {
        *used += atomic_load_explicit(&a->used, memory_order_relaxed);
        *unused += atomic_load_explicit(&a->unused, memory_order_relaxed);
    }
}

void big_recount(const uint64_t live[BIG_ARENAS])
{
    for (unsigned i = 0; i < BIG_ARENAS; i++) {
        struct arena *a = &arenas[i];
        if (!try_lock(a)) continue;
        take_returned(a);
        atomic_store(&a->used, live[i]);
        a->mapped = live[i] + a->spans.bytes[SPAN_CLEAN] + a->spans.bytes[SPAN_DIRTY];
        unlock(a);
    }
}

void big_verify(const uint64_t live[BIG_ARENAS], void (*wrong)(const char *what, uint32_t page, void *user), void *user)
{
    for (unsigned i = 0; i < BIG_ARENAS; i++) {
        struct arena *a = &arenas[i];
        if (!try_lock(a)) {
            wrong("an arena of big blocks is locked", i, user);
            continue;
        }
        if (!large_stack_empty(&a->returned)) wrong("a freed big block was left lying", i, user);
        spans_verify(&a->spans, wrong, user);
        if (atomic_load(&a->used) != live[i]) wrong("big blocks live by the table and by the counter differ", i, user);
        if (a->mapped != atomic_load(&a->used) + a->spans.bytes[SPAN_CLEAN] + a->spans.bytes[SPAN_DIRTY])
            wrong("big blocks and free spans are not what was mapped", i, user);
        unlock(a);
    }
}
