/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/large_jemalloc.h"
#include "heap/jemalloc/copy.h"
#include "heap/large_gate.h"
#include "heap/large_keep.h"
#include "heap/large_map.h"
#include "heap/os.h"
#include "heap/print.h"
#include "heap/seal.h"

/* 1. Starting.  One thread starts jemalloc; others that come meanwhile take the direct path.
   2. Threads.  jemalloc would link each thread's data into a list and unlink it by a pthread key's
      destructor: a key of the program's, a lock, and a dangling link where the destructor is
   missed. But it has a state for threads that allocate after their destructors ran ("reincarnated",
      src/tsd.c): such data need no cleaning up.  So every thread of ours begins in that state.
   3. Extents.  Fresh extents and purged ones are reported to jemalloc as not committed.  It then
   says by the commit hook which of them it uses and by the decommit hook which it purges, so their
      difference, less the blocks in use, is what it keeps unused with pages: exactly, no statistics
   call. retain:true keeps purged extents (addresses only) in jemalloc, which coalesces and reuses
   them.
   4. Decay.  jemalloc's own is off: it gives back by a curve over time, whatever is asked for next,
      and pages given back and touched again cost up to a hundred times a page kept.  Instead
      the least that lay unused during a period is what nobody needed in it (the low-water mark of gperftools' thread caches); an arena more than half of whose unused
      memory was not needed is purged.  One that takes fresh pages although very much lies unused,
   in pieces that do not fit, is purged at once: that bounds the peak.  */

extern const char *gleaner_je_conf;
const char *gleaner_je_conf =
    "narenas:1,tcache:false,background_thread:false,retain:true,"
    "oversize_threshold:0,dirty_decay_ms:-1,muzzy_decay_ms:0,metadata_thp:disabled,dss:disabled,"
    /* A dirty extent is used before a fresh one however much larger it is: else 160 KiB would find
       no room beside an unused gigabyte where addresses are limited. */
    "lg_extent_max_active_fit:64,"
    "percpu_arena:disabled,trust_madvise:true,abort_conf:false,stats_print:false,prof:false";

enum { TSD_NOMINAL_MAX = 2, TSD_PURGATORY = 4 }; /* src/tsd.h; checked in prepare_thread */

static struct arena {
    je_hooks hooks;
    struct large_region region;
    _Atomic unsigned number; /* jemalloc's + 1; 0: not made yet */
    _Atomic uint32_t making;
    _Alignas(64) _Atomic int64_t committed; /* bytes with pages in its extents */
    _Atomic int64_t used;                   /* bytes in blocks */
    _Atomic int64_t low;                    /* least unused bytes in this period */
    _Atomic uint64_t period_start;
    _Atomic bool overgrown; /* it took fresh pages while too many lay unused */
} arenas[JE_ARENAS];

static atomic_bool addresses_are_scarce; /* a mapping was refused */
static _Atomic int start_state; /* 0 not started, 1 somebody starts, 2 ready, 3 does not work */

static struct arena *of(je_hooks *h)
{
    return (struct arena *)(void *)h;
}

static void *hook_alloc(je_hooks *h, void *at, size_t bytes, size_t alignment, bool *zero,
                        bool *commit, unsigned number)
{
    if (at) return NULL; /* an extent cannot be wished for at a place */
    void *p = large_region_take(&of(h)->region, bytes, alignment);
    if (!p) return NULL;
    *zero = true;
    /* Asked for as committed: jemalloc's metadata (aligned to 2 MiB), which are not counted, or one
       extent for one block, where the address space is too small for a larger piece. */
    if (*commit && alignment != 2 * MIB)
        atomic_fetch_add_explicit(&of(h)->committed, (int64_t)bytes, memory_order_relaxed);
    return p;
}

