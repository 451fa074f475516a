/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/bin.h"
#include "heap/forget.h"
#include "heap/heap.h"
#include "heap/rescue.h"
#include "heap/thread_heap.h"

_Atomic int64_t late_taken[HEAP_CLASSES];

/* Caches hold at first 16 slots; each refill of a busy bin doubles its room, for small classes each overflow too.
   So a thread that allocates little holds little, and the 64 and more blocks at a time of a
   busy one stay clear of the bitmaps.  No class holds more than 1 MiB. */
static uint16_t max_cap_of(unsigned class)
{
    size_t n = MIB / class_size[class];
    return (uint16_t)(class_size[class] <= 2 * KIB ? 128 : n < 64 ? n : 64);
}

size_t bin_bytes(unsigned class)
{
    return round_up(sizeof(struct bin) + max_cap_of(class) * sizeof(void *), 64);
}

void bin_open(struct bin *b, unsigned class)
{
    b->avail = b->full = b->avail_last = b->full_look = ID_NONE;
    b->max_cap = max_cap_of(class);
    b->cap = b->max_cap < 16 ? b->max_cap : 16;
    b->class = (uint8_t)class;
}

/* ---- lists of pools ---- */

static void list_remove(struct bin *b, struct pool *p)
{
    if (b->full_look == pool_id(p)) b->full_look = p->next;
    if (p->prev != ID_NONE) pool_of_id(p->prev)->next = p->next;
    else if (p->list == POOL_AVAIL) b->avail = p->next;
    else b->full = p->next;
    if (p->next != ID_NONE) pool_of_id(p->next)->prev = p->prev;
    else if (p->list == POOL_AVAIL) b->avail_last = p->prev;
    p->next = p->prev = ID_NONE;
    p->list = POOL_HELD;
}

static void list_push_full(struct bin *b, struct pool *p)
{
    p->list = POOL_FULL;
    p->prev = ID_NONE;
    p->next = b->full;
    if (b->full != ID_NONE) pool_of_id(b->full)->prev = pool_id(p);
    b->full = pool_id(p);
}

/* At the end: the pool in front is used up before its neighbours are touched, so that those have time
   to become empty. */
static void list_append_avail(struct bin *b, struct pool *p)
{
    p->list = POOL_AVAIL;
    p->next = ID_NONE;
    p->prev = b->avail_last;
    if (b->avail_last != ID_NONE) pool_of_id(b->avail_last)->next = pool_id(p);
    else b->avail = pool_id(p);
    b->avail_last = pool_id(p);
}

/* One empty pool a class stays, so that a program at the edge does not take and give the same pool all the
   time. */
void bin_pool_freed(struct bin *b, struct pool *p)
{
    if (p->list == POOL_FULL && p->free > 0) {
        list_remove(b, p);
        list_append_avail(b, p);
    }
    if (p->list == POOL_AVAIL && p->free == p->slots && b->avail != b->avail_last) {
        list_remove(b, p);
        pool_give(p);
    }
}

/* ---- slots returned by other threads ---- */

static void notify(struct thread_heap *owner, struct pool *p)
{
    uint32_t old = atomic_load_explicit(&owner->notices, memory_order_relaxed);
    do atomic_store_explicit(&p->notice, old, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&owner->notices, &old, pool_id(p) + 1,
                                                  memory_order_release, memory_order_relaxed));
}

/* `n` slots of the pool were marked returned.  The owner is read after the count is there: an adopter stores itself
   as owner before it collects, so either it finds them or we find it. */
static void returned(struct pool *p, uint32_t n)
{
    atomic_fetch_add(&p->returned, n);
    struct thread_heap *owner = atomic_load(&p->owner);
    if (owner && !atomic_exchange(&p->notified, true)) notify(owner, p);
}

static void mark_returned(void *block, bool medium)
{
    __atomic_store_n(state_of(block, medium), (int8_t)STATE_RETURNED, __ATOMIC_RELEASE);
}

