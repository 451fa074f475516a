/* site.c: what the samples add up to.

   1. Data.  A record of 64 bytes, one cache line, for each site, numbered from 1 in the order of
      their making, in chunks that a directory finds; number 0 is where everything goes that finds
      no room. An index finds a record by its key: levels of buckets, each level four times the
      one before, a bucket one cache line of 8 slots `tag << 32 | number`.  A key's place is one
      bucket in each level, and it is looked for in the levels' order; only when a bucket is full
      does the next level come into play, and only when all are is a sample dropped.
   2. Synchronisation.  Nothing is ever removed.  A record is filled before its slot is set by
      compare-and-swap, a slot never changes again, and everybody tries the slots in the same
      order: so two threads that bring the same key meet at one slot, and the second finds the
      first one's record there.  Its own, if it had made one already, stays in a small
      hand-me-down for the next key.
   3. Counters.  allocated and freed only ever grow, so live = allocated - freed, read in that
      order of safety: freed first.  Where every word is sampled, the sample points follow from
      the blocks (given / 8 each) and the line sees one addition an event.  Then freed.n counts blocks, too: those that
      others freed than the thread to which the site's shard belongs, so that its own additions need not be atomic.
   4. Forks.  A child counts its allocations from zero but keeps what is live: the counts at the
      fork become a base to subtract.  It is taken when the child first allocates at the site
      (before the addition), not for all sites in fork: `base` carries the fork's generation, and
      a base of another generation means that nothing was allocated since.  As the kernel copies
      page by page, a child may find a slot whose record is not there yet; then the key does not
      fit and it goes on; and it may find the counter of records older than a record: so a record
      is claimed by compare-and-swap of its key, never by its number alone.
   5. The peak.  live_total follows the live sample points but for what threads keep back.  When
      frees begin and it stands well above the last recorded peak, one thread (the first to set
      `recording`; others go on) copies each site's live counts to the unpublished one of two
      arrays and publishes it.  The steps are at least 1 % and, up to 10 %, at least half as many
      points as there are sites (eight times as many where each word is a point), so that a sample
      pays for at most two copies, and a thousandfold growth for at most 73.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/meta.h"
#include "heap/os.h"
#include "sampler/deaths.h"
#include "sampler/site_record.h"

#define RELAXED(op, ...) atomic_##op##_explicit(__VA_ARGS__, memory_order_relaxed)

#define CHUNK_SHIFT SITE_CHUNK_SHIFT
#define CHUNK SITE_CHUNK
#define CHUNKS SITE_CHUNKS
#define SITES_MAX (CHUNK * CHUNKS) /* 64 MiB of records, at most */

#define LEVELS 5
#define LEVEL_BUCKETS(i) ((uint32_t)2048 << 2 * (i)) /* 128 KiB, 512 KiB … 32 MiB */
#define SLOTS 8

_Static_assert(sizeof(struct site_record) == 64, "one cache line");

struct bucket {
    _Atomic uint64_t slot[SLOTS];
};

static struct site_record dropped; /* site 0 */
/* Of the dropped site: blocks * 2^16, each estimated from its own size, so that a mean size can be
   told with which the number of blocks comes out right. */
static _Atomic uint64_t dropped_blocks_scaled;
_Atomic(struct site_record *) site_chunks[CHUNKS];
static _Atomic(struct bucket *) levels[LEVELS];
static _Atomic uint32_t next_record = 1;
static _Atomic uint32_t hand_me_down; /* a record without a key that somebody made in vain */
static _Atomic uint64_t memory, dropped_count;
_Atomic uint64_t site_generation;
bool site_exact;
static bool started;

static _Atomic(struct site_counts *) peak_chunks[2][CHUNKS];
static struct site_counts peak_dropped[2];
static _Atomic int64_t live_total;
static _Atomic int64_t next_peak; /* record one when more than this was live */
_Atomic int64_t site_quantum_now;
static _Atomic uint64_t peak_total, peak_time;
static _Atomic int published = -1; /* which of the arrays; -1: none */
static atomic_bool recording;

static void *get_memory(size_t bytes)
{
    void *p = meta_alloc(bytes);
    if (p) RELAXED(fetch_add, &memory, bytes);
    return p;
}

/* The chunk at `*at`, made if need be. */
static void *ensure(_Atomic(void *) *at, size_t bytes)
{
    void *there = atomic_load_explicit(at, memory_order_acquire);
    if (likely(there)) return there;
    void *fresh = get_memory(bytes);
    if (!fresh) return NULL;
    /* Of two the slower's memory stays unused, untouched. */
    return atomic_compare_exchange_strong(at, &there, fresh) ? fresh : there;
}