static bool hook_commit(je_hooks *h, void *at, size_t bytes, size_t offset, size_t length,
                        unsigned number)
{
    if (unlikely(!large_region_restore((char *)at + offset, length))) return true;
    atomic_fetch_add_explicit(&of(h)->committed, (int64_t)length, memory_order_relaxed);
    uint64_t used, unused; /* `length` is in `unused` until the block is counted */
    large_counts(&used, &unused);
    if (unlikely(unused > length + large_most_growing(used)))
        atomic_store_explicit(&of(h)->overgrown, true, memory_order_relaxed);
    return false;
}

static bool hook_decommit(je_hooks *h, void *at, size_t bytes, size_t offset, size_t length,
                          unsigned number)
{
    if (unlikely(atomic_load_explicit(&addresses_are_scarce, memory_order_relaxed)))
        large_region_unmap((char *)at + offset, length);
    else seal_discard((char *)at + offset, length);
    atomic_fetch_sub_explicit(&of(h)->committed, (int64_t)length, memory_order_relaxed);
    return false;
}

static bool hook_split(je_hooks *h, void *at, size_t bytes, size_t a, size_t b, bool committed,
                       unsigned number)
{
    return false;
}

static bool hook_merge(je_hooks *h, void *a, size_t a_bytes, void *b, size_t b_bytes,
                       bool committed, unsigned number)
{
    return false;
}

/* See 2.  False if this is another jemalloc than we know: then it is not used at all. */
static bool prepare_thread(void)
{
    unsigned char *tsd = gleaner_je_tsd_tls;
    gleaner_je_tsd_state_set(tsd, TSD_PURGATORY);
    gleaner_je_tsd_fetch_slow(tsd, false);
    /* tcache_enabled, reentrancy_level: a thread in this state would be sent to arena 0 by its
       reentrancy level. */
    if (tsd[0] != 0 || tsd[1] != 1) return false;
    tsd[1] = 0;
    large_thread.je_ready = true;
    return true;
}

static bool ready(void)
{
    int s = atomic_load_explicit(&start_state, memory_order_acquire);
    if (likely(s == 2)) return likely(large_thread.je_ready) || prepare_thread();
    if (s != 0 || !atomic_compare_exchange_strong(&start_state, &s, 1)) return false;
    unsigned n;
    size_t bytes = sizeof n;
    /* It would start blocks at a random cache line of their first page, one page larger for it;
       our table goes by pages.  5.3.0 has the option only as this variable. */
    gleaner_je_opt_cache_oblivious = false;
    bool ok = prepare_thread() && gleaner_je_mallctl("arenas.narenas", &n, &bytes, NULL, 0) == 0;
    atomic_store(&start_state, ok ? 2 : 3);
    return ok;
}

/* Makes the arena; a thread that finds another one at it takes the next arena. */
static bool make(struct arena *a)
{
    uint32_t none = 0;
    if (!atomic_compare_exchange_strong(&a->making, &none, 1)) return false;
    a->hooks = (je_hooks){.alloc = hook_alloc,
                          .commit = hook_commit,
                          .decommit = hook_decommit,
                          .split = hook_split,
                          .merge = hook_merge};
    je_hooks *hooks = &a->hooks;
    unsigned number;
    size_t bytes = sizeof number;
    if (gleaner_je_mallctl("arenas.create", &number, &bytes, &hooks, sizeof hooks) == 0)
        atomic_store(&a->number, number + 1);
    atomic_store(&a->making, 0);
    return atomic_load(&a->number) != 0;
}

static int64_t unused_of(struct arena *a)
{
    int64_t n = atomic_load_explicit(&a->committed, memory_order_relaxed) -
                atomic_load_explicit(&a->used, memory_order_relaxed);
    return n > 0 ? n : 0;
}

static void note_low(struct arena *a)
{
    int64_t n = unused_of(a);
    if (n < atomic_load_explicit(&a->low, memory_order_relaxed))
        atomic_store_explicit(&a->low, n, memory_order_relaxed);
}

