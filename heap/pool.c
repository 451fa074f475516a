/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/pool.h"
#include "heap/meta.h"
#include "heap/os.h"
#include "heap/reclaimed.h"
#include "heap/huge.h"
#include "heap/seal.h"

struct pool_tables pool_tables;
uintptr_t small_state_bias, medium_state_bias;

#define POOL_LINK(id) (pool_tables.pools[id].link)
IDSTACK_FUNCTIONS(pools, POOL_LINK)

static struct {
    idstack of[HEAP_CLASSES];
} orphans;

/* Where the tables lie behind WINDOW_SMALL_TABLES_OFFSET and WINDOW_MEDIUM_TABLES_OFFSET.  The
   descriptors of both areas are one array, so a pool's number serves both. */
#define SMALL_CLASS_AT (WINDOW_SMALL_TABLES_OFFSET)
#define SMALL_STATE_AT (WINDOW_SMALL_TABLES_OFFSET + 16 * MIB)
#define SMALL_BITS_AT (WINDOW_SMALL_TABLES_OFFSET + 16 * GIB + 17 * MIB)
#define POOLS_AT (WINDOW_SMALL_TABLES_OFFSET + 18 * GIB + 17 * MIB)
/* A store to a block and the load of its state byte stall each other where their addresses agree in the low twelve bits
   (the processor takes the one for the other).  Without this offset that would hold for the first slot
   of every other pool, the one used most: it cost 20 ns a pair, twice the whole. */
#define STATE_SKEW 1344
#define CLASS_SKEW (SMALL_STATE_AT + STATE_SKEW - SMALL_CLASS_BEFORE - SMALL_CLASS_AT)
#define MEDIUM_STATE_AT (WINDOW_MEDIUM_TABLES_OFFSET)
#define MEDIUM_BITS_AT (WINDOW_MEDIUM_TABLES_OFFSET + 2 * GIB + MIB)
_Static_assert(SMALL_POOLS + CLASS_SKEW <= 16 * MIB, "classes of small pools");
_Static_assert((WINDOW_SMALL_BYTES >> SMALL_GRANULE_SHIFT) + STATE_SKEW <= 16 * GIB + MIB, "small state bytes");
_Static_assert(SMALL_POOLS * (size_t)SMALL_BIT_WORDS * 8 <= 2 * GIB, "small free bits");
_Static_assert((SMALL_POOLS + (size_t)MEDIUM_POOLS) * sizeof(struct pool) <= 2 * GIB, "descriptors");
_Static_assert((WINDOW_MEDIUM_BYTES >> MEDIUM_GRANULE_SHIFT) + STATE_SKEW <= 2 * GIB + MIB, "medium state bytes");
_Static_assert(MEDIUM_POOLS * (size_t)MEDIUM_BIT_WORDS * 8 <= 2 * GIB, "medium free bits");

/* A table grows with its area and never has a hole: every state byte below the limit that the fast
   paths compare with is mapped, also those of a piece that was skipped. */
struct table {
    size_t offset;  /* from the window's base, of the area's first entry */
    size_t mapped;  /* bytes */
    size_t intended; /* set before mapping: a thief of the lock knows that this much may be ours */
};

enum { TABLE_STATE, TABLE_BITS, TABLE_POOLS, TABLE_CLASS, TABLES };

static struct area {
    /* pools nobody has taken yet: the next one (high half) and the end (low half), counted in the area */
    _Atomic uint64_t fresh;
    idstack dirty, clean; /* free pools with and without pages */
    _Atomic uint32_t n_dirty, low_dirty; /* dirty pools, and the fewest since the last decay */
    _Atomic size_t mapped;
    /* under the growth lock */
    struct table tables[TABLES];
    uint32_t end; /* pools below it were mapped or skipped */
    uint32_t away; /* the first pool of a piece that pool_unmap_free unmapped, + 1; linked by `next` */
} areas[2];

/* Holds the number of the thread that grows an area.  Waiting costs a few microseconds; who holds it
   only maps memory.  In a forked child it may be held by a thread that does not exist there. */
static _Atomic uint32_t growth_lock;
static _Atomic uint64_t next_decay;

/* Waiting is by futex, which every sandbox allows, and looking for a vanished holder (a child made without
   fork handlers) waits some 50 ms: a filter may kill for getpid, tgkill or sched_yield. */
static void lock_growth(void)
{
    uint32_t me = os_thread_id();
    for (unsigned tries = 0;; tries++) {
        uint32_t holder = 0;
        if (atomic_compare_exchange_strong(&growth_lock, &holder, me)) return;
        if (tries < 64) continue;
        if (tries % 1024 == 0 && !os_thread_exists(holder) &&
            atomic_compare_exchange_strong(&growth_lock, &holder, me))
            return;
        os_wait_changed(&growth_lock, holder, 50000);
    }
}

