/* lost.c: see lost.h.

   The index is open addressing by address with record numbers in it.  One thread inserts (the holder of the gate), any thread looks
   up, nobody removes: a record that ended has block 0 and the number in the index leads to nothing; the index is made anew,
   beside the old one, when it is half full.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/lost.h"
#include "heap/heap.h"
#include "heap/large_table.h"
#include "heap/lost_record.h"
#include "heap/meta.h"
#include "heap/pool.h"
#include "heap/probes.h"
#include "heap/tag.h"
#include "heap/thread_heap.h"

#define CHUNK_SHIFT 12
#define CHUNKS (1u << 16) /* 268 million records */
#define TICK_SHIFT 24     /* times in units of 2^24 ns after the first cut's, 17 ms: 32 bits last two years */

struct record {
    _Atomic uint64_t block; /* 0: none; else who swaps it for 0 has ended it */
    uint64_t hash, given, hangs_bytes;
    uint32_t tag;
    uint32_t last_reached, first_missed;
    uint32_t first_number, seen; /* collections */
    uint32_t misses;
    uint32_t link; /* of an indirectly lost block, its head's record; of a head, how many hang on it; of a free record, the next */
    uint8_t kind, why, class;
};

struct index {
    uint32_t shift; /* 64 - log2 of the places */
    _Atomic uint32_t place[];
};

static _Atomic(struct record *) chunks[CHUNKS];
static uint32_t used = 1;      /* records ever; 0 is none */
static uint32_t free_records;  /* the first of the ended ones that can be used again */
static _Atomic(struct index *) index_now;
static uint32_t in_index;
static uint64_t epoch; /* of the times */
static _Atomic uint64_t of_class[HEAP_CLASSES];
static _Atomic uint64_t proofs[PROOFS], proof_bytes[PROOFS];
static _Atomic uint64_t unrecorded; /* lost blocks for which there was no memory */

static struct record *record_at(uint32_t n)
{
    struct record *c = atomic_load_explicit(&chunks[n >> CHUNK_SHIFT], memory_order_acquire);
    return c ? &c[n & ((1u << CHUNK_SHIFT) - 1)] : NULL;
}

static uint32_t tick_of(uint64_t time) { return time > epoch ? (uint32_t)((time - epoch) >> TICK_SHIFT) : 0; }
static uint64_t time_of(uint32_t tick) { return epoch + ((uint64_t)tick << TICK_SHIFT); }
static uint64_t hash_of(uintptr_t block) { return (block >> 4) * 0x9e3779b97f4a7c15u; }

static struct record *find(uintptr_t block)
{
    struct index *x = atomic_load_explicit(&index_now, memory_order_acquire);
    if (!x) return NULL;
    uint32_t mask = (uint32_t)((1ull << (64 - x->shift)) - 1);
    for (uint32_t i = (uint32_t)(hash_of(block) >> x->shift);; i = (i + 1) & mask) {
        uint32_t n = atomic_load_explicit(&x->place[i], memory_order_acquire);
        if (n == 0) return NULL;
        struct record *r = record_at(n);
        if (r && atomic_load_explicit(&r->block, memory_order_acquire) == block) return r;
    }
}

static void enter(struct index *x, uintptr_t block, uint32_t n)
{
    uint32_t mask = (uint32_t)((1ull << (64 - x->shift)) - 1);
    uint32_t i = (uint32_t)(hash_of(block) >> x->shift);
    while (atomic_load_explicit(&x->place[i], memory_order_relaxed) != 0) i = (i + 1) & mask;
    atomic_store_explicit(&x->place[i], n, memory_order_release);
}

static bool make_room(void)
{
    struct index *x = atomic_load(&index_now);
    if (x && in_index < 1u << (64 - x->shift) >> 1) return true;
    uint32_t live = 0, shift = 64 - 10;
    for (uint32_t n = 1; n < used; n++) live += atomic_load(&record_at(n)->block) != 0;
    while (1u << (64 - shift) < 4 * (live + 1)) shift--;
    struct index *new = meta_alloc(sizeof *new + sizeof new->place[0] * (1ull << (64 - shift)));
    if (!new) return false;
    new->shift = shift;
    in_index = 0;
    for (uint32_t n = 1; n < used; n++) {
        uint64_t block = atomic_load(&record_at(n)->block);
        if (block == 0) continue;
        enter(new, block, n);
        in_index++;
    }
    atomic_store_explicit(&index_now, new, memory_order_release);
    return true;
}

