/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/thread_heap.h"
#include "heap/heap.h"
#include "heap/large.h"
#include "heap/meta.h"
#include "heap/os.h"
#include "heap/rescue.h"

static struct bin no_bin; /* empty and without room */

#define NO_BINS_8 &no_bin, &no_bin, &no_bin, &no_bin, &no_bin, &no_bin, &no_bin, &no_bin
#define NO_BINS_64                                                                                \
    NO_BINS_8, NO_BINS_8, NO_BINS_8, NO_BINS_8, NO_BINS_8, NO_BINS_8, NO_BINS_8, NO_BINS_8

THREAD_LOCAL struct heap_tls heap_tls = {
    .by_size = {NO_BINS_64, &no_bin},
    .by_class = {NO_BINS_64, NO_BINS_64},
};

_Atomic int64_t late_taken[HEAP_CLASSES];

/* ---- the heaps ---- */

#define HEAPS_A_BLOCK 1024u
#define HEAP_BLOCKS 4096u /* four million threads at once */

static _Atomic(_Atomic(struct thread_heap *) *) heap_blocks[HEAP_BLOCKS];
static _Atomic uint32_t heap_count;
static idstack idle_heaps, spare_heaps;

struct thread_heap *thread_heap_by_number(uint32_t number)
{
    if (number >= HEAP_BLOCKS * HEAPS_A_BLOCK) return NULL;
    _Atomic(struct thread_heap *) *block = atomic_load(&heap_blocks[number / HEAPS_A_BLOCK]);
    return block ? atomic_load(&block[number % HEAPS_A_BLOCK]) : NULL;
}

/* A heap that is on a stack exists. */
static struct thread_heap *heap_at(uint32_t number)
{
    struct thread_heap *h = thread_heap_by_number(number);
    if (!h) __builtin_unreachable();
    return h;
}

#define HEAP_LINK(id) (heap_at(id)->link)
IDSTACK_FUNCTIONS(heaps, HEAP_LINK)

uint32_t thread_heap_count(void) { return atomic_load(&heap_count); }

void thread_heap_forget_stacks(void)
{
    atomic_store(&idle_heaps, 0);
    atomic_store(&spare_heaps, 0);
}

void thread_heap_spare(struct thread_heap *h)
{
    atomic_store(&h->state, THREAD_HEAP_SPARE);
    heaps_push(&spare_heaps, h->number);
}

/* Caches hold at first 16 slots; each refill of a busy bin doubles its room, for small classes each overflow too.
   So a thread that allocates little holds little, and the 64 and more blocks at a time of a
   busy one stay clear of the bitmaps.  No class holds more than 1 MiB. */
static uint16_t max_cap_of(unsigned class)
{
    size_t n = MIB / class_size[class];
    return (uint16_t)(class_size[class] <= 2 * KIB ? 128 : n < 64 ? n : 64);
}

static size_t bin_bytes(unsigned class)
{
    return round_up(sizeof(struct bin) + max_cap_of(class) * sizeof(void *), 64);
}

static struct thread_heap *make_heap(void)
{
    size_t bytes = round_up(sizeof(struct thread_heap), 64);
    for (unsigned c = 1; c <= POOL_CLASSES; c++) bytes += bin_bytes(c);
    struct thread_heap *h = meta_alloc(bytes);
    if (!h) return NULL;
    char *at = (char *)h + round_up(sizeof *h, 64);
    for (unsigned c = 1; c <= POOL_CLASSES; c++) {
        h->bin[c] = (struct bin *)at;
        at += bin_bytes(c);
    }
    h->number = atomic_fetch_add(&heap_count, 1);
    if (h->number >= HEAP_BLOCKS * HEAPS_A_BLOCK) return NULL;
    _Atomic(_Atomic(struct thread_heap *) *) *slot = &heap_blocks[h->number / HEAPS_A_BLOCK];
    _Atomic(struct thread_heap *) *block = atomic_load(slot);
    if (!block) {
        _Atomic(struct thread_heap *) *made = meta_alloc(HEAPS_A_BLOCK * sizeof *made);
        if (!made) return NULL;
        if (atomic_compare_exchange_strong(slot, &block, made)) block = made;
    }
    atomic_store(&block[h->number % HEAPS_A_BLOCK], h);
    return h;
}

