/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/thread_heap.h"
#include "heap/heap.h"
#include "heap/large.h"
#include "heap/meta.h"
#include "heap/os.h"

static struct bin no_bin; /* empty and without room */

#define NO_BINS_8 &no_bin, &no_bin, &no_bin, &no_bin, &no_bin, &no_bin, &no_bin, &no_bin
#define NO_BINS_64                                                                                \
    NO_BINS_8, NO_BINS_8, NO_BINS_8, NO_BINS_8, NO_BINS_8, NO_BINS_8, NO_BINS_8, NO_BINS_8

THREAD_LOCAL struct heap_tls heap_tls = {
    .by_size = {NO_BINS_64, &no_bin},
    .by_class = {NO_BINS_64, NO_BINS_64},
};

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

static void adopt_bins(struct thread_heap *h)
{
    for (unsigned i = 0; i <= SMALL_MAX / 16; i++) heap_tls.by_size[i] = h->bin[small_class_of[i]];
    for (unsigned c = 1; c <= POOL_CLASSES; c++)
        heap_tls.by_class[c] = heap_tls.by_class[c | STATE_OLD] = h->bin[c];
    heap_tls.heap = h;
    atomic_store(&h->tls, &heap_tls);
    if (heap_options.watch) heap_tls.attention |= ATTENTION_WATCH;
    thread_heap_notice_hooks(h);
}

/* In a bin whose `left` is below zero the slow path is at work on the block that was one too many for it: that one is not used yet.
   Bins whose counts were set while nothing was sampled have no end, and nothing to give back. */
void thread_heap_renew(struct thread_heap *h)
{
    h->hooks = atomic_load_explicit(&heap_hooks_number, memory_order_acquire);
    for (unsigned c = 1; c <= POOL_CLASSES; c++) {
        struct bin *b = h->bin[c];
        if (b->class == 0) continue;
        uint64_t blocks = (uint64_t)b->follow + (uint64_t)(b->left > 0 ? b->left : 0);
        if (blocks > 0 && blocks <= UINT32_MAX && heap_hooks->unused)
            heap_hooks->unused(&h->hook, c, blocks * (class_size[c] / 8));
        b->counted += (uint64_t)(b->left_start - b->left);
        b->left = b->left_start = b->follow = 0;
    }
    if (heap_hooks->renewed) heap_hooks->renewed(&h->hook);
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
    atomic_store(&h->tls, NULL);
    atomic_store(&h->state, THREAD_HEAP_IDLE);
    heaps_push(&idle_heaps, h->number);
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
    bin_read_notices(h);
    for (unsigned c = 1; c <= POOL_CLASSES; c++)
        if (h->bin[c]->class != 0) bin_close(h->bin[c]);
    bin_read_notices(h); /* those that came before the pools had no owner */
    thread_heap_spare(h);
}

bool thread_heap_take_idle_apart(void)
{
    uint32_t idle = heaps_pop(&idle_heaps);
    if (idle == ID_NONE) return false;
    take_apart(heap_at(idle));
    return true;
}

void thread_heap_trim(struct thread_heap *h)
{
    flush_all(h);
    bin_read_notices(h);
    while (thread_heap_take_idle_apart()) {}
    for (unsigned c = 1; c <= POOL_CLASSES; c++)
        if (h->bin[c]->class != 0) bin_give_spare(h->bin[c]);
}

static void trim_bins(struct thread_heap *h)
{
    for (unsigned c = 1; c <= POOL_CLASSES; c++)
        if (h->bin[c]->class != 0) bin_idle(h, h->bin[c]);
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