static uint32_t new_record(void)
{
    uint32_t n = free_records;
    if (n) {
        free_records = record_at(n)->link;
        return n;
    }
    if (used >= CHUNKS << CHUNK_SHIFT) return 0;
    if (!record_at(used)) {
        struct record *made = meta_alloc(sizeof *made << CHUNK_SHIFT);
        if (!made) return 0;
        atomic_store_explicit(&chunks[used >> CHUNK_SHIFT], made, memory_order_release);
    }
    return used++;
}

/* ---- what the heap says of a block ---- */

struct place {
    int8_t *state;            /* of a slot */
    struct large_record *large;
    _Atomic uint32_t *tag;    /* NULL: none yet */
    struct pool *pool;
    unsigned slot, class;
    size_t given;
};

static bool place_of(uintptr_t block, struct place *p)
{
    *p = (struct place){0};
    uintptr_t offset = block - window_base;
    if (offset >= WINDOW_TABLES_OFFSET) return false;
    if (offset >= WINDOW_LARGE_OFFSET) {
        p->large = large_record_at((void *)block);
        if (!p->large) return false;
        p->tag = &p->large->entry;
        p->class = HEAP_CLASS_LARGE;
        p->given = atomic_load(&p->large->bytes);
        return (atomic_load(&p->large->state) & LARGE_STATE_MASK) == LARGE_LIVE;
    }
    bool medium = offset >= WINDOW_MEDIUM_OFFSET;
    p->state = state_of((void *)block, medium);
    p->pool = pool_of((void *)block, medium);
    if (!state_is_live(*p->state) || p->pool->class == 0) return false;
    p->class = *p->state & STATE_CLASS;
    p->given = class_size[p->class];
    p->slot = slot_of(p->pool, (void *)block);
    _Atomic uint32_t *tags = atomic_load(&p->pool->entries);
    p->tag = tags ? &tags[p->slot] : NULL;
    return true;
}

static bool is_old(const struct place *p)
{
    return p->large ? atomic_load(&p->large->state) & LARGE_OLD : *p->state & STATE_OLD;
}

/* The tag, where it is meant (tag.h). */
static uint32_t tag_now(const struct place *p)
{
    if (!p->tag) return 0;
    uint32_t tag = atomic_load(p->tag);
    if (p->large || *p->state < 0) return tag;
    return heap_options.watch ? tag & (TAG_CALLER | TAG_NUMBER) : 0;
}