static void unlock_growth(void) { atomic_store(&growth_lock, 0); }

static bool torn; /* in a child of a process with threads */

void pool_fork_child(void)
{
    torn = true;
    atomic_store(&growth_lock, 0);
    for (unsigned i = 0; i < 2; i++) {
        atomic_store(&areas[i].dirty, 0);
        atomic_store(&areas[i].clean, 0);
        areas[i].away = 0;
        atomic_store(&areas[i].n_dirty, 0);
        atomic_store(&areas[i].low_dirty, 0);
    }
    for (unsigned c = 0; c < HEAP_CLASSES; c++) atomic_store(&orphans.of[c], 0);
}

void pool_start(void)
{
    if (__atomic_load_n(&pool_tables.pools, __ATOMIC_ACQUIRE)) return;
    window_start();
    pool_tables.small_base = window_base + WINDOW_SMALL_OFFSET;
    pool_tables.medium_base = window_base + WINDOW_MEDIUM_OFFSET;
    pool_tables.small_state = (int8_t *)(window_base + SMALL_STATE_AT + STATE_SKEW);
    pool_tables.medium_state = (int8_t *)(window_base + MEDIUM_STATE_AT + STATE_SKEW);
    small_state_bias =
        (uintptr_t)pool_tables.small_state - (pool_tables.small_base >> SMALL_GRANULE_SHIFT);
    medium_state_bias =
        (uintptr_t)pool_tables.medium_state - (pool_tables.medium_base >> MEDIUM_GRANULE_SHIFT);
    pool_tables.small_bits = (uint64_t *)(window_base + SMALL_BITS_AT);
    pool_tables.medium_bits = (uint64_t *)(window_base + MEDIUM_BITS_AT);
    areas[0].tables[TABLE_STATE].offset = SMALL_STATE_AT;
    areas[0].tables[TABLE_BITS].offset = SMALL_BITS_AT;
    areas[0].tables[TABLE_POOLS].offset = POOLS_AT;
    areas[0].tables[TABLE_CLASS].offset = areas[1].tables[TABLE_CLASS].offset = SMALL_CLASS_AT; /* of medium ones nothing */
    areas[1].tables[TABLE_STATE].offset = MEDIUM_STATE_AT;
    areas[1].tables[TABLE_BITS].offset = MEDIUM_BITS_AT;
    areas[1].tables[TABLE_POOLS].offset = POOLS_AT + SMALL_POOLS * sizeof(struct pool);
    __atomic_store_n(&pool_tables.pools, (struct pool *)(window_base + POOLS_AT), __ATOMIC_RELEASE);
}

bool pool_tables_reach(uintptr_t from, uintptr_t to)
{
    for (unsigned i = 0; i < 2; i++)
        for (unsigned k = 0; k < TABLES; k++) {
            const struct table *t = &areas[i].tables[k];
            uintptr_t begin = window_base + t->offset;
            if (from < begin + t->intended && begin < to) return true;
        }
    return false;
}

/* ---- growth ---- */

static bool table_reach(struct table *t, size_t bytes, size_t step)
{
    if (bytes <= t->mapped) return true;
    size_t end = round_up(bytes, step);
    for (;;) {
        size_t intended_before = t->intended;
        bool occupied;
        t->intended = end;
        if (os_map_at((void *)(window_base + t->offset + t->mapped), end - t->mapped, &occupied)) break;
        /* Somebody's memory, unless a thread that is gone mapped it without saying so. */
        if (occupied && end <= intended_before) break;
        t->intended = intended_before;
        if (end == round_up(bytes, OS_PAGE)) return false;
        end = round_up(bytes, OS_PAGE); /* under a tight limit: only what is needed */
    }
    t->mapped = end;
    return true;
}