static struct site_record *record_at(uint32_t site)
{
    struct site_record *r = site_record_at(site);
    return likely(r) ? r : &dropped;
}

static struct bucket *level_at(unsigned i)
{
    return ensure((_Atomic(void *) *)&levels[i], LEVEL_BUCKETS(i) * sizeof(struct bucket));
}

bool site_start(bool every_word)
{
    site_exact = every_word;
    started = level_at(0) &&
              ensure((_Atomic(void *) *)&site_chunks[0], CHUNK * sizeof(struct site_record));
    RELAXED(store, &site_quantum_now, every_word ? 512 : 0);
    return started;
}

/* A record for the key, or NULL.  See 4 for why its number does not suffice. */
static struct site_record *claim(uint64_t key, size_t given, uint32_t *number)
{
    uint32_t i = atomic_exchange(&hand_me_down, 0);
    for (;; i = 0) {
        if (i == 0) {
            i = RELAXED(load, &next_record);
            do {
                if (i >= SITES_MAX) return NULL;
            } while (!atomic_compare_exchange_weak(&next_record, &i, i + 1));
        }
        struct site_record *c = ensure((_Atomic(void *) *)&site_chunks[i >> CHUNK_SHIFT],
                                       CHUNK * sizeof(struct site_record));
        if (!c) return NULL;
        struct site_record *r = &c[i & (CHUNK - 1)];
        uint64_t none = 0;
        if (!atomic_compare_exchange_strong(&r->key, &none, key)) continue;
        RELAXED(store, &r->given, given);
        *number = i;
        return r;
    }
}

static void unclaim(struct site_record *r, uint32_t number)
{
    uint32_t none = 0;
    RELAXED(store, &r->given, 0);
    RELAXED(store, &r->key, 0);
    atomic_compare_exchange_strong(&hand_me_down, &none, number);
}

static bool fits(const struct site_record *r, uint64_t key, size_t given)
{
    return RELAXED(load, &r->key) == key && RELAXED(load, &r->given) == given;
}

/* The finaliser of splitmix64: every bit of the key moves every bit. */
static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint32_t site_find(uint32_t stack, size_t given, enum heap_source source, unsigned shard)
{
    if (unlikely(!started || stack == 0 || given == 0)) goto drop;
    if (unlikely(RELAXED(load, &next_record) > SITES_MAX / 4)) shard = 0;
    uint64_t key = (uint64_t)stack << 32 | shard << 8 | ((uint32_t)source + 1);
    uint64_t h = mix(key + given * 0x9e3779b97f4a7c15u);
    uint64_t tag = h & ~(uint64_t)0xffffffff;
    unsigned first = (unsigned)(h >> 29) % SLOTS;
    struct site_record *mine = NULL;
    uint32_t number = 0;

    for (unsigned level = 0; level < LEVELS; level++) {
        struct bucket *b = level_at(level);
        if (unlikely(!b)) break;
        b += (uint32_t)h & (LEVEL_BUCKETS(level) - 1);
        for (unsigned k = 0; k < SLOTS; k++) {
            unsigned i = (first + k) % SLOTS;
            uint64_t slot = atomic_load_explicit(&b->slot[i], memory_order_acquire);
            if (slot == 0) {
                if (!mine && !(mine = claim(key, given, &number))) goto drop;
                if (atomic_compare_exchange_strong(&b->slot[i], &slot, tag | number)) return number;
            }
            if ((slot ^ tag) >> 32 != 0) continue;
            if (likely(fits(record_at((uint32_t)slot), key, given))) {
                if (unlikely(mine)) unclaim(mine, number);
                return (uint32_t)slot;
            }
        }
    }
    if (mine) unclaim(mine, number);
drop:
    RELAXED(fetch_add, &dropped_count, 1);
    return SITE_DROPPED;
}

size_t site_given(uint32_t site)
{
    struct site_record *r = record_at(site);
    return r == &dropped ? 0 : RELAXED(load, &r->given);
}

uint32_t site_stack(uint32_t site)
{
    return (uint32_t)(RELAXED(load, &record_at(site)->key) >> 32);
}

enum heap_source site_source(uint32_t site)
{
    uint32_t s = (uint32_t)RELAXED(load, &record_at(site)->key);
    return s ? (enum heap_source)((s & 0xff) - 1) : HEAP_MALLOC;
}

#define COUNT_BITS SITE_COUNT_BITS
#define COUNT_MASK (((uint64_t)1 << COUNT_BITS) - 1)