void slot_return(void *block, unsigned class)
{
    bool medium = class_is_medium(class);
    atomic_fetch_sub(&late_taken[class], 1);
    heap_account(-(int64_t)class_size[class]);
    mark_returned(block, medium);
    returned(pool_of(block, medium), 1);
}

static void collect(struct thread_heap *h, struct pool *p)
{
    if (pool_collect_returned(p) > 0) bin_pool_freed(h->bin[p->class], p);
}

void bin_read_notices(struct thread_heap *h)
{
    if (atomic_load_explicit(&h->notices, memory_order_relaxed) == 0) return;
    uint32_t id = atomic_exchange(&h->notices, 0);
    while (id != 0) {
        struct pool *p = pool_of_id(id - 1);
        id = atomic_load_explicit(&p->notice, memory_order_relaxed);
        atomic_store(&p->notified, false);
        struct thread_heap *owner = atomic_load(&p->owner);
        if (owner == h) collect(h, p);
        else if (owner && atomic_load(&p->returned) > 0 && !atomic_exchange(&p->notified, true))
            notify(owner, p); /* it changed hands while the notice was on its way */
    }
}

/* ---- refill ---- */

/* Moves free slots of the pool into the bin, up to `want` in all, the lowest on top: order among pools matters
   little, order within one keeps neighbours together. */
static void take_slots(struct bin *b, struct pool *p, size_t want)
{
    uint64_t *bits = pool_bits(p);
    size_t size = class_size[p->class], need = want - b->n;
    uintptr_t base = pool_base(p);
    unsigned w = p->cursor;
    if (need > p->free) need = p->free;
    b->n += need;
    p->free = (uint16_t)(p->free - need);
    for (void **to = b->slot + b->n;; w++) {
        uintptr_t at = base + w * 64 * size;
        uint64_t word = bits[w];
        if (word == ~(uint64_t)0 && need >= 64) { /* of a fresh pool */
            for (unsigned i = 0; i < 64; i++, at += size) *--to = (void *)at;
            need -= 64;
            word = 0;
        }
        for (; word != 0 && need > 0; need--) {
            *--to = (void *)(at + (unsigned)__builtin_ctzll(word) * size);
            word &= word - 1;
        }
        bits[w] = word;
        if (need == 0) break;
    }
    p->cursor = (uint16_t)w;
}

static void own(struct thread_heap *h, struct bin *b, struct pool *p)
{
    atomic_store(&p->owner, h);
    pool_collect_returned(p);
    if (p->free > 0) list_append_avail(b, p);
    else list_push_full(b, p);
}

/* A notice may have gone to a pool's former owner: a few full pools are looked at in turn. */
static void look_at_full(struct thread_heap *h, struct bin *b)
{
    for (unsigned i = 0; i < 4; i++) {
        if (b->full_look == ID_NONE) b->full_look = b->full;
        if (b->full_look == ID_NONE) return;
        struct pool *p = pool_of_id(b->full_look);
        b->full_look = p->next;
        if (atomic_load_explicit(&p->returned, memory_order_relaxed) > 0) collect(h, p);
    }
}

static bool find_pool(struct thread_heap *h, struct bin *b)
{
    unsigned class = b->class;
    look_at_full(h, b);
    for (unsigned i = 0; i < 8 && b->avail == ID_NONE; i++) {
        struct pool *p = pool_adopt(class);
        if (!p) break;
        own(h, b, p);
    }
    if (b->avail != ID_NONE) return true;
    if (thread_heap_take_idle_apart()) {
        struct pool *p = pool_adopt(class);
        if (p) own(h, b, p);
        if (b->avail != ID_NONE) return true;
    }
    if (rescue_is_due() && ++h->takes_since_fork > 16 && rescue_heaps(h)) {
        struct pool *p = pool_adopt(class);
        if (p) own(h, b, p);
        if (b->avail != ID_NONE) return true;
    }
    struct pool *p = pool_take(class_is_medium(class), b->full != ID_NONE);
    if (!p) return false;
    pool_format(p, class);
    own(h, b, p);
    return true;
}

