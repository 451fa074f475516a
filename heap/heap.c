/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/heap.h"
#include "heap/large.h"
#include "heap/large_table.h"
#include "heap/meta.h"
#include "heap/os.h"
#include "heap/pool.h"
#include "heap/window.h"
#include "heap/rescue.h"
#include "heap/stats.h"
#include "heap/thread_heap.h"

#include <sys/single_threaded.h>

static const struct heap_hooks no_hooks;
const struct heap_hooks *heap_hooks = &no_hooks, *heap_hooks_every;

struct heap_options heap_options = {.decay_ns = 10000000000u};

static bool any_chunk_known(size_t first, size_t last)
{
    for (size_t c = first; c <= last && c < WINDOW_LARGE_BYTES / LARGE_CHUNK; c++)
        if (atomic_load(&large_chunk_known[c])) return true;
    return false;
}

/* Tables of pools and the metadata are used up to an end each, those of large blocks where their chunk is known. */
static bool tables_are_used(uintptr_t from, uintptr_t to)
{
    uintptr_t large = window_base + WINDOW_LARGE_TABLES_OFFSET, meta = window_base + WINDOW_META_OFFSET;
    if (pool_tables_reach(from, to) || meta_reaches(from, to)) return true;
    if (to <= large || from >= meta) return false;
    uintptr_t first = from > large ? from - large : 0, last = (to < meta ? to : meta) - 1 - large;
    return any_chunk_known(first / LARGE_TABLES_STRIDE, last / LARGE_TABLES_STRIDE);
}

/* The areas of pools are used up to an end, the large one by chunks. */
static bool is_used(uintptr_t from, uintptr_t to)
{
    uintptr_t small_end = pool_tables.small_base + (pool_tables.small_granules << SMALL_GRANULE_SHIFT),
              medium_end = pool_tables.medium_base + (pool_tables.medium_granules << MEDIUM_GRANULE_SHIFT),
              large = window_base + WINDOW_LARGE_OFFSET, tables = window_base + WINDOW_TABLES_OFFSET;
    if (to > tables) return from < tables || tables_are_used(from, to);
    if (from < window_base + WINDOW_MEDIUM_OFFSET) return from < small_end || to > window_base + WINDOW_MEDIUM_OFFSET;
    if (from < large) return from < medium_end || to > large;
    return any_chunk_known((from - large) / LARGE_CHUNK, (to - 1 - large) / LARGE_CHUNK);
}

static void set_hooks(const struct heap_hooks *hooks)
{
    __atomic_store_n(&heap_hooks, hooks, __ATOMIC_RELEASE);
    __atomic_store_n(&heap_hooks_every, hooks->every && !heap_options.reclaim ? hooks : NULL, __ATOMIC_RELEASE);
}

void heap_start(const struct heap_options *options)
{
    window_is_used = is_used;
    if (options) heap_options = *options;
    set_hooks(heap_hooks);
    pool_start();
}

bool heap_watches(void) { return heap_options.watch; }

_Atomic uint32_t heap_hooks_number;

void heap_set_hooks(const struct heap_hooks *hooks)
{
    set_hooks(hooks ? hooks : &no_hooks);
    atomic_fetch_add(&heap_hooks_number, 1);
    struct thread_heap *h = heap_tls.heap;
    if (!h) return;
    if (heap_options.watch) heap_tls.attention |= ATTENTION_WATCH; /* made before heap_start said so */
    thread_heap_renew(h);
}

const struct heap_hooks *heap_get_hooks(void) { return heap_hooks; }

bool heap_thread_is_ending(void) { return heap_tls.ending; }

struct heap_thread_hook *heap_own_hook(void)
{
    if (unlikely(heap_tls.ending)) return NULL;
    struct thread_heap *h = thread_heap_get();
    return h ? &h->hook : NULL;
}

static const atomic_uint no_fork = 1;
const atomic_uint *heap_fork_word = &no_fork;
void (*heap_forked)(void);

void heap_watch_forks(const atomic_uint *word, void (*forked)(void))
{
    heap_forked = forked;
    heap_fork_word = word;
}

void heap_suspend_sampling(void) { heap_tls.suspended++; }
void heap_resume_sampling(void) { heap_tls.suspended--; }
bool heap_sampling_is_suspended(void) { return heap_tls.suspended != 0; }

void heap_thread_exit(void)
{
    heap_tls.ending = true;
    if (heap_tls.heap && heap_hooks->thread_ended) heap_hooks->thread_ended(&heap_tls.heap->hook);
    thread_heap_release();
}

bool heap_trim(void)
{
    struct thread_heap *h = thread_heap_get();
    if (!h) return false;
    thread_heap_trim(h);
    bool pools = pool_unmap_free(), large = large_trim();
    return pools || large;
}

bool heap_save_memory(void)
{
    large_save_addresses();
    return heap_trim();
}

void heap_fork_prepare(void) { large_fork_prepare(); }
void heap_fork_parent(void) { large_fork_parent(); }

void heap_fork_child(void)
{
    os_fork_child();
    bool threads = !__libc_single_threaded; /* or there were some a moment ago */
    if (threads) {
        meta_fork_child();
        pool_fork_child();
        rescue_fork_child();
    }
    large_fork_child(threads);
    stats_fork_child();
}

void heap_before_thread(void)
{
    if (unlikely(rescue_is_due()) && heap_tls.heap) rescue_heaps(heap_tls.heap);
}
