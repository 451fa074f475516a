/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/large.h"
#include "heap/large_big.h"
#include "heap/large_cache.h"
#include "heap/large_gate.h"
#include "heap/large_jemalloc.h"
#include "heap/large_keep.h"
#include "heap/large_map.h"
#include "heap/large_table.h"
#include "heap/os.h"
#include "heap/print.h"
#include "heap/seal.h"

/* 1. Where a block comes from: the cache of freed blocks (up to 256 KiB), jemalloc (up to 3.5 MiB), the arenas of big
      blocks (up to 256 MiB), or a mapping of its own (above, and whenever the gate is closed).
   2. Its life: the record's state says whose it is.

        (jemalloc) -> LIVE <-> BUSY           resizing
                       |
                       v
                     CACHED -> LIVE           reused from the cache
                       |
                       v
                     FREED                    back in jemalloc, a free span, or unmapped

      The step from LIVE is a compare-and-swap: of two threads that free a block one wins.
   3. While the gate is closed blocks that are not direct wait on `pending`; who enters next frees them. */

static struct counters {
    _Alignas(64) _Atomic uint64_t allocated, allocated_bytes, freed, freed_bytes;
} counters[LARGE_SHARDS];

static large_stack pending;
static bool counts_are_torn; /* in a child of a process with threads, until large_recount */

static void add(_Atomic uint64_t *to, uint64_t n)
{
    atomic_fetch_add_explicit(to, n, memory_order_relaxed);
}

static bool change(struct large_record *r, uint32_t *from, uint32_t to)
{
    return atomic_compare_exchange_strong(&r->state, from, (*from & ~LARGE_STATE_MASK) | to);
}

/* Takes the record from LIVE; *state gets what it was. */
static bool take(struct large_record *r, uint32_t *state, uint32_t to)
{
    *state = atomic_load_explicit(&r->state, memory_order_acquire);
    while ((*state & LARGE_STATE_MASK) == LARGE_LIVE) /* a collection may make it old meanwhile */
        if (change(r, state, to)) return true;
    return false;
}

/* The size of a block for a request: a class, or for a big block whole spans. */
static size_t given_bytes(size_t size)
{
    size_t bytes = large_class_bytes(size);
    return bytes < BIG_MIN || size >= LARGE_DIRECT_MIN ? bytes : round_up(size, SPAN_BYTES);
}

static bool is_big(size_t bytes) { return bytes >= BIG_MIN && bytes < LARGE_DIRECT_MIN; }

static void free_inside(uint32_t page)
{
    struct large_record *r = large_record_of(page);
    uint32_t state = atomic_load(&r->state);
    size_t bytes = atomic_load(&r->bytes);
    if (state & LARGE_BIG) {
        big_free(page, bytes, state >> LARGE_ARENA_SHIFT, state & LARGE_CLEAN);
        return;
    }
    atomic_store(&r->state, LARGE_FREED);
    je_free(large_address(page), bytes, state >> LARGE_ARENA_SHIFT);
}

static void drain(void) /* inside the gate */
{
    if (likely(large_stack_empty(&pending))) return;
    unsigned depth;
    uint32_t page = large_stack_take(&pending, &depth);
    while (page != LARGE_NO_PAGE) {
        uint32_t next = large_stack_next(page);
        free_inside(page);
        page = next;
    }
}

/* A block that nobody wants any more goes back where it came from.  Its state is CACHED. */
static void give_back(uint32_t page)
{
    bool direct = atomic_load(&large_record_of(page)->state) & LARGE_DIRECT;
    if (direct || large_gate_broken()) {
        large_map_free(page);
    } else if (large_gate_enter()) {
        drain();
        free_inside(page);
        large_gate_leave();
    } else {
        large_stack_push(&pending, page, 256);
    }
}

static void *from_cache(size_t bytes, size_t alignment, bool zero)
{
    if (bytes > LARGE_CACHE_MAX) return NULL;
    uint32_t page = large_cache_get(large_shard(), bytes);
    if (page == LARGE_NO_PAGE) return NULL;
    void *block = large_address(page);
    if (unlikely((uintptr_t)block & (alignment - 1))) {
        if (!large_cache_put(large_shard(), page, bytes)) give_back(page);
        return NULL;
    }
    if (zero) __builtin_memset(block, 0, bytes);
    struct large_record *r = large_record_of(page);
    uint32_t state = atomic_load_explicit(&r->state, memory_order_relaxed);
    atomic_store_explicit(&r->entry, 0, memory_order_relaxed);
    atomic_store_explicit(&r->state, (state & ~(LARGE_STATE_MASK | LARGE_OLD)) | LARGE_LIVE,
                          memory_order_release);
    return block;
}