#define VERIFY_TICKS 0x3ff /* with the option `verify` the whole heap is walked every so many slow paths */

bool bin_refill(struct thread_heap *h, struct bin *b)
{
    heap_notice_fork();
    size_t before = b->n;
    if (b->busy && b->cap < b->max_cap) b->cap = b->cap * 2 < b->max_cap ? b->cap * 2 : b->max_cap;
    b->busy = true;
    size_t want = b->cap / 2 > 0 ? b->cap / 2 : 1;
    bin_read_notices(h);
    while (b->n < want) {
        if (b->avail == ID_NONE && (b->n > before || !find_pool(h, b))) break;
        struct pool *p = pool_of_id(b->avail);
        take_slots(b, p, want);
        if (p->free == 0) {
            list_remove(b, p);
            list_push_full(b, p);
        }
    }
    size_t got = b->n - before;
    b->taken += (int64_t)got;
    heap_account((int64_t)got * class_size[b->class]);
    if (unlikely((++h->ticks & 63) == 0)) {
        thread_heap_tick(h);
        if ((h->ticks & VERIFY_TICKS) == 0) heap_check();
    }
    forget_registers();
    return got > 0;
}

/* ---- flush ---- */

static void count_given(struct bin *b, size_t n)
{
    b->taken -= (int64_t)n;
    heap_account(-(int64_t)n * class_size[b->class]);
}

static void set_bits(uint64_t *bits, size_t first, size_t n)
{
    while (n > 0) {
        size_t at = first % 64, k = n < 64 - at ? n : 64 - at;
        bits[first / 64] |= ~(uint64_t)0 >> (64 - k) << at;
        first += k;
        n -= k;
    }
}

/* How many slots, of at most `most`, follow each other in memory, a step apart; the first two do. */
static ALWAYS_INLINE size_t row(void *const *slot, size_t most, intptr_t step)
{
    size_t n = 2;
    for (uintptr_t next = (uintptr_t)slot[1] + (uintptr_t)step; n < most && (uintptr_t)slot[n] == next; n++)
        next += (uintptr_t)step;
    return n;
}

/* The lowest `n` slots.  Blocks are often freed in the order of their addresses, or against it: a row of neighbours is
   marked at once. */
static ALWAYS_INLINE void give_back(struct thread_heap *h, struct bin *b, size_t n, bool medium)
{
    uintptr_t mask = ((uintptr_t)1 << (medium ? MEDIUM_POOL_SHIFT : SMALL_POOL_SHIFT)) - 1;
    uint64_t reciprocal = class_reciprocal[b->class];
    intptr_t size = class_size[b->class];
    for (size_t i = 0, k; i < n; i += k) {
        uintptr_t block = (uintptr_t)b->slot[i];
        struct pool *p = pool_of(b->slot[i], medium);
        k = 1;
        if (atomic_load_explicit(&p->owner, memory_order_relaxed) != h) {
            mark_returned(b->slot[i], medium);
            for (; i + k < n && pool_of(b->slot[i + k], medium) == p; k++) mark_returned(b->slot[i + k], medium);
            returned(p, (uint32_t)k);
            continue;
        }
        size_t slot = ((block & mask) * reciprocal) >> 40; /* slot_of_offset */
        uint64_t *bits = pool_bits_of(pool_id(p), medium);
        intptr_t step = i + 1 < n ? (intptr_t)((uintptr_t)b->slot[i + 1] - block) : 0;
        if (step == size && slot + 1 < p->slots) {
            k = row(b->slot + i, n - i < p->slots - slot ? n - i : p->slots - slot, size);
            set_bits(bits, slot, k);
        } else if (step == -size && slot > 0) {
            k = row(b->slot + i, n - i < slot + 1 ? n - i : slot + 1, -size);
            set_bits(bits, slot -= k - 1, k);
        } else {
            bits[slot / 64] |= (uint64_t)1 << slot % 64;
        }
        if (slot / 64 < p->cursor) p->cursor = (uint16_t)(slot / 64);
        p->free = (uint16_t)(p->free + k);
        if (unlikely(p->list == POOL_FULL || p->free == p->slots)) bin_pool_freed(b, p);
    }
}

