/* tracked.c: the table of tracked blocks.

   1. Data.  Entries of 32 bytes lie in chunks of 512 KiB which a directory finds by number;
      chunks are mapped when they are needed and never given back.  Entry 0 is not used.  The
      first word of an entry says what it is:

          address << 16 | flags     live
          0 << 16 | generation      free, and in a list of this fork generation
          0                         never used

   2. Free entries.  Each thread has a cache of up to 64 (last in, first out).  When it is empty
      it is filled by one batch of 31, when it is full 31 go back, so that threads meet at a
      shared word once in 31 blocks.  Batches lie on a Treiber stack (IBM RJ 5118, 1986) whose
      head carries a tag against ABA; `site` of a batch's first entry links them.  That holds the numbers of
      five others, each of which holds those of five more: whoever takes the batch waits for memory twice, not for
      one entry after the other, and those that are taken are written to, but not waited for.  When the stack is empty, numbers
      are taken from `next_unused`.
   3. Forks.  The kernel copies page after page while other threads go on, so what a child finds
      is of no one moment: a list's head may be older than the entries that it names.  So a child
      trusts no list.  It starts with empty ones and a new generation (caches see that and are
      dropped), and recovers free entries by a sweep over the table: those are free whose first
      word is no live block and not of this generation.  Each is visited once.  A number from
      `next_unused` is checked in the same way.  And `tracked_remove` checks the address, so an
      entry that was lost and given to another block is not removed with the wrong one.
   4. Synchronisation.  An entry belongs to the thread that owns its block, or its cache.  Its
      first word is stored last (release) when it becomes live and first when it is freed; readers
      read it before and after the rest.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/meta.h"
#include "heap/syscall.h"
#include "heap/tag.h"
#include "sampler/deaths.h"

#include <sys/sysinfo.h>

#define HELD 5                     /* numbers that an entry holds besides its own */
#define BATCH (1 + HELD + HELD * HELD)
#define UNUSED_BATCH 32u
#define CHUNK_SHIFT TRACKED_CHUNK_SHIFT
#define CHUNK TRACKED_CHUNK
#define CHUNKS (TRACKED_MAX >> CHUNK_SHIFT)
#define SWEEP_STEP 64
#define SWEEP_STEPS 16 /* visited for one batch, before unused numbers are taken instead */

_Static_assert(sizeof(struct tracked_entry) == 32,
               "two entries a cache line; 10 M blocks in 320 MB");

_Atomic(struct tracked_entry *) tracked_chunks[CHUNKS];
static _Atomic(struct tracked_entry *) spare_chunk; /* mapped by a thread that was second */
static _Atomic uint64_t free_batches;               /* tag << 32 | first entry of the first batch */
static _Atomic uint32_t next_unused = 1;
static _Atomic uint32_t sweep_at, sweep_end; /* entries that a child has still to look at */
_Atomic uint32_t tracked_generation = 1;     /* of the fork; never 0, fits in 16 bits */
static _Atomic uint32_t limit = CHUNK;
static _Atomic uint64_t dropped, chunk_count;

#define RELAXED(op, ...) atomic_##op##_explicit(__VA_ARGS__, memory_order_relaxed)

#define entry_at tracked_entry_at

static bool is_live(uint64_t what)
{
    return what >> 16 != 0;
}

/* Makes sure that the chunk of this number exists. */
static bool have_chunk(uint32_t number)
{
    _Atomic(struct tracked_entry *) *at = &tracked_chunks[number >> CHUNK_SHIFT];
    if (likely(atomic_load_explicit(at, memory_order_acquire))) return true;
    struct tracked_entry *fresh = atomic_exchange(&spare_chunk, NULL), *none = NULL;
    if (!fresh) {
        fresh = meta_alloc(CHUNK * sizeof *fresh);
        if (!fresh) return false;
        RELAXED(fetch_add, &chunk_count, 1);
    }
    if (!atomic_compare_exchange_strong(at, &none, fresh)) {
        none = NULL; /* somebody was faster: keep it for the next time */
        atomic_compare_exchange_strong(&spare_chunk, &none, fresh);
    }
    return true;
}

void tracked_start(size_t bytes)
{
    if (bytes == 0) {
        struct sysinfo info = {.mem_unit = 0};
        if (raw_syscall(SYS_sysinfo, &info) != 0) info.totalram = GIB, info.mem_unit = 1;
        bytes = (size_t)info.totalram * info.mem_unit / 4;
    }
    size_t entries = bytes / sizeof(struct tracked_entry);
    if (entries < 2 * UNUSED_BATCH) entries = 2 * UNUSED_BATCH;
    if (entries > TRACKED_MAX) entries = TRACKED_MAX;
    RELAXED(store, &limit, (uint32_t)entries);
}