static void *from_arenas(size_t bytes, size_t alignment, bool zero)
{
    bool big = is_big(bytes);
    if (bytes >= LARGE_DIRECT_MIN || alignment > BIG_ALIGN_MAX || !large_gate_enter()) return NULL;
    drain();
    unsigned arena;
    void *block = big ? big_alloc(bytes, alignment, zero, &arena)
                      : je_alloc(bytes, alignment, zero, large_shard(), &arena);
    if (block)
        large_table_enter(large_page_of(block), bytes,
                          LARGE_LIVE | (big ? LARGE_BIG : 0) | arena << LARGE_ARENA_SHIFT);
    large_gate_leave();
    return block;
}

void *large_alloc(size_t size, size_t alignment, bool zero, size_t *given)
{
    if (unlikely(size - 1 >= PTRDIFF_MAX || size > WINDOW_LARGE_BYTES)) return NULL;
    if (alignment < OS_PAGE) alignment = OS_PAGE;
    size_t bytes = given_bytes(size);
    void *block = from_cache(bytes, alignment, zero);
    if (!block) block = from_arenas(bytes, alignment, zero);
    if (!block) block = large_map_alloc(bytes, alignment);
    if (unlikely(!block)) { /* where addresses are limited: without the class's rounding */
        large_cache_flush(true, give_back);
        bytes = round_up(size, OS_PAGE);
        block = large_map_alloc(bytes, alignment);
        if (!block) return NULL;
    }
    struct counters *c = &counters[large_shard()];
    add(&c->allocated, 1);
    add(&c->allocated_bytes, bytes);
    *given = bytes;
    return block;
}

static ALWAYS_INLINE size_t release(void *block, uint32_t *entry, bool *old, bool discard)
{
    *entry = 0;
    *old = false;
    struct large_record *r = large_record_at(block);
    uint32_t state;
    /* What is lost is old, also if it has come and gone in between. */
    if (unlikely(!r || (discard && !(atomic_load(&r->state) & LARGE_OLD)) || !take(r, &state, LARGE_CACHED))) return 0;
    unsigned shard = large_shard();
    uint32_t page = large_page_of(block);
    size_t bytes = atomic_load_explicit(&r->bytes, memory_order_relaxed);
    *entry = atomic_load_explicit(&r->entry, memory_order_relaxed);
    *old = state & LARGE_OLD;
    if (discard) {
        seal_discard(block, bytes);
        if (state & LARGE_BIG) atomic_fetch_or(&r->state, LARGE_CLEAN);
    }
    struct counters *c = &counters[shard];
    add(&c->freed, 1);
    add(&c->freed_bytes, bytes);
    if (!large_cache_put(shard, page, bytes)) give_back(page);
    return bytes;
}

size_t large_free(void *block, uint32_t *entry, bool *old) { return release(block, entry, old, false); }

size_t large_reclaim(void *block, uint32_t *entry)
{
    bool old;
    return release(block, entry, &old, true);
}

/* As if the block were freed and a new one allocated, which is how the sampler sees it too. */
static void count_resize(size_t from, size_t to)
{
    struct counters *c = &counters[large_shard()];
    add(&c->allocated, 1);
    add(&c->allocated_bytes, to);
    add(&c->freed, 1);
    add(&c->freed_bytes, from);
}

static size_t resize_inside(uint32_t page, uint32_t state, size_t old, size_t size)
{
    unsigned arena = state >> LARGE_ARENA_SHIFT;
    size_t want = given_bytes(size);
    if (!(state & LARGE_BIG)) return is_big(want) ? old : je_resize(large_address(page), old, want, arena);
    if (want < old && large_class_bytes(size) >= old) return old; /* the room that a move has left */
    return want < BIG_MIN ? old : big_resize(page, old, want, arena);
}

size_t large_resize(void *block, size_t size)
{
    struct large_record *r = large_record_at(block);
    uint32_t state;
    if (size - 1 >= PTRDIFF_MAX || size > WINDOW_LARGE_BYTES || !r || !take(r, &state, LARGE_BUSY))
        return 0;
    uint32_t page = large_page_of(block);
    size_t old = atomic_load(&r->bytes), want = given_bytes(size), now = old;
    if (want < 32 * KIB) want = 40 * KIB; /* the smallest class of ours */
    if (want == old) {
        now = old;
    } else if (state & LARGE_DIRECT) {
        if (large_map_resize(page, want)) now = want;
    } else if (want < LARGE_DIRECT_MIN && large_gate_enter()) {
        now = resize_inside(page, state, old, want);
        large_gate_leave();
    }
    if (now != old) {
        count_resize(old, now);
        large_table_enter_again(page, now);
    }
    atomic_store(&r->state, state);
    return now >= size ? now : 0;
}