/* The child's first allocation at this site: what was counted so far becomes the base.  Nobody adds
   before the base has the new generation, so of two threads that try, either is right. */
static COLD void renew_base(_Atomic uint64_t *base, _Atomic uint64_t *count, uint64_t now)
{
    uint64_t was = RELAXED(load, base);
    if (was >> COUNT_BITS == now) return;
    uint64_t with = now << COUNT_BITS | (RELAXED(load, count) & COUNT_MASK);
    atomic_compare_exchange_strong(base, &was, with);
}

struct site_record *site_record_begun(uint32_t site)
{
    struct site_record *r = record_at(site);
    uint64_t now = RELAXED(load, &site_generation);
    if (unlikely(RELAXED(load, &r->base_n) >> COUNT_BITS != now)) {
        renew_base(&r->base_blocks, &r->allocated.blocks, now);
        renew_base(&r->base_n, &r->allocated.n, now);
    }
    return r;
}

void site_allocated(uint32_t site, size_t given, uint64_t n)
{
    struct site_record *r = site_record_begun(site);
    count_add(&r->allocated.blocks, 1);
    if (!site_exact || unlikely(r == &dropped)) {
        count_add(&r->allocated.n, n);
        if (unlikely(r == &dropped) && given)
            RELAXED(fetch_add, &dropped_blocks_scaled, (n << 16) / (given / 8 ? given / 8 : 1));
    }
}

void site_freed(uint32_t site, size_t given, uint64_t n)
{
    struct site_record *r = record_at(site);
    if (!site_exact || unlikely(r == &dropped)) {
        count_add(&r->freed.blocks, 1);
        count_add(&r->freed.n, n);
    } else {
        count_add(&r->freed.n, 1);
    }
}

static uint64_t freed_blocks(struct site_record *r)
{
    uint64_t blocks = RELAXED(load, &r->freed.blocks);
    return site_exact && r != &dropped ? blocks + RELAXED(load, &r->freed.n) : blocks;
}

