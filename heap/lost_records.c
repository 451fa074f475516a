/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/lost_records.h"
#include "heap/meta.h"

#define CHUNK_SHIFT 12
#define CHUNKS (1u << 16) /* 268 million records */
#define IN_CHUNK ((1u << CHUNK_SHIFT) - 1)
#define TICK_SHIFT 24

_Static_assert(sizeof(struct lost_record) == 64, "bytes a lost block");

struct index {
    uint32_t shift; /* 64 - log2 of the places */
    _Atomic uint32_t place[];
};

static _Atomic(struct lost_record *) chunks[CHUNKS];
static _Atomic(struct lost_trial *) trials[CHUNKS];
static bool with_trials;
static uint32_t used = 1;     /* records ever; 0 is none */
static uint32_t free_records; /* the first of the ended ones that can be used again */
static _Atomic(struct index *) index_now;
static uint32_t in_index;
static uint64_t epoch;

void lost_records_with_trials(void) { with_trials = true; }

uint32_t lost_records_end(void) { return used; }

struct lost_record *lost_record_at(uint32_t n)
{
    if (n == 0 || n >> CHUNK_SHIFT >= CHUNKS) return NULL;
    struct lost_record *c = atomic_load_explicit(&chunks[n >> CHUNK_SHIFT], memory_order_acquire);
    return c ? &c[n & IN_CHUNK] : NULL;
}

struct lost_trial *lost_trial_at(uint32_t n)
{
    if (n == 0 || n >> CHUNK_SHIFT >= CHUNKS) return NULL;
    struct lost_trial *c = atomic_load_explicit(&trials[n >> CHUNK_SHIFT], memory_order_acquire);
    return c ? &c[n & IN_CHUNK] : NULL;
}

void lost_first_time(uint64_t time)
{
    if (epoch == 0) epoch = time;
}

uint32_t lost_tick(uint64_t time) { return time > epoch ? (uint32_t)((time - epoch) >> TICK_SHIFT) : 0; }
uint64_t lost_time(uint32_t tick) { return epoch + ((uint64_t)tick << TICK_SHIFT); }

static uint64_t hash_of(uintptr_t block) { return (block >> 4) * 0x9e3779b97f4a7c15u; }
static uint32_t mask_of(const struct index *x) { return (uint32_t)((1ull << (64 - x->shift)) - 1); }

uint32_t lost_record_find(uintptr_t block, unsigned mark)
{
    struct index *x = atomic_load_explicit(&index_now, memory_order_acquire);
    if (!x) return 0;
    for (uint32_t i = (uint32_t)(hash_of(block) >> x->shift);; i = (i + 1) & mask_of(x)) {
        uint32_t n = atomic_load_explicit(&x->place[i], memory_order_acquire);
        if (n == 0) return 0;
        struct lost_record *r = lost_record_at(n);
        if (r && atomic_load_explicit(&r->block, memory_order_acquire) == (block | mark)) return n;
    }
}

static void enter(struct index *x, uintptr_t block, uint32_t n)
{
    uint32_t i = (uint32_t)(hash_of(block) >> x->shift);
    while (atomic_load_explicit(&x->place[i], memory_order_relaxed) != 0) i = (i + 1) & mask_of(x);
    atomic_store_explicit(&x->place[i], n, memory_order_release);
    in_index++;
}

static bool make_room(void)
{
    struct index *x = atomic_load(&index_now);
    if (x && in_index < 1u << (64 - x->shift) >> 1) return true;
    uint32_t live = 0, shift = 64 - 10;
    for (uint32_t n = 1; n < used; n++) live += atomic_load(&lost_record_at(n)->block) != 0;
    while (1u << (64 - shift) < 4 * (live + 1)) shift--;
    struct index *new = meta_alloc(sizeof *new + sizeof new->place[0] * (1ull << (64 - shift)));
    if (!new) return false;
    new->shift = shift;
    in_index = 0;
    for (uint32_t n = 1; n < used; n++) {
        uint64_t block = atomic_load(&lost_record_at(n)->block) & ~(uint64_t)LOST_MARKS;
        if (block != 0) enter(new, block, n);
    }
    atomic_store_explicit(&index_now, new, memory_order_release);
    return true;
}

static bool make_chunk(uint32_t c)
{
    if (with_trials && !atomic_load(&trials[c])) {
        struct lost_trial *made = meta_alloc(sizeof *made << CHUNK_SHIFT);
        if (!made) return false;
        atomic_store_explicit(&trials[c], made, memory_order_release);
    }
    if (atomic_load(&chunks[c])) return true;
    struct lost_record *made = meta_alloc(sizeof *made << CHUNK_SHIFT);
    if (!made) return false;
    atomic_store_explicit(&chunks[c], made, memory_order_release);
    return true;
}

uint32_t lost_record_new(void)
{
    if (!make_room()) return 0;
    uint32_t n = free_records;
    if (n) {
        free_records = lost_record_at(n)->link;
    } else {
        if (used >= CHUNKS << CHUNK_SHIFT || !make_chunk(used >> CHUNK_SHIFT)) return 0;
        n = used++;
    }
    struct lost_trial *t = lost_trial_at(n);
    if (t) *t = (struct lost_trial){0};
    return n;
}

void lost_record_enter(uint32_t n)
{
    enter(atomic_load(&index_now), atomic_load(&lost_record_at(n)->block), n);
}

void lost_records_forget_free(void) { free_records = 0; }

void lost_record_free(uint32_t n)
{
    lost_record_at(n)->link = free_records;
    free_records = n;
}