/* To memory without pages in an arena, or to a mapping of its own; with room to grow, since it has grown. */
static void *move_pages(uint32_t page, size_t bytes)
{
    if (!is_big(bytes) || !large_gate_enter()) return large_map_move(page, bytes);
    unsigned arena;
    void *to = big_alloc_bare(bytes, &arena);
    if (to && !large_map_move_to(page, to, bytes, LARGE_LIVE | LARGE_BIG | arena << LARGE_ARENA_SHIFT)) {
        big_free(large_page_of(to), bytes, arena, true);
        to = NULL;
    }
    large_gate_leave();
    return to;
}

void *large_move(void *block, size_t size, size_t *given)
{
    struct large_record *r = large_record_at(block);
    uint32_t state;
    if (size - 1 >= PTRDIFF_MAX || size > WINDOW_LARGE_BYTES || !r) return NULL;
    size_t old = atomic_load(&r->bytes), bytes = large_class_bytes(size);
    if (old < LARGE_MOVE_MIN || bytes < LARGE_MOVE_MIN || !take(r, &state, LARGE_BUSY)) return NULL;
    uint32_t entry = atomic_load(&r->entry);
    void *to = move_pages(large_page_of(block), bytes);
    if (!to) {
        atomic_store(&r->state, state);
        return NULL;
    }
    large_set_entry(to, entry);
    count_resize(old, bytes);
    if (!(state & LARGE_DIRECT)) {
        uint32_t bare = old <= bytes ? LARGE_CLEAN : 0;
        atomic_store(&r->state, (state & ~(LARGE_STATE_MASK | LARGE_OLD)) | LARGE_CACHED | bare);
        give_back(large_page_of(block));
    }
    *given = bytes;
    return to;
}

size_t large_size(const void *block)
{
    struct large_record *r = large_record_at(block);
    if (!r) return 0;
    uint32_t state = atomic_load_explicit(&r->state, memory_order_acquire) & LARGE_STATE_MASK;
    return state == LARGE_LIVE || state == LARGE_BUSY ? atomic_load(&r->bytes) : 0;
}

bool large_find(const void *address, void **block, size_t *size)
{
    uint32_t page;
    if (!large_table_find(address, &page, size)) return false;
    *block = large_address(page);
    return true;
}

void large_set_entry(void *block, uint32_t entry)
{
    struct large_record *r = large_record_at(block);
    if (r) atomic_store_explicit(&r->entry, entry, memory_order_relaxed);
}

uint32_t large_entry(const void *block)
{
    return large_size(block) ? atomic_load(&large_record_at(block)->entry) : 0;
}

bool large_is_old(const void *block)
{
    struct large_record *r = large_record_at(block);
    return r && (atomic_load_explicit(&r->state, memory_order_relaxed) & LARGE_OLD);
}

struct each {
    void (*each)(void *block, size_t size, uint32_t entry, void *user);
    void *user;
};

static bool visit(uint32_t page, size_t bytes, void *user)
{
    struct each *e = user;
    e->each(large_address(page), bytes, atomic_load(&large_record_of(page)->entry), e->user);
    return true;
}

void large_each(void (*each)(void *block, size_t size, uint32_t entry, void *user), void *user)
{
    struct each e = {each, user};
    large_table_each(visit, &e);
}

void large_stats(struct large_stats *to)
{
    uint64_t freed = 0, freed_bytes = 0, used, unused;
    *to = (struct large_stats){0};
    for (unsigned i = 0; i < LARGE_SHARDS; i++) { /* freed first: live never seems negative */
        freed += atomic_load(&counters[i].freed);
        freed_bytes += atomic_load(&counters[i].freed_bytes);
    }
    for (unsigned i = 0; i < LARGE_SHARDS; i++) {
        to->allocated += atomic_load(&counters[i].allocated);
        to->allocated_bytes += atomic_load(&counters[i].allocated_bytes);
    }
    to->live = to->allocated - freed;
    to->live_bytes = to->allocated_bytes - freed_bytes;
    large_counts(&used, &unused);
    to->mapped_bytes = large_map_bytes();
    to->cached_bytes = unused + large_cache_bytes();
}

void large_counts(uint64_t *used, uint64_t *unused)
{
    uint64_t big_used, big_unused;
    je_counts(used, unused);
    big_counts(&big_used, &big_unused);
    *used += big_used;
    *unused += big_unused;
}

void large_save_addresses(void)
{
    je_save_addresses();
    big_save_addresses();
}