/* A difference of counters that others change meanwhile: never negative. */
static uint64_t minus(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static struct site_count live_of(struct site_record *r)
{
    struct site_count c;
    uint64_t blocks = freed_blocks(r), n = RELAXED(load, &r->freed.n);
    atomic_thread_fence(memory_order_acquire);
    c.blocks = minus(RELAXED(load, &r->allocated.blocks), blocks);
    if (site_exact && r != &dropped)
        c.n = c.blocks * (RELAXED(load, &r->given) / 8);
    else
        c.n = minus(RELAXED(load, &r->allocated.n), n);
    return c;
}

static uint64_t since_fork(_Atomic uint64_t *base, _Atomic uint64_t *count)
{
    uint64_t from = RELAXED(load, base);
    atomic_thread_fence(memory_order_acquire);
    if (from >> COUNT_BITS != RELAXED(load, &site_generation)) return 0;
    return (RELAXED(load, count) - from) & COUNT_MASK;
}

static struct site_count allocated_of(struct site_record *r)
{
    struct site_count c;
    c.blocks = since_fork(&r->base_blocks, &r->allocated.blocks);
    if (site_exact && r != &dropped)
        c.n = c.blocks * (RELAXED(load, &r->given) / 8);
    else
        c.n = since_fork(&r->base_n, &r->allocated.n);
    return c;
}

/* The peak */

static struct site_counts *peak_of(int which, uint32_t site, bool make)
{
    if (site == SITE_DROPPED) return &peak_dropped[which];
    _Atomic(void *) *at = (_Atomic(void *) *)&peak_chunks[which][site >> CHUNK_SHIFT];
    struct site_counts *c = make ? ensure(at, CHUNK * sizeof *c) : atomic_load(at);
    return c ? &c[site & (CHUNK - 1)] : NULL;
}

static uint32_t end_of_records(void)
{
    uint32_t end = RELAXED(load, &next_record);
    /* A child's counter may be older than its records; see 4. */
    return RELAXED(load, &site_generation) ? (uint32_t)round_up(end, CHUNK) : end;
}

static NOINLINE void record_peak(int64_t total)
{
    if (atomic_exchange(&recording, true)) return;
    if (total > RELAXED(load, &next_peak)) {
        int to = atomic_load(&published) == 0;
        uint32_t end = end_of_records();
        for (uint32_t i = 0; i < end; i++) {
            struct site_counts *p = peak_of(to, i, true);
            if (!p) continue;
            struct site_count live = live_of(record_at(i));
            RELAXED(store, &p->blocks, live.blocks);
            RELAXED(store, &p->n, live.n);
        }
        RELAXED(store, &peak_total, (uint64_t)total);
        RELAXED(store, &peak_time, os_realtime());
        atomic_store(&published, to);
        int64_t most = site_exact ? (int64_t)end * 8 : end / 2;
        int64_t rise = total / 10 < most ? total / 10 : most;
        if (rise < total / 100) rise = total / 100;
        RELAXED(store, &next_peak, total + rise);
        if (site_exact) RELAXED(store, &site_quantum_now, total >> 12 > 512 ? total >> 12 : 512);
    }
    atomic_store(&recording, false);
}

void site_live_changed(int64_t n)
{
    int64_t before = RELAXED(fetch_add, &live_total, n);
    if (n < 0 && unlikely(before > RELAXED(load, &next_peak))) record_peak(before);
}

int64_t site_quantum(void)
{
    return RELAXED(load, &site_quantum_now);
}

static bool peak_is_now(void)
{
    int64_t live = RELAXED(load, &live_total);
    return atomic_load(&published) < 0 || live > (int64_t)RELAXED(load, &peak_total);
}

uint64_t site_peak(uint64_t *time)
{
    bool now = peak_is_now();
    int64_t live = RELAXED(load, &live_total);
    if (time) *time = now ? os_realtime() : RELAXED(load, &peak_time);
    return now ? (live > 0 ? (uint64_t)live : 0) : RELAXED(load, &peak_total);
}

/* Reading */

/* Without those that have died and are only not counted yet. */
static struct site_count live_now(uint32_t site, struct site_record *r, const struct deaths_pending *pending)
{
    struct site_count live = live_of(r);
    for (unsigned i = 0; i < pending->count; i++) {
        const struct tracked_view *was = &pending->death[i].was;
        if (was->site == site) live = (struct site_count){minus(live.n, was->n_samples), minus(live.blocks, 1)};
    }
    return live;
}

void site_each(void (*each)(const struct site_view *, void *), void *user)
{
    struct deaths_pending pending;
    deaths_pending(&pending);
    int which = atomic_load(&published);
    bool now = peak_is_now();
    for (uint32_t i = 0, end = end_of_records(); i < end; i++) {
        struct site_record *r = record_at(i);
        if (i != SITE_DROPPED && (r == &dropped || RELAXED(load, &r->key) == 0)) continue;
        struct site_view v = {.site = i,
                              .stack = site_stack(i),
                              .source = site_source(i),
                              .given = site_given(i),
                              .allocated = allocated_of(r),
                              .live = live_now(i, r, &pending)};
        struct site_counts *p = now ? NULL : peak_of(which, i, false);
        if (now)
            v.peak = v.live;
        else if (p)
            v.peak = (struct site_count){RELAXED(load, &p->n), RELAXED(load, &p->blocks)};
        if (i == SITE_DROPPED) {
            uint64_t scaled = RELAXED(load, &dropped_blocks_scaled);
            uint64_t n = RELAXED(load, &r->allocated.n);
            v.given = scaled == 0 ? 8 : n >> 45 ? n / (scaled >> 19 | 1) : (n << 19) / scaled;
        }
        if (v.allocated.blocks | v.live.blocks | v.peak.blocks) each(&v, user);
    }
}

void site_stats(struct site_stats *to)
{
    *to = (struct site_stats){.sites = RELAXED(load, &next_record) - 1,
                              .dropped = RELAXED(load, &dropped_count),
                              .memory_bytes = RELAXED(load, &memory)};
    struct deaths_pending pending;
    deaths_pending(&pending);
    for (uint32_t i = 0, end = end_of_records(); i < end; i++) {
        struct site_record *r = record_at(i);
        if (i != SITE_DROPPED && r == &dropped) continue;
        to->allocated_blocks += allocated_of(r).blocks;
        to->live_blocks += live_of(r).blocks;
        to->freed_blocks += freed_blocks(r);
    }
    to->live_blocks = minus(to->live_blocks, pending.count);
    to->freed_blocks += pending.count;
}

void site_fork_child(void)
{
    RELAXED(store, &site_generation, (RELAXED(load, &site_generation) + 1) & 0xffff);
    RELAXED(store, &hand_me_down, 0); /* it may have been used already */
    /* The thread that was recording is gone; the next frees record anew. */
    RELAXED(store, &published, -1);
    RELAXED(store, &next_peak, 0);
    RELAXED(store, &peak_total, 0);
    atomic_store(&recording, false);
}