void bin_open(struct bin *b, unsigned class)
{
    b->avail = b->full = b->avail_last = b->full_look = ID_NONE;
    b->max_cap = max_cap_of(class);
    b->cap = b->max_cap < 16 ? b->max_cap : 16;
    b->class = (uint8_t)class;
}

static void adopt_bins(struct thread_heap *h)
{
    for (unsigned i = 0; i <= SMALL_MAX / 16; i++) heap_tls.by_size[i] = h->bin[small_class_of[i]];
    for (unsigned c = 1; c <= POOL_CLASSES; c++)
        heap_tls.by_class[c] = heap_tls.by_class[c | STATE_OLD] = h->bin[c];
    heap_tls.heap = h;
    if (heap_options.watch) heap_tls.attention |= ATTENTION_WATCH;
}

struct thread_heap *thread_heap_get(void)
{
    struct thread_heap *h = heap_tls.heap;
    if (likely(h != NULL)) return h;
    heap_start(NULL);
    uint32_t number = heaps_pop(&idle_heaps);
    if (number == ID_NONE) number = heaps_pop(&spare_heaps);
    h = number == ID_NONE ? make_heap() : thread_heap_by_number(number);
    if (!h) return NULL;
    atomic_store(&h->state, THREAD_HEAP_ACTIVE);
    adopt_bins(h);
    if (!heap_tls.ending && heap_hooks->thread_started) heap_hooks->thread_started(&h->hook);
    return h;
}