bool large_trim(void)
{
    bool any = large_cache_flush(true, give_back);
    if (large_gate_enter()) {
        drain();
        any |= je_trim();
        any |= big_trim();
        large_gate_leave();
    }
    return any;
}

void large_decay(uint64_t now, uint64_t decay_ns)
{
    static _Atomic uint64_t flushed;
    uint64_t last = atomic_load_explicit(&flushed, memory_order_relaxed);
    if (now - last >= decay_ns && atomic_compare_exchange_strong(&flushed, &last, now))
        large_cache_flush(false, give_back);
    if (large_gate_enter()) {
        drain();
        je_decay(now, decay_ns);
        big_decay(now, decay_ns);
        large_gate_leave();
    }
}

void large_fork_prepare(void)
{
    large_gate_prepare();
}

void large_fork_parent(void)
{
    large_gate_parent();
    if (!large_stack_empty(&pending) && large_gate_enter()) {
        drain();
        large_gate_leave();
    }
}

void large_fork_child(bool threads_were_there)
{
    large_gate_child();
    if (threads_were_there) { /* stacks that were copied while others changed them */
        counts_are_torn = true;
        large_cache_forget();
        large_map_forget();
        atomic_store(&pending, 0);
    }
    if (large_gate_broken()) { /* what waits for jemalloc is unmapped instead */
        unsigned depth;
        uint32_t page = large_stack_take(&pending, &depth);
        while (page != LARGE_NO_PAGE) {
            uint32_t next = large_stack_next(page);
            large_map_free(page);
            page = next;
        }
    }
}

struct found {
    uint64_t live, live_bytes, big[BIG_ARENAS];
};

static bool count(uint32_t page, size_t bytes, void *user)
{
    struct found *f = user;
    uint32_t state = atomic_load(&large_record_of(page)->state);
    f->live++;
    f->live_bytes += bytes;
    if (state & LARGE_BIG) f->big[state >> LARGE_ARENA_SHIFT] += bytes;
    return true;
}

/* Counters only grow: others have taken their difference to what they were. */
static void correct(_Atomic uint64_t *in, _Atomic uint64_t *out, uint64_t from, uint64_t to)
{
    if (to >= from) add(in, to - from);
    else add(out, from - to);
}

void large_recount(void)
{
    struct found f = {0};
    large_table_each(count, &f);
    struct large_stats s;
    large_stats(&s);
    correct(&counters[0].allocated, &counters[0].freed, s.live, f.live);
    correct(&counters[0].allocated_bytes, &counters[0].freed_bytes, s.live_bytes, f.live_bytes);
    big_recount(f.big);
    counts_are_torn = false;
}

struct verify {
    void (*complain)(const char *line);
    bool good;
    struct found found;
    uint64_t end;
};

static void wrong(struct verify *v, const char *what, uint32_t page, uint64_t n)
{
    v->good = false;
    char line[160];
    print_to(line, sizeof line, "large block %p: %s (%lu)", large_address(page), what, n);
    if (v->complain) v->complain(line);
}

static bool check(uint32_t page, size_t bytes, void *user)
{
    struct verify *v = user;
    uint32_t start;
    size_t size;
    count(page, bytes, &v->found);
    if (bytes == 0 || bytes % OS_PAGE) wrong(v, "its size is no multiple of a page", page, bytes);
    if (page < v->end) wrong(v, "overlaps the block before it", page, v->end);
    v->end = page + bytes / OS_PAGE;
    if (v->end * OS_PAGE > WINDOW_LARGE_BYTES) wrong(v, "ends outside the area", page, bytes);
    const char *at[] = {large_address(page), (char *)large_address(page) + bytes / 2,
                        (char *)large_address(page) + bytes - 1};
    for (int i = 0; i < 3; i++)
        if (!large_table_find(at[i], &start, &size) || start != page || size != bytes)
            wrong(v, "is not found by an address inside it", page, (uint64_t)i);
    return true;
}

static void big_wrong(const char *what, uint32_t page, void *user) { wrong(user, what, page, page); }

bool large_verify(void (*complain)(const char *line))
{
    struct verify v = {.complain = complain, .good = true};
    struct large_stats s;
    large_stats(&s);
    large_table_each(check, &v);
    if (counts_are_torn) return v.good;
    if (v.found.live != s.live) wrong(&v, "blocks live by the table, not by the counters", 0, v.found.live);
    if (v.found.live_bytes != s.live_bytes)
        wrong(&v, "bytes live by the table, not by the counters", 0, v.found.live_bytes);
    if (!large_gate_broken()) big_verify(v.found.big, big_wrong, &v);
    if (s.live_bytes > s.mapped_bytes) wrong(&v, "more is live than is mapped", 0, s.mapped_bytes);
    return v.good;
}