/* Moves the last `n` slots of a bin down.  Not by libc's memmove, which goes by whatever registers the processor has: slots stayed in those
   that forget_registers does not reach (zmm16 to zmm31), 56 at a time, and blocks that got lost later were held by them as long as the
   thread waited.  Here they pass through one that is zeroed. */
static ALWAYS_INLINE void move_down(void **to, void *const *from, size_t n)
{
    typedef uintptr_t two __attribute__((vector_size(16), aligned(8), may_alias));
    size_t i = 0;
    _Pragma("GCC unroll 4") for (; i + 1 < n; i += 2)
    {
        two v = *(const two *)(const void *)(from + i);
#if defined(__x86_64__)
        __asm__("" : "+x"(v)); /* or the compiler would make a memmove of it */
#elif defined(__aarch64__)
        __asm__("" : "+w"(v));
#endif
        *(two *)(void *)(to + i) = v;
    }
    if (i < n) to[i] = from[i];
}

void bin_flush(struct thread_heap *h, struct bin *b, size_t n)
{
    if (class_is_medium(b->class)) give_back(h, b, n, true);
    else give_back(h, b, n, false);
    move_down(b->slot, b->slot + n, b->n - n);
    b->n -= n;
    count_given(b, n);
    forget_registers();
}

void bin_unshare(struct thread_heap *h, struct bin *b)
{
    if (class_size[b->class] % CACHE_LINE == 0) return; /* pools are aligned: no two slots touch one line */
    size_t kept = 0, n = b->n;
    for (size_t i = 0; i < n; i++) {
        void *block = b->slot[i];
        struct pool *p = pool_of(block, false);
        struct thread_heap *owner = atomic_load_explicit(&p->owner, memory_order_relaxed);
        if (owner == h || !owner ||
            atomic_load_explicit(&owner->state, memory_order_relaxed) != THREAD_HEAP_ACTIVE) {
            b->slot[kept++] = block;
            continue;
        }
        mark_returned(block, false);
        returned(p, 1);
    }
    b->n = kept;
    count_given(b, n - kept);
}

void bin_overflow(struct thread_heap *h, struct bin *b)
{
    heap_notice_fork();
    if (b->cap < b->max_cap && !class_is_medium(b->class))
        b->cap = b->cap * 2 < b->max_cap ? b->cap * 2 : b->max_cap;
    else bin_flush(h, b, b->n - b->cap / 2);
}

/* ---- giving up ---- */

void bin_idle(struct thread_heap *h, struct bin *b)
{
    if (!b->busy && b->n > 0) {
        bin_flush(h, b, (b->n + 1) / 2);
        if (b->cap > 16 && b->n <= b->cap / 2) b->cap /= 2;
    }
    b->busy = false;
}

void bin_give_spare(struct bin *b)
{
    struct pool *p = b->avail != ID_NONE ? pool_of_id(b->avail) : NULL;
    if (!p || p->free != p->slots) return;
    list_remove(b, p);
    pool_give(p);
}

void bin_close(struct bin *b)
{
    while (b->avail != ID_NONE || b->full != ID_NONE) {
        struct pool *p = pool_of_id(b->avail != ID_NONE ? b->avail : b->full);
        list_remove(b, p);
        if (p->free == p->slots) pool_give(p);
        else pool_orphan(p);
    }
    b->busy = false;
    b->cap = b->max_cap < 16 ? b->max_cap : 16;
}