/* Maps `n` more pools; false if the system refuses even that many. */
static bool map_pools(struct area *a, bool medium, uint32_t n)
{
    unsigned shift = medium ? MEDIUM_POOL_SHIFT : SMALL_POOL_SHIFT;
    unsigned granule = medium ? MEDIUM_GRANULE_SHIFT : SMALL_GRANULE_SHIFT;
    size_t words = medium ? MEDIUM_BIT_WORDS : SMALL_BIT_WORDS;
    uint32_t first = a->end, end = first + n;
    if (end > (medium ? MEDIUM_POOLS : SMALL_POOLS)) return false;
    size_t granules = ((size_t)end << shift) >> granule;
    if (!table_reach(&a->tables[TABLE_STATE], granules + STATE_SKEW, 256 * KIB) ||
        !table_reach(&a->tables[TABLE_BITS], end * words * 8, 32 * KIB) ||
        !table_reach(&a->tables[TABLE_POOLS], end * sizeof(struct pool), 32 * KIB) ||
        (!medium && !table_reach(&a->tables[TABLE_CLASS], end + CLASS_SKEW, OS_PAGE)))
        return false;
    void *at = (void *)((medium ? pool_tables.medium_base : pool_tables.small_base) + ((uintptr_t)first << shift));
    bool occupied, ok = os_map_at(at, (size_t)n << shift, &occupied);
    if (!ok && !occupied) return false;
    a->end = end;
    __atomic_store_n(medium ? &pool_tables.medium_granules : &pool_tables.small_granules, granules,
                     __ATOMIC_RELEASE);
    if (!ok) { /* the caller tries on behind it */
        for (uint32_t i = first; i < end; i++) pool_of_id(i + (medium ? SMALL_POOLS : 0))->list = POOL_NOWHERE;
        return true;
    }
    size_t mapped = atomic_fetch_add(&a->mapped, (size_t)n << shift) + ((size_t)n << shift);
    if (mapped > OS_HUGE_FROM) huge_prefer(at, (size_t)n << shift);
    atomic_store_explicit(&a->fresh, (uint64_t)first << 32 | end, memory_order_release);
    return true;
}

static uint32_t take_fresh(struct area *a)
{
    uint64_t f = atomic_load_explicit(&a->fresh, memory_order_acquire);
    for (;;) {
        uint32_t next = (uint32_t)(f >> 32), end = (uint32_t)f;
        if (next >= end) return ID_NONE;
        if (!atomic_compare_exchange_weak(&a->fresh, &f, (uint64_t)(next + 1) << 32 | end)) continue;
        uint32_t id = next + (a == &areas[1] ? SMALL_POOLS : 0);
        if (likely(!torn || (pool_of_id(id)->list == POOL_UNUSED && pool_of_id(id)->class == 0)))
            return id;
    }
}

static uint32_t piece_pools(bool medium) { return 4 * MIB >> (medium ? MEDIUM_POOL_SHIFT : SMALL_POOL_SHIFT); }

/* Maps a piece again that pool_unmap_free has unmapped.  What says that its pools are usable is written after it is
   mapped, and the opposite before it is unmapped: no fork copies one without the other. */
static uint32_t take_away(struct area *a, bool medium)
{
    while (a->away != 0) {
        uint32_t first = a->away - 1, end = first + piece_pools(medium);
        void *at = (void *)pool_base(pool_of_id(first));
        bool occupied, ok = os_map_at(at, 4 * MIB, &occupied);
        if (!ok && !occupied) return ID_NONE;
        a->away = pool_of_id(first)->next;
        for (uint32_t id = first; id < end; id++) pool_of_id(id)->list = ok ? POOL_UNUSED : POOL_NOWHERE;
        if (!ok) continue;
        atomic_fetch_add(&a->mapped, 4 * MIB);
        for (uint32_t id = end - 1; id > first; id--) pools_push(&a->clean, id);
        return first;
    }
    return ID_NONE;
}

static uint32_t grow_and_take(struct area *a, bool medium)
{
    lock_growth();
    uint32_t id = take_fresh(a); /* another thread was faster */
    if (id == ID_NONE) id = pools_pop(&a->clean); /* pool_unmap_free had them in its hands */
    if (id == ID_NONE) id = take_away(a, medium);
    size_t piece = atomic_load(&a->mapped) < 64 * MIB ? 4 * MIB : 32 * MIB;
    uint32_t n = (uint32_t)(piece >> (medium ? MEDIUM_POOL_SHIFT : SMALL_POOL_SHIFT));
    while (id == ID_NONE && n > 0) {
        if (map_pools(a, medium, n)) id = take_fresh(a);
        else n /= 4;
    }
    unlock_growth();
    return id;
}

struct pool *pool_take(bool medium, bool growing)
{
    struct area *a = &areas[medium];
    bool present = true;
    uint32_t id = pools_pop(&a->dirty);
    if (id != ID_NONE) {
        uint32_t left = atomic_fetch_sub(&a->n_dirty, 1) - 1;
        if (left < atomic_load_explicit(&a->low_dirty, memory_order_relaxed))
            atomic_store_explicit(&a->low_dirty, left, memory_order_relaxed);
    } else {
        present = false;
        id = pools_pop(&a->clean);
        if (id == ID_NONE) {
            id = take_fresh(a);
            if (id == ID_NONE) id = grow_and_take(a, medium);
            if (id == ID_NONE) return NULL;
        }
    }
    struct pool *p = pool_of_id(id);
    p->list = POOL_HELD;
    if (growing && !present && !medium && atomic_load_explicit(&a->mapped, memory_order_relaxed) <= OS_HUGE_FROM)
        os_populate((void *)pool_base(p), pool_bytes(p));
    return p;
}