/* From now on a free of it takes the slow path and finds TAG_LOST.  False if it was freed meanwhile. */
static bool make_lost(struct place *p, uint32_t tag)
{
    if (p->large) {
        atomic_fetch_or(p->tag, TAG_LOST);
        return true;
    }
    if (!p->tag) {
        if (!pool_make_entries(p->pool)) return false;
        p->tag = &atomic_load(&p->pool->entries)[p->slot];
    }
    uint32_t seen = atomic_load(p->tag);
    if (tag_now(p) != tag || !atomic_compare_exchange_strong(p->tag, &seen, tag | TAG_LOST))
        atomic_fetch_or(p->tag, TAG_LOST); /* somebody has put an entry there (heap_retag) */
    int8_t was = (int8_t)(*p->state & ~STATE_TRACKED);
    if (*p->state < 0) return true;
    if (!state_is_live(was) || !(was & STATE_OLD)) return false;
    return __atomic_compare_exchange_n(p->state, &was, (int8_t)(was | STATE_TRACKED), false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
}

/* ---- ends ---- */

/* Who gets true has ended the record. */
static bool end(struct record *r, uint64_t block)
{
    unsigned class = r->class, kind = r->kind;
    if (!atomic_compare_exchange_strong(&r->block, &block, 0)) return false;
    if (kind != LOST_POSSIBLE) atomic_fetch_sub(&of_class[class], 1);
    return true;
}

static void count_proof(enum lost_proof how, uint64_t given)
{
    atomic_fetch_add(&proofs[how], 1);
    atomic_fetch_add(&proof_bytes[how], given);
}

static void prove(struct record *r, uint64_t block, uint32_t tag, enum lost_proof how)
{
    uint64_t given = r->given;
    bool possible = r->kind == LOST_POSSIBLE; /* was never called lost */
    if (!end(r, block) || possible) return;
    count_proof(how, given);
    if (how != PROOF_REACHED && heap_hooks->false_lost) heap_hooks->false_lost(NULL, tag & ~TAG_LOST, given, how);
}

void lost_proved(void *block, uint32_t tag, enum lost_proof how)
{
    struct record *r = find((uintptr_t)block);
    struct place p;
    if (how == PROOF_RESIZED && place_of((uintptr_t)block, &p) && p.tag) atomic_fetch_and(p.tag, ~TAG_LOST);
    if (r) prove(r, (uintptr_t)block, tag, how);
}

/* ---- applying a verdict ---- */

static bool add(const struct verdict_block *v, struct place *p, uint32_t before, uint32_t now, uint32_t number)
{
    uint32_t tag = tag_now(p), n = make_room() ? new_record() : 0;
    if (n == 0) {
        atomic_fetch_add(&unrecorded, 1);
        return false;
    }
    struct record *r = record_at(n);
    uintptr_t block = VERDICT_ADDRESS(v);
    r->hash = v->hash;
    r->given = p->given;
    r->class = (uint8_t)p->class;
    r->tag = tag & ~TAG_LOST;
    r->last_reached = before;
    r->first_missed = now;
    r->first_number = r->seen = number;
    r->misses = 1;
    r->kind = (uint8_t)VERDICT_KIND(v);
    if (r->kind != LOST_POSSIBLE) atomic_fetch_add(&of_class[p->class], 1);
    atomic_store_explicit(&r->block, block, memory_order_release);
    enter(atomic_load(&index_now), block, n);
    in_index++;
    if (make_lost(p, tag)) return true;
    end(r, block); /* freed meanwhile */
    r->link = free_records;
    free_records = n;
    return false;
}

/* Records that this collection did not confirm: the block was freed by a way that we do not see, or is reached. */
static void end_others(uint32_t number)
{
    free_records = 0;
    for (uint32_t n = 1; n < used; n++) {
        struct record *r = record_at(n);
        uint64_t block = atomic_load(&r->block);
        if (block != 0 && r->seen != number) {
            struct place p;
            bool there = place_of(block, &p) && is_old(&p) && p.tag && (atomic_load(p.tag) & TAG_LOST) &&
                         (p.large || *p.state < 0);
            if (there) {
                atomic_fetch_and(p.tag, ~TAG_LOST);
                prove(r, block, r->tag, PROOF_REACHED);
            } else end(r, block);
            block = atomic_load(&r->block);
        }
        if (block != 0) continue;
        r->link = free_records;
        free_records = n;
    }
}

static void links(const struct verdict *v, uint32_t number)
{
    for (size_t i = 0; i < v->count; i++) {
        const struct verdict_block *b = &v->block[i];
        struct record *r = find(VERDICT_ADDRESS(b));
        if (!r || r->seen != number) continue;
        if (r->kind != LOST_POSSIBLE) atomic_fetch_sub(&of_class[r->class], 1);
        r->kind = (uint8_t)VERDICT_KIND(b);
        if (r->kind != LOST_POSSIBLE) atomic_fetch_add(&of_class[r->class], 1);
        r->why = (uint8_t)VERDICT_WHY(b);
        r->hangs_bytes = b->hangs_bytes;
        r->link = b->hangs;
        if (r->kind != LOST_INDIRECT || b->head >= v->count) continue;
        r->hangs_bytes = VERDICT_ADDRESS(&v->block[b->head]); /* of these the head's address */
    }
}

uint64_t lost_apply(const struct verdict *v, uint64_t time, uint64_t before, uint32_t number, uint64_t *new_bytes)
{
    uint64_t fresh = 0;
    *new_bytes = 0;
    if (epoch == 0) epoch = before < time && before != 0 ? before : time;
    for (size_t i = 0; i < v->count; i++) {
        const struct verdict_block *b = &v->block[i];
        uintptr_t block = VERDICT_ADDRESS(b);
        struct place p;
        /* What is not old now was freed since, and perhaps allocated anew. */
        if (!place_of(block, &p) || !is_old(&p)) continue;
        struct record *r = find(block);
        if (r && (b->block & VERDICT_WRITTEN)) {
            /* Somebody has a pointer that we cannot see.  It will not be called lost again. */
            prove(r, block, r->tag, PROOF_WRITTEN);
            heap_ignore((void *)block);
            if (p.tag) atomic_fetch_and(p.tag, ~TAG_LOST);
            continue;
        }
        if (r) {
            r->misses += r->seen != number;
            r->seen = number;
            continue;
        }
        if (!add(b, &p, tick_of(before), tick_of(time), number)) continue;
        PROBE4(gleaner, lost, block, p.given, VERDICT_KIND(b), number);
        if (VERDICT_KIND(b) == LOST_POSSIBLE) continue;
        fresh++;
        *new_bytes += p.given;
    }
    if (v->truncated == 0) end_others(number);
    links(v, number);
    return fresh;
}

bool lost_hash(uintptr_t block, uint64_t *hash)
{
    struct record *r = find(block);
    if (!r) return false;
    *hash = r->hash;
    return true;
}

/* ---- looking ---- */

static bool view(const struct record *r, struct lost_view *to)
{
    uint64_t block = atomic_load_explicit(&r->block, memory_order_acquire);
    if (block == 0) return false;
    *to = (struct lost_view){
        .block = (void *)block,
        .given = r->given,
        .tag = r->tag,
        .kind = r->kind,
        .head = (void *)(r->kind == LOST_INDIRECT ? r->hangs_bytes : block),
        .hangs = r->kind == LOST_INDIRECT ? 0 : r->link,
        .hangs_bytes = r->kind == LOST_INDIRECT ? 0 : r->hangs_bytes,
        .last_reached = time_of(r->last_reached),
        .first_missed = time_of(r->first_missed),
        .first_number = r->first_number,
        .misses = r->misses,
        .why = r->why,
    };
    return true;
}

void lost_each(void (*each)(const struct lost_view *, void *user), void *user)
{
    for (uint32_t n = 1; n < used; n++) {
        struct lost_view v;
        if (view(record_at(n), &v)) each(&v, user);
    }
}

bool lost_find(const void *block, struct lost_view *to)
{
    struct record *r = find((uintptr_t)block);
    return r && view(r, to) && to->block == block;
}

void lost_totals(struct lost_totals *t)
{
    *t = (struct lost_totals){0};
    for (uint32_t n = 1; n < used; n++) {
        struct lost_view v;
        if (!view(record_at(n), &v)) continue;
        uint64_t *blocks = v.kind == LOST_DIRECT ? &t->direct : v.kind == LOST_INDIRECT ? &t->indirect : &t->possible;
        blocks[0]++;
        blocks[1] += v.given; /* the bytes follow their count */
    }
    t->lost = t->direct + t->indirect;
    t->lost_bytes = t->direct_bytes + t->indirect_bytes;
    for (unsigned i = 0; i < PROOFS; i++) {
        t->proofs[i] = atomic_load(&proofs[i]);
        t->proof_bytes[i] = atomic_load(&proof_bytes[i]);
    }
}

uint64_t lost_of_class(unsigned class) { return class < HEAP_CLASSES ? atomic_load(&of_class[class]) : 0; }

void lost_fork_child(void)
{
    for (unsigned i = 0; i < PROOFS; i++) {
        atomic_store(&proofs[i], 0);
        atomic_store(&proof_bytes[i], 0);
    }
}