void thread_heap_release(void)
{
    struct thread_heap *h = heap_tls.heap;
    if (!h) return;
    for (unsigned i = 0; i <= SMALL_MAX / 16; i++) heap_tls.by_size[i] = &no_bin;
    for (unsigned c = 0; c < 2 * HEAP_CLASSES; c++) heap_tls.by_class[c] = &no_bin;
    heap_tls.heap = NULL;
    atomic_store(&h->state, THREAD_HEAP_IDLE);
    heaps_push(&idle_heaps, h->number);
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

static void read_notices(struct thread_heap *h)
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

/* Moves free slots of the pool into the bin, up to `want` in all, the lowest on top. */
static void take_slots(struct bin *b, struct pool *p, size_t want)
{
    uint64_t *bits = pool_bits(p);
    size_t size = class_size[p->class];
    uintptr_t base = pool_base(p);
    void *found[128];
    size_t n = 0, need = want - b->n;
    if (need > p->free) need = p->free;
    for (unsigned w = p->cursor; n < need; w++) {
        uint64_t word = bits[w];
        while (word != 0 && n < need) {
            found[n++] = (void *)(base + (w * 64 + (unsigned)__builtin_ctzll(word)) * size);
            word &= word - 1;
        }
        bits[w] = word;
        p->cursor = (uint16_t)w;
    }
    p->free = (uint16_t)(p->free - n);
    /* What was there stays on top only if it came from this call's earlier pools; order among pools
       matters little, order within one keeps neighbours together. */
    for (size_t i = 0; i < n; i++) b->slot[b->n + i] = found[n - 1 - i];
    b->n += n;
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

static void take_apart(struct thread_heap *);

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
    uint32_t idle = heaps_pop(&idle_heaps);
    if (idle != ID_NONE) {
        take_apart(thread_heap_by_number(idle));
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
    read_notices(h);
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
    return got > 0;
}

/* ---- flush ---- */

/* Slots that go back to one pool of another heap: one atomic addition for as many as follow each other. */
struct run {
    struct pool *pool;
    uint32_t n;
};

static void run_end(struct run *r)
{
    if (r->n > 0) returned(r->pool, r->n);
    r->n = 0;
}

static void run_add(struct run *r, struct pool *p, void *block, bool medium)
{
    if (p != r->pool) run_end(r);
    r->pool = p;
    r->n++;
    mark_returned(block, medium);
}

static void count_given(struct bin *b, size_t n)
{
    b->taken -= (int64_t)n;
    heap_account(-(int64_t)n * class_size[b->class]);
}

void bin_flush(struct thread_heap *h, struct bin *b, size_t n)
{
    bool medium = class_is_medium(b->class);
    struct run run = {0};
    for (size_t i = 0; i < n; i++) {
        void *block = b->slot[i];
        struct pool *p = pool_of(block, medium);
        if (atomic_load_explicit(&p->owner, memory_order_relaxed) == h) {
            unsigned slot = slot_of(p, block);
            pool_bits(p)[slot / 64] |= (uint64_t)1 << slot % 64;
            if (slot / 64 < p->cursor) p->cursor = (uint16_t)(slot / 64);
            p->free++;
            bin_pool_freed(b, p);
            continue;
        }
        run_add(&run, p, block, medium);
    }
    run_end(&run);
    __builtin_memmove(b->slot, b->slot + n, (b->n - n) * sizeof b->slot[0]);
    b->n -= n;
    count_given(b, n);
}

void bin_unshare(struct thread_heap *h, struct bin *b)
{
    if (class_size[b->class] % CACHE_LINE == 0) return; /* pools are aligned: no two slots touch one line */
    struct run run = {0};
    size_t kept = 0, n = b->n;
    for (size_t i = 0; i < n; i++) {
        void *block = b->slot[i];
        struct pool *p = pool_of(block, false);
        struct thread_heap *owner = atomic_load_explicit(&p->owner, memory_order_relaxed);
        if (owner == h || !owner ||
            atomic_load_explicit(&owner->state, memory_order_relaxed) != THREAD_HEAP_ACTIVE)
            b->slot[kept++] = block;
        else run_add(&run, p, block, false);
    }
    run_end(&run);
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

/* ---- taking apart, trimming, ticking ---- */

static void flush_all(struct thread_heap *h)
{
    for (unsigned c = 1; c <= POOL_CLASSES; c++)
        if (h->bin[c]->n > 0) bin_flush(h, h->bin[c], h->bin[c]->n);
}

/* Called with a heap that nobody else can reach (popped from the idle stack). */
static void take_apart(struct thread_heap *h)
{
    atomic_store(&h->state, THREAD_HEAP_ACTIVE);
    flush_all(h);
    read_notices(h);
    for (unsigned c = 1; c <= POOL_CLASSES; c++) {
        struct bin *b = h->bin[c];
        if (b->class == 0) continue;
        while (b->avail != ID_NONE || b->full != ID_NONE) {
            struct pool *p = pool_of_id(b->avail != ID_NONE ? b->avail : b->full);
            list_remove(b, p);
            if (p->free == p->slots) pool_give(p);
            else pool_orphan(p);
        }
        b->busy = false;
        b->cap = b->max_cap < 16 ? b->max_cap : 16;
    }
    read_notices(h); /* those that came before the pools had no owner */
    thread_heap_spare(h);
}

void thread_heap_trim(struct thread_heap *h)
{
    flush_all(h);
    read_notices(h);
    for (uint32_t id; (id = heaps_pop(&idle_heaps)) != ID_NONE;) take_apart(thread_heap_by_number(id));
    for (unsigned c = 1; c <= POOL_CLASSES; c++) {
        struct bin *b = h->bin[c];
        struct pool *p = b->class != 0 && b->avail != ID_NONE ? pool_of_id(b->avail) : NULL;
        if (p && p->free == p->slots) {
            list_remove(b, p);
            pool_give(p);
        }
    }
}

/* Bins that were not refilled since the last look give half of their slots back and half of their room. */
static void trim_bins(struct thread_heap *h)
{
    for (unsigned c = 1; c <= POOL_CLASSES; c++) {
        struct bin *b = h->bin[c];
        if (b->class == 0) continue;
        if (!b->busy && b->n > 0) {
            bin_flush(h, b, (b->n + 1) / 2);
            if (b->cap > 16 && b->n <= b->cap / 2) b->cap /= 2;
        }
        b->busy = false;
    }
}

void thread_heap_tick(struct thread_heap *h)
{
    uint64_t now = os_now_coarse();
    pool_decay(now, heap_options.decay_ns);
    large_decay(now, heap_options.decay_ns);
    if (now - h->trimmed > heap_options.decay_ns / 8) {
        h->trimmed = now;
        trim_bins(h);
    }
    if (heap_hooks->tick) heap_hooks->tick(&h->hook, now);
}