static void push_batch(uint32_t first)
{
    struct tracked_entry *e = entry_at(first);
    uint64_t head = atomic_load_explicit(&free_batches, memory_order_relaxed), with;
    do {
        RELAXED(store, &e->site, (uint32_t)head);
        with = ((head >> 32) + 1) << 32 | first;
    } while (!atomic_compare_exchange_weak_explicit(&free_batches, &head, with,
                                                    memory_order_release, memory_order_relaxed));
}

/* The first entry of a batch, or 0. */
static uint32_t pop_batch(void)
{
    uint64_t head = atomic_load_explicit(&free_batches, memory_order_acquire), with;
    do {
        if ((uint32_t)head == 0) return 0;
        /* The batch may be another thread's by now: then this is nonsense, and the tag says so. */
        uint32_t next = RELAXED(load, &entry_at((uint32_t)head)->site);
        with = ((head >> 32) + 1) << 32 | next;
    } while (!atomic_compare_exchange_weak_explicit(&free_batches, &head, with,
                                                    memory_order_acquire, memory_order_acquire));
    return (uint32_t)head;
}

/* Takes those of the numbers that are free and in no list; see 3. */
static void take_range(struct tracked_cache *cache, uint32_t from, uint32_t to, uint32_t now)
{
    for (uint32_t i = to; i > from; i--) {
        struct tracked_entry *e = entry_at(i - 1);
        if (!e) continue;
        uint64_t what = RELAXED(load, &e->what);
        if (is_live(what) || what == now) continue;
        RELAXED(store, &e->what, now);
        cache->entry[cache->count++] = i - 1;
    }
}

static void sweep(struct tracked_cache *cache, uint32_t now)
{
    uint32_t end = RELAXED(load, &sweep_end);
    for (unsigned step = 0; step < SWEEP_STEPS && cache->count == 0; step++) {
        if (likely(RELAXED(load, &sweep_at) >= end)) return;
        uint32_t at = RELAXED(fetch_add, &sweep_at, SWEEP_STEP);
        if (at >= end) return;
        take_range(cache, at ? at : 1, end - at < SWEEP_STEP ? end : at + SWEEP_STEP, now);
    }
}

static void take_unused(struct tracked_cache *cache, uint32_t now)
{
    uint32_t max = RELAXED(load, &limit);
    while (cache->count == 0) {
        uint32_t at = RELAXED(load, &next_unused), to;
        do {
            if (at >= max) return;
            to = max - at < UNUSED_BATCH ? max : (at / UNUSED_BATCH + 1) * UNUSED_BATCH; /* never across two chunks */
            if (!have_chunk(at)) return;
        } while (!atomic_compare_exchange_weak(&next_unused, &at, to));
        take_range(cache, at, to, now);
    }
}

/* Makes the entry hold the numbers, 0 for those that there are not. */
static void hold(uint32_t entry, const uint32_t number[HELD])
{
    struct tracked_entry *e = entry_at(entry);
    RELAXED(store, &e->asked_thread, (uint64_t)number[1] << 32 | number[0]);
    RELAXED(store, &e->n_samples, number[2]);
    RELAXED(store, &e->time, number[3]);
    RELAXED(store, &e->next, number[4]);
}

static void held(uint32_t entry, uint32_t number[HELD])
{
    struct tracked_entry *e = entry_at(entry);
    uint64_t two = RELAXED(load, &e->asked_thread);
    number[0] = (uint32_t)two;
    number[1] = (uint32_t)(two >> 32);
    number[2] = RELAXED(load, &e->n_samples);
    number[3] = RELAXED(load, &e->time);
    number[4] = RELAXED(load, &e->next);
}

static void put_all(struct tracked_cache *cache, const uint32_t number[HELD])
{
    for (unsigned i = 0; i < HELD; i++)
        if (number[i]) cache->entry[cache->count++] = number[i];
}

static const uint32_t none[HELD];

/* A batch of one. */
static void push_one(uint32_t entry)
{
    hold(entry, none);
    push_batch(entry);
}

static NOINLINE void fill(struct tracked_cache *cache, uint32_t now)
{
    uint32_t first = pop_batch(), below[HELD] = {0}, leaves[HELD];
    if (first) held(first, below);
    for (unsigned i = 0; i < HELD; i++) {
        if (!below[i]) continue;
        held(below[i], leaves);
        put_all(cache, leaves);
    }
    put_all(cache, below);
    if (first) cache->entry[cache->count++] = first;
    if (cache->count == 0) sweep(cache, now);
    if (cache->count == 0) take_unused(cache, now);
}

/* Those that were freed last, at the end, stay. */
static NOINLINE void spill(struct tracked_cache *cache)
{
    const uint32_t *e = cache->entry; /* the first, the five, the twenty-five */
    hold(e[0], e + 1);
    for (unsigned i = 0; i < HELD; i++) hold(e[1 + i], e + 1 + HELD + i * HELD);
    uint32_t first = e[0];
    cache->count -= BATCH;
    __builtin_memmove(cache->entry, cache->entry + BATCH, cache->count * sizeof *cache->entry);
    push_batch(first);
}
_Static_assert(TRACKED_CACHE > BATCH && TRACKED_CACHE >= SWEEP_STEP, "spill and sweep fit");