void pool_set_class(struct pool *p, unsigned class)
{
    p->class = (uint8_t)class;
    if (!pool_is_medium(p)) *small_pool_class(pool_tables.small_state, pool_id(p)) = (uint8_t)class;
}

void pool_give(struct pool *p)
{
    struct area *a = &areas[pool_is_medium(p)];
    p->former = p->class;
    pool_set_class(p, 0);
    p->list = POOL_UNUSED;
    atomic_store_explicit(&p->owner, NULL, memory_order_release);
    atomic_fetch_add(&a->n_dirty, 1);
    pools_push(&a->dirty, pool_id(p));
}

/* ---- slots ---- */

void pool_format(struct pool *p, unsigned class)
{
    unsigned slots = (unsigned)(pool_bytes(p) / class_size[class]);
    uint64_t *bits = pool_bits(p);
    for (unsigned i = 0; i < slots / 64; i++) bits[i] = ~(uint64_t)0;
    if (slots % 64) bits[slots / 64] = ((uint64_t)1 << slots % 64) - 1;
    if (unlikely(torn)) /* a thread that is gone may have begun to use it */
        __builtin_memset(state_of((void *)pool_base(p), pool_is_medium(p)), 0,
                         pool_bytes(p) >> (pool_is_medium(p) ? MEDIUM_GRANULE_SHIFT : SMALL_GRANULE_SHIFT));
    if (unlikely(atomic_load_explicit(&p->reclaimed, memory_order_relaxed))) reclaimed_forget_pool(p);
    pool_set_class(p, class);
    p->slots = p->free = (uint16_t)slots;
    p->cursor = 0;
    p->next = p->prev = ID_NONE;
    if (atomic_load_explicit(&p->entries, memory_order_relaxed) && slots > 1u << p->entries_order)
        atomic_store(&p->entries, NULL); /* no slot is live: nobody looks at it */
}

unsigned pool_collect_returned(struct pool *p)
{
    if (atomic_exchange(&p->returned, 0) == 0) return 0;
    /* A slot whose state was written but not yet counted may be found here too; its count then comes
       late and finds nothing. */
    bool medium = pool_is_medium(p);
    size_t size = class_size[p->class];
    uint64_t *bits = pool_bits(p);
    uintptr_t at = pool_base(p);
    unsigned found = 0;
    for (unsigned i = 0; i < p->slots; i++, at += size) {
        int8_t *s = state_of((void *)at, medium);
        if ((uint8_t)__atomic_load_n(s, __ATOMIC_ACQUIRE) != STATE_RETURNED) continue;
        *s = 0;
        bits[i / 64] |= (uint64_t)1 << i % 64;
        found++;
    }
    p->free = (uint16_t)(p->free + found);
    p->cursor = 0;
    return found;
}

/* Entries come in arrays of a power of two, kept with the pool when its class changes and replaced
   when they are too few, so a pool's arrays together are never twice the last one. */
bool pool_make_entries(struct pool *p)
{
    _Atomic uint32_t *none = NULL;
    unsigned order = 0;
    while (1u << order < p->slots) order++;
    _Atomic uint32_t *made = meta_alloc(sizeof *made << order);
    if (!made) return false;
    p->entries_order = (uint8_t)order; /* the same value from whichever thread is here */
    atomic_compare_exchange_strong(&p->entries, &none, made);
    return true;
}

uint32_t pool_tag(struct pool *p, unsigned slot)
{
    _Atomic uint32_t *entries = atomic_load_explicit(&p->entries, memory_order_acquire);
    return entries ? atomic_load_explicit(&entries[slot], memory_order_acquire) : 0;
}

/* ---- giving back ---- */

static unsigned purge(struct area *a, unsigned n)
{
    unsigned done = 0;
    for (; done < n; done++) {
        uint32_t id = pools_pop(&a->dirty);
        if (id == ID_NONE) break;
        atomic_fetch_sub(&a->n_dirty, 1);
        struct pool *p = pool_of_id(id);
        seal_discard((void *)pool_base(p), pool_bytes(p));
        pools_push(&a->clean, id);
    }
    return done;
}