static int flags_of(struct arena *a)
{
    return JE_ARENA(atomic_load_explicit(&a->number, memory_order_acquire) - 1) | JE_TCACHE_NONE;
}

static bool purge(struct arena *a)
{
    int64_t before = atomic_load(&a->committed);
    char name[32];
    print_to(name, sizeof name, "arena.%u.purge", atomic_load(&a->number) - 1);
    gleaner_je_mallctl(name, NULL, NULL, NULL, 0);
    return atomic_load(&a->committed) < before;
}

void *je_alloc(size_t bytes, size_t alignment, bool zero, unsigned shard, unsigned *arena)
{
    if (!ready()) return NULL;
    int flags = zero ? JE_ZERO : 0;
    if (alignment > OS_PAGE) flags |= JE_LG_ALIGN(__builtin_ctzl(alignment));
    for (unsigned i = 0; i < JE_ARENAS; i++) {
        unsigned n = (shard + i) % JE_ARENAS;
        struct arena *a = &arenas[n];
        if (!atomic_load_explicit(&a->number, memory_order_acquire) && (i > 0 || !make(a)))
            continue; /* a second arena is made for a second thread, not for lack of memory */
        void *block = gleaner_je_mallocx(bytes, flags | flags_of(a));
        if (!block) continue;
        atomic_fetch_add_explicit(&a->used, (int64_t)bytes, memory_order_relaxed);
        note_low(a);
        if (unlikely(atomic_load_explicit(&a->overgrown, memory_order_relaxed)) &&
            atomic_exchange(&a->overgrown, false))
            purge(a);
        *arena = n;
        return block;
    }
    return NULL;
}

void je_free(void *block, size_t bytes, unsigned arena)
{
    if (!ready()) return; /* not reached: the block came from it */
    gleaner_je_dallocx(block, JE_TCACHE_NONE);
    atomic_fetch_sub_explicit(&arenas[arena].used, (int64_t)bytes, memory_order_relaxed);
}

size_t je_resize(void *block, size_t old, size_t bytes, unsigned arena)
{
    if (!ready()) return old;
    size_t n = gleaner_je_xallocx(block, bytes, 0, JE_TCACHE_NONE);
    atomic_fetch_add_explicit(&arenas[arena].used, (int64_t)n - (int64_t)old, memory_order_relaxed);
    if (n > old) note_low(&arenas[arena]);
    return n;
}

void je_save_addresses(void) { atomic_store(&addresses_are_scarce, true); }

bool je_trim(void)
{
    bool any = false;
    if (!ready()) return false;
    for (struct arena *a = arenas; a < arenas + JE_ARENAS; a++)
        if (atomic_load(&a->number) && unused_of(a) > 0) any |= purge(a);
    return any;
}

void je_decay(uint64_t now, uint64_t decay_ns)
{
    if (atomic_load(&start_state) != 2) return;
    uint64_t used, unused;
    large_counts(&used, &unused);
    uint64_t keep = large_worth_keeping(used);
    bool excess = unused > keep;
    uint64_t period = excess ? decay_ns / 8 : decay_ns;
    for (struct arena *a = arenas; a < arenas + JE_ARENAS; a++) {
        uint64_t start = atomic_load(&a->period_start);
        if (!atomic_load(&a->number) || now - start < period) continue;
        if (!atomic_compare_exchange_strong(&a->period_start, &start, now)) continue;
        int64_t n = unused_of(a), low = atomic_exchange(&a->low, n);
        if (start == 0 || low <= 0 || !ready()) continue;
        if (low >= n / 2 || (excess && (uint64_t)low > keep)) purge(a);
        atomic_store(&a->low, unused_of(a));
    }
}

void je_counts(uint64_t *used, uint64_t *unused)
{
    *used = *unused = 0;
    for (struct arena *a = arenas; a < arenas + JE_ARENAS; a++) {
        *used += (uint64_t)atomic_load_explicit(&a->used, memory_order_relaxed);
        *unused += (uint64_t)unused_of(a);
    }
}