static void give(struct tracked_cache *cache, uint32_t entry)
{
    if (unlikely(cache->count == TRACKED_CACHE)) spill(cache);
    cache->entry[cache->count++] = entry;
}

static void check_generation(struct tracked_cache *cache, uint32_t now)
{
    if (likely(cache->generation == now)) return;
    cache->generation = now;
    cache->count = 0; /* free or not: the sweep finds out */
}

void tracked_cache_renew(struct tracked_cache *cache)
{
    check_generation(cache, RELAXED(load, &tracked_generation));
}

bool tracked_cache_fill(struct tracked_cache *cache)
{
    if (cache->count == 0) fill(cache, cache->generation);
    return cache->count > 0;
}

void tracked_cache_spill(struct tracked_cache *cache)
{
    if (cache->count == TRACKED_CACHE) spill(cache);
}

static COLD uint32_t add_without_cache(const struct tracked_view *v)
{
    struct tracked_cache own = {.count = 0};
    uint32_t number = tracked_add(&own, v);
    while (own.count > 0) {
        uint32_t left = own.entry[--own.count];
        push_one(left);
    }
    return number;
}

uint32_t tracked_add(struct tracked_cache *cache, const struct tracked_view *v)
{
    if (unlikely(!cache)) return add_without_cache(v);
    uint32_t now = RELAXED(load, &tracked_generation);
    check_generation(cache, now);
    if (unlikely(cache->count == 0)) {
        fill(cache, now);
        if (cache->count == 0) {
            RELAXED(fetch_add, &dropped, 1);
            return 0;
        }
    }
    uint32_t number = cache->entry[--cache->count];
    struct tracked_entry *e = entry_at(number);
    tracked_store(e, v);
    return number;
}

bool tracked_remove(struct tracked_cache *cache, uint32_t number, const void *block,
                    struct tracked_view *was)
{
    struct tracked_entry *e = entry_at(number);
    if (unlikely(!e)) return false;
    uint64_t what = RELAXED(load, &e->what);
    if (unlikely(what >> 16 != (uintptr_t)block || !block)) return false;
    tracked_load(e, what, was);
    uint32_t now = RELAXED(load, &tracked_generation);
    atomic_store_explicit(&e->what, now, memory_order_release);
    if (likely(cache)) {
        check_generation(cache, now);
        give(cache, number);
    } else {
        push_one(number);
    }
    return true;
}

uint32_t (*tracked_below)(uint32_t);

bool tracked_get(uint32_t number, struct tracked_view *v)
{
    if (unlikely(number >= TRACKED_MAX)) number = tag_entry(tracked_tag(number));
    struct tracked_entry *e = number ? entry_at(number) : NULL;
    if (!e) return false;
    uint64_t what = atomic_load_explicit(&e->what, memory_order_acquire);
    if (!is_live(what)) return false;
    tracked_load(e, what, v);
    atomic_thread_fence(memory_order_acquire);
    return RELAXED(load, &e->what) == what;
}

void tracked_change(uint32_t number, const struct tracked_view *v)
{
    struct tracked_entry *e = entry_at(number);
    tracked_store(e, v);
}

/* One past the highest number that may be live.  In a child `next_unused` may be older than entries
   that were live in their own pages; they lie in the same chunk or in one that the directory has. */
static uint32_t end_of_use(void)
{
    uint32_t end = RELAXED(load, &next_unused);
    if (RELAXED(load, &tracked_generation) > 1) end = (uint32_t)round_up(end, CHUNK);
    return end;
}

void tracked_each(void (*each)(uint32_t, const struct tracked_view *, void *), void *user)
{
    struct deaths_pending pending;
    struct tracked_view v;
    unsigned past = 0;
    deaths_pending(&pending);
    for (uint32_t i = 1, end = end_of_use(); i < end; i++) {
        if (past < pending.count && pending.death[past].entry == i) past++; /* its block is dead */
        else if (tracked_get(i, &v)) each(i, &v, user);
    }
}

void tracked_stats(struct tracked_stats *to)
{
    to->dropped = RELAXED(load, &dropped);
    to->limit = RELAXED(load, &limit);
    to->used = RELAXED(load, &next_unused) - 1;
    to->memory_bytes = RELAXED(load, &chunk_count) * CHUNK * sizeof(struct tracked_entry);
}

void tracked_fork_child(void)
{
    uint32_t now = (RELAXED(load, &tracked_generation) + 1) & 0xffff;
    RELAXED(store, &tracked_generation, now ? now : 1);
    RELAXED(store, &free_batches, 0);
    RELAXED(store, &spare_chunk, NULL); /* it may be in the directory already */
    RELAXED(store, &sweep_at, 0);
    RELAXED(store, &sweep_end, RELAXED(load, &next_unused));
}