/* The state bytes of a piece of free pools are zero: their whole pages can go. */
static void discard_states(struct pool *p, bool medium)
{
    uintptr_t from = (uintptr_t)state_of((void *)pool_base(p), medium);
    uintptr_t to = from + (4 * MIB >> (medium ? MEDIUM_GRANULE_SHIFT : SMALL_GRANULE_SHIFT));
    from = round_up(from, OS_PAGE);
    os_discard((void *)from, (to & ~(OS_PAGE - 1)) - from);
}

static bool unmap_free(struct area *a, bool medium)
{
    uint32_t aside = ID_NONE, each = piece_pools(medium), base = medium ? SMALL_POOLS : 0;
    bool any = purge(a, UINT32_MAX) > 0;
    for (uint32_t id; (id = pools_pop(&a->clean)) != ID_NONE; aside = id) {
        pool_of_id(id)->list = POOL_ASIDE;
        pool_of_id(id)->prev = aside;
    }
    for (uint32_t first = base; first + each <= base + a->end; first += each) {
        uint32_t n = 0;
        while (n < each && pool_of_id(first + n)->list == POOL_ASIDE) n++;
        if (n < each) continue;
        for (n = 0; n < each; n++) pool_of_id(first + n)->list = POOL_AWAY;
        struct pool *p = pool_of_id(first);
        os_unmap((void *)pool_base(p), 4 * MIB);
        discard_states(p, medium);
        atomic_fetch_sub(&a->mapped, 4 * MIB);
        p->next = a->away;
        a->away = first + 1;
        any = true;
    }
    for (uint32_t id = aside, before; id != ID_NONE; id = before) {
        struct pool *p = pool_of_id(id);
        before = p->prev;
        p->prev = ID_NONE;
        if (p->list != POOL_ASIDE) continue;
        p->list = POOL_UNUSED;
        pools_push(&a->clean, id);
    }
    return any;
}

bool pool_unmap_free(void)
{
    bool any = false;
    lock_growth();
    for (unsigned i = 0; i < 2; i++) any |= unmap_free(&areas[i], i == 1);
    unlock_growth();
    return any;
}

/* What was not needed during an eighth of the decay time - the fewest free pools there were - was not
   needed at all; a quarter of it goes each time, so the rest dies away exponentially. */
void pool_decay(uint64_t now, uint64_t decay_ns)
{
    uint64_t due = atomic_load_explicit(&next_decay, memory_order_relaxed);
    if (now < due || !atomic_compare_exchange_strong(&next_decay, &due, now + decay_ns / 8)) return;
    for (unsigned i = 0; i < 2; i++) {
        struct area *a = &areas[i];
        uint32_t low = atomic_exchange(&a->low_dirty, atomic_load(&a->n_dirty));
        if (due != 0) purge(a, (low + 3) / 4);
    }
}

void pool_reclaim(struct pool *p)
{
    bool medium = pool_is_medium(p);
    uint64_t fresh = atomic_load(&areas[medium].fresh);
    uint32_t index = pool_id(p) - (medium ? SMALL_POOLS : 0);
    if (p->list == POOL_NOWHERE || p->list == POOL_AWAY) return;
    atomic_store(&p->notified, false);
    atomic_store(&p->returned, 0);
    if (index >= fresh >> 32 && index < (uint32_t)fresh) p->list = POOL_UNUSED; /* its turn comes */
    else pool_give(p);
}

/* ---- orphans ---- */

void pool_orphan(struct pool *p)
{
    p->list = POOL_ORPHAN;
    atomic_store(&p->owner, NULL);
    pools_push(&orphans.of[p->class], pool_id(p));
}

struct pool *pool_adopt(unsigned class)
{
    uint32_t id = pools_pop(&orphans.of[class]);
    if (id == ID_NONE) return NULL;
    struct pool *p = pool_of_id(id);
    p->list = POOL_HELD;
    return p;
}

/* ---- figures ---- */

size_t pool_mapped_bytes(void)
{
    return atomic_load(&areas[0].mapped) + atomic_load(&areas[1].mapped);
}

size_t pool_table_bytes(void)
{
    size_t n = 0;
    for (unsigned i = 0; i < 2; i++)
        for (unsigned t = 0; t < TABLES; t++) n += areas[i].tables[t].mapped;
    return n;
}

void pool_range(bool medium, uint32_t *first, uint32_t *count)
{
    uint64_t granules = medium ? pool_tables.medium_granules : pool_tables.small_granules;
    *first = medium ? SMALL_POOLS : 0;
    *count = (uint32_t)(granules >> (medium ? MEDIUM_POOL_SHIFT - MEDIUM_GRANULE_SHIFT
                                            : SMALL_POOL_SHIFT - SMALL_GRANULE_SHIFT));
}
