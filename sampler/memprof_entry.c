/* memprof_entry.c: see memprof_entry.h.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sampler/memprof_entry.h"
#include "heap/idstack.h"
#include "heap/meta.h"
#include "heap/os.h"

_Atomic(struct memprof_entry *) memprof_chunks[MEMPROF_CHUNKS];
_Atomic(void *_Atomic *) memprof_data_chunks[MEMPROF_CHUNKS];

static _Atomic uint32_t used; /* entries that were ever claimed */
static _Atomic uint32_t generation = 1; /* of the fork: the cache of another is stale */
static _Atomic uint32_t limit = MEMPROF_MAX;
static idstack free_entries;

#define BATCH (MEMPROF_CACHE / 2)

#define LINK(id) (memprof_entry(MEMPROF_FIRST + (id))->next)
IDSTACK_FUNCTIONS(entries, LINK)

/* Two threads may map a chunk at once: the slower's memory stays unused. */
static bool have_chunk(uint32_t index)
{
    uint32_t c = index >> MEMPROF_CHUNK_SHIFT;
    if (!atomic_load(&memprof_data_chunks[c])) {
        void *_Atomic *none = NULL, *_Atomic *made = os_map(MEMPROF_CHUNK * sizeof *made);
        if (!made) return false;
        if (!atomic_compare_exchange_strong(&memprof_data_chunks[c], &none, made))
            os_unmap((void *)made, MEMPROF_CHUNK * sizeof *made);
    }
    if (!atomic_load(&memprof_chunks[c])) {
        struct memprof_entry *none = NULL, *made = meta_alloc(MEMPROF_CHUNK * sizeof *made);
        if (!made) return false;
        atomic_compare_exchange_strong(&memprof_chunks[c], &none, made);
    }
    return true;
}

/* Numbers that were never used: the first of a run, and how many. */
static uint32_t claim(uint32_t *count)
{
    uint32_t at = atomic_load(&used), most = atomic_load(&limit), n;
    do {
        if (at >= most) return 0;
        n = BATCH - at % BATCH; /* never across two chunks */
        if (n > most - at) n = most - at;
        if (!have_chunk(at)) return 0;
    } while (!atomic_compare_exchange_weak(&used, &at, at + n));
    *count = n;
    return MEMPROF_FIRST + at;
}

static void fresh(struct memprof_cache *cache)
{
    uint32_t now = atomic_load_explicit(&generation, memory_order_relaxed);
    if (cache->generation == now) return;
    cache->generation = now;
    cache->count = 0;
}

uint32_t memprof_take(struct memprof_cache *cache)
{
    if (cache) {
        fresh(cache);
        if (cache->count > 0) return cache->entry[--cache->count];
    }
    uint32_t i = entries_pop(&free_entries);
    if (i != ID_NONE) return MEMPROF_FIRST + i;
    uint32_t count, first = claim(&count);
    if (first == 0) return 0;
    for (uint32_t k = count; k-- > 1;) {
        if (cache) cache->entry[cache->count++] = first + k;
        else entries_push(&free_entries, first + k - MEMPROF_FIRST);
    }
    return first;
}

static void put(struct memprof_cache *cache, uint32_t number)
{
    if (!cache) {
        entries_push(&free_entries, number - MEMPROF_FIRST);
        return;
    }
    fresh(cache);
    if (cache->count == MEMPROF_CACHE)
        while (cache->count > BATCH) entries_push(&free_entries, cache->entry[--cache->count] - MEMPROF_FIRST);
    cache->entry[cache->count++] = number;
}

uint64_t memprof_use(uint32_t number, uint32_t flags)
{
    struct memprof_entry *e = memprof_entry(number);
    uint64_t state = (atomic_load_explicit(&e->state, memory_order_relaxed) >> 32 << 32) | flags | MEMPROF_USED;
    atomic_store_explicit(&e->state, state, memory_order_release);
    return state;
}

void memprof_give(struct memprof_cache *cache, uint32_t number)
{
    struct memprof_entry *e = memprof_entry(number);
    atomic_store(memprof_data(number), NULL);
    atomic_store_explicit(&e->what, 0, memory_order_release);
    atomic_store_explicit(&e->state, ((atomic_load(&e->state) >> 32) + 1) << 32, memory_order_release);
    put(cache, number);
}

uint32_t memprof_end(void) { return MEMPROF_FIRST + atomic_load_explicit(&used, memory_order_acquire); }

uint32_t memprof_below(uint32_t tag)
{
    const struct memprof_entry *e;
    for (unsigned steps = 0; (e = memprof_at(tag_entry(tag))) && steps < 1000; steps++) /* a chain that changes meanwhile */
        tag = (tag & ~(TAG_CALLER | TAG_NUMBER)) | atomic_load_explicit(&e->below, memory_order_acquire);
    return tag;
}

/* What `used` says may be older than the entries: all of the chunks that there are is looked at. */
void memprof_entries_fork_child(void)
{
    atomic_fetch_add(&generation, 1);
    atomic_store(&free_entries, 0);
    uint32_t chunks = 0;
    while (chunks < MEMPROF_CHUNKS && atomic_load(&memprof_chunks[chunks]) && atomic_load(&memprof_data_chunks[chunks])) chunks++;
    if (chunks < MEMPROF_CHUNKS) atomic_store(&memprof_chunks[chunks], NULL); /* its data were mapped a moment ago */
    atomic_store(&used, chunks << MEMPROF_CHUNK_SHIFT);
}

void memprof_give_again(uint32_t number) { entries_push(&free_entries, number - MEMPROF_FIRST); }

void memprof_limit(uint32_t entries) { atomic_store(&limit, entries); }
