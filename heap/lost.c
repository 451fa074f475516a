/* lost.c: see lost.h.  The records lie in lost_records.h's table.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/lost.h"
#include "heap/heap.h"
#include "heap/large_table.h"
#include "heap/lost_record.h"
#include "heap/lost_records.h"
#include "heap/pool.h"
#include "heap/probes.h"
#include "heap/reclaim.h"
#include "heap/seal.h"
#include "heap/tag.h"
#include "heap/thread_heap.h"

static _Atomic uint64_t proofs[PROOFS], proof_bytes[PROOFS];
void (*lost_step)(enum lost_step);
static _Atomic uint64_t unrecorded, unrecorded_bytes; /* lost blocks of the latest verdict for which there was no memory */

static struct lost_record *find(uintptr_t block) { return lost_record_at(lost_record_find(block, 0)); }

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

/* The fast path of free looks at the state byte and clears it without a lock or a compare-and-swap: in between the block may be made lost, and then its
   record stays.  So a record is only good while both are as make_lost has left them. */
static bool is_lost(uintptr_t block)
{
    struct place p;
    return place_of(block, &p) && is_old(&p) && p.tag && (atomic_load(p.tag) & TAG_LOST) && (p.large || *p.state < 0);
}

/* It had a tag, and a free has taken that.  (Or its tag was made 0 otherwise: then it is looked at again by the next collection.) */
static bool is_being_freed(const struct place *p)
{
    return !p->large && *p->state < 0 && p->tag && atomic_load(p->tag) == 0;
}

/* The tag, where it is meant (tag.h). */
static uint32_t tag_now(const struct place *p)
{
    if (!p->tag) return 0;
    uint32_t tag = atomic_load(p->tag);
    if (p->large || *p->state < 0) return tag;
    return heap_options.watch ? tag & (TAG_CALLER | TAG_NUMBER) : 0;
}

/* False without memory. */
static bool make_tag(struct place *p)
{
    if (p->tag) return true;
    if (!pool_make_entries(p->pool)) return false;
    p->tag = &atomic_load(&p->pool->entries)[p->slot];
    return true;
}

static inline void at(enum lost_step step)
{
    if (unlikely(lost_step)) lost_step(step);
}

/* From now on a free of it takes the slow path and finds TAG_LOST.  False if it was freed meanwhile. */
static bool make_lost(struct place *p, uint32_t tag)
{
    if (p->large) return large_tag_or(p->large, TAG_LOST, LARGE_OLD);
    uint32_t seen = atomic_load(p->tag);
    if (tag_now(p) != tag || !atomic_compare_exchange_strong(p->tag, &seen, tag | TAG_LOST))
        atomic_fetch_or(p->tag, TAG_LOST); /* somebody has put an entry there (heap_retag) */
    at(LOST_TAGGED);
    int8_t was = __atomic_load_n(p->state, __ATOMIC_ACQUIRE);
    while (state_is_live(was) && (was & STATE_OLD))
        if (was < 0 || __atomic_compare_exchange_n(p->state, &was, (int8_t)(was | STATE_TRACKED), false, __ATOMIC_ACQ_REL,
                                                   __ATOMIC_ACQUIRE))
            return true;
    /* Freed meanwhile, and perhaps allocated anew, with a tag of its own. */
    atomic_fetch_and(p->tag, ~TAG_LOST);
    return false;
}

/* ---- ends ---- */

/* Who gets true has ended the record. */
static bool end(struct lost_record *r, uint64_t block)
{
    return atomic_compare_exchange_strong(&r->block, &block, 0);
}

/* Its block is not lost any more, as its state or tag says: mostly it was freed, and that free may be about to look for the record.  The record
   stays for it until the next collection. */
static void leave(struct lost_record *r, uint64_t block, uint32_t number)
{
    r->seen = number;
    atomic_compare_exchange_strong(&r->block, &block, block | LOST_LEFT);
}

bool lost_claim(uint32_t number)
{
    struct lost_record *r = lost_record_at(number);
    uint64_t block = atomic_load(&r->block);
    if (block == 0 || block & LOST_MARKS || r->kind == LOST_POSSIBLE) return false;
    return atomic_compare_exchange_strong(&r->block, &block, block | LOST_CLAIMED);
}

static void count_proof(enum lost_proof how, uint64_t given)
{
    atomic_fetch_add(&proofs[how], 1);
    atomic_fetch_add(&proof_bytes[how], given);
}

/* The bytes that the block had; 0: somebody was faster, and has ended or marked the record. */
static size_t prove(uint32_t n, uint64_t block, uint32_t tag, enum lost_proof how)
{
    struct lost_record *r = lost_record_at(n);
    const struct lost_trial *t = lost_trial_at(n);
    struct lost_trial trial = t ? *t : (struct lost_trial){0};
    uint64_t given = r->given;
    bool possible = r->kind == LOST_POSSIBLE; /* was never called lost */
    if (!end(r, block)) return 0;
    if (t) reclaim_proved(&trial, how);
    if (possible) return given;
    count_proof(how, given);
    if (how != PROOF_REACHED && heap_hooks->false_lost) heap_hooks->false_lost(NULL, tag & ~TAG_LOST, given, how);
    return given;
}

bool lost_proved(void *block, uint32_t tag, enum lost_proof how)
{
    struct place p;
    at(LOST_TAKEN);
    uint32_t n = lost_record_find((uintptr_t)block, 0);
    at(LOST_FOUND);
    size_t given = n ? prove(n, (uintptr_t)block, tag, how) : 0;
    if (given == 0) { /* a collection was faster */
        n = lost_record_find((uintptr_t)block, LOST_CLAIMED);
        if (n) {
            reclaim_proved_late(lost_trial_at(n)->place, how);
            return false;
        }
        n = lost_record_find((uintptr_t)block, LOST_LEFT);
        if (n) given = prove(n, (uintptr_t)block | LOST_LEFT, tag, how);
    }
    if (how == PROOF_RESIZED && place_of((uintptr_t)block, &p) && p.tag) atomic_fetch_and(p.tag, ~TAG_LOST);
    if (how == PROOF_FREED && given) seal_break((uintptr_t)block, given);
    return true;
}

/* Somebody has a pointer that we cannot see. */
void lost_disprove(uint32_t n, enum lost_proof how)
{
    struct lost_record *r = lost_record_at(n);
    uint64_t block = atomic_load(&r->block);
    struct place p;
    if (block == 0 || block & LOST_MARKS) return;
    bool there = place_of(block, &p);
    prove(n, block, r->tag, how);
    heap_ignore((void *)block);
    if (there && p.tag) atomic_fetch_and(p.tag, ~TAG_LOST);
}

/* ---- applying a verdict ---- */

/* `*full`: there was no memory; it is not asked for again. */
static bool add(const struct verdict_block *v, struct place *p, uint32_t before, uint32_t now, uint32_t number, bool *full)
{
    uint32_t n = *full || !make_tag(p) ? 0 : lost_record_new(), tag = tag_now(p);
    if (n == 0) {
        *full = true;
        if (VERDICT_KIND(v) == LOST_POSSIBLE) return false;
        atomic_fetch_add(&unrecorded, 1);
        atomic_fetch_add(&unrecorded_bytes, p->given);
        return false;
    }
    struct lost_record *r = lost_record_at(n);
    uintptr_t block = VERDICT_ADDRESS(v);
    if (lost_trial_at(n)) reclaim_began(lost_trial_at(n), tag & ~TAG_LOST, (void *)block);
    r->hash = v->hash;
    r->given = p->given;
    r->class = (uint8_t)p->class;
    r->tag = tag & ~TAG_LOST;
    r->last_reached = before;
    r->first_missed = now;
    r->first_number = r->seen = number;
    r->misses = 1;
    r->kind = (uint8_t)VERDICT_KIND(v);
    atomic_store_explicit(&r->block, block, memory_order_release);
    lost_record_enter(n);
    at(LOST_ENTERED);
    if (make_lost(p, tag)) {
        at(LOST_MADE);
        return true;
    }
    end(r, block); /* freed meanwhile */
    lost_record_free(n);
    return false;
}

/* Records that this collection did not confirm: the block was freed by a way that we do not see, or is reached. */
static void end_others(uint32_t number)
{
    lost_records_forget_free();
    for (uint32_t n = 1; n < lost_records_end(); n++) {
        struct lost_record *r = lost_record_at(n);
        uint64_t block = atomic_load(&r->block);
        if (block & LOST_CLAIMED || (block & LOST_LEFT && r->seen != number)) {
            atomic_store(&r->block, 0);
        } else if (block != 0 && !(block & LOST_LEFT) && r->seen != number) {
            struct place p;
            if (is_lost(block) && place_of(block, &p) && p.tag) {
                atomic_fetch_and(p.tag, ~TAG_LOST);
                prove(n, block, r->tag, PROOF_REACHED);
            } else leave(r, block, number);
        }
        if (atomic_load(&r->block) == 0) lost_record_free(n);
    }
}

static void links(const struct verdict *v, uint32_t number)
{
    for (size_t i = 0; i < v->count; i++) {
        const struct verdict_block *b = &v->block[i];
        struct lost_record *r = find(VERDICT_ADDRESS(b));
        if (!r || r->seen != number) continue;
        r->kind = (uint8_t)VERDICT_KIND(b);
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
    bool full = false;
    *new_bytes = 0;
    atomic_store(&unrecorded, v->unlisted);
    atomic_store(&unrecorded_bytes, v->unlisted_bytes);
    lost_first_time(before < time && before != 0 ? before : time);
    for (size_t i = 0; i < v->count; i++) {
        const struct verdict_block *b = &v->block[i];
        uintptr_t block = VERDICT_ADDRESS(b);
        struct place p;
        /* What is not old now was freed since, and perhaps allocated anew. */
        if (!place_of(block, &p) || !is_old(&p)) continue;
        uint32_t n = lost_record_find(block, 0);
        struct lost_record *r = lost_record_at(n);
        if (r && !is_lost(block)) { /* that of a block that was here before */
            leave(r, block, number);
            if (is_being_freed(&p)) continue;
            r = NULL;
        }
        if (r && (b->block & VERDICT_WRITTEN)) {
            lost_disprove(n, PROOF_WRITTEN);
            continue;
        }
        if (r) {
            r->misses += r->seen != number;
            r->seen = number;
            continue;
        }
        at(LOST_LOOKED_AT);
        if (!add(b, &p, lost_tick(before), lost_tick(time), number, &full)) continue;
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
    struct lost_record *r = find(block);
    if (!r) return false;
    *hash = r->hash;
    return true;
}

/* ---- looking ---- */

static bool view(uint32_t n, struct lost_view *to)
{
    const struct lost_record *r = lost_record_at(n);
    const struct lost_trial *t = lost_trial_at(n);
    uint64_t block = atomic_load_explicit(&r->block, memory_order_acquire);
    if (block == 0 || block & LOST_MARKS || !is_lost(block)) return false;
    *to = (struct lost_view){
        .block = (void *)block,
        .given = r->given,
        .tag = r->tag,
        .kind = r->kind,
        .head = (void *)(r->kind == LOST_INDIRECT ? r->hangs_bytes : block),
        .hangs = r->kind == LOST_INDIRECT ? 0 : r->link,
        .hangs_bytes = r->kind == LOST_INDIRECT ? 0 : r->hangs_bytes,
        .last_reached = lost_time(r->last_reached),
        .first_missed = lost_time(r->first_missed),
        .first_number = r->first_number,
        .misses = r->misses,
        .why = r->why,
        .rule = t ? t->rule : 0,
        .quarantined = t && t->stage == LOST_QUARANTINED,
    };
    return true;
}

void lost_each(void (*each)(const struct lost_view *, void *user), void *user)
{
    for (uint32_t n = 1; n < lost_records_end(); n++) {
        struct lost_view v;
        if (view(n, &v)) each(&v, user);
    }
}

bool lost_find(const void *block, struct lost_view *to)
{
    uint32_t n = lost_record_find((uintptr_t)block, 0);
    return n != 0 && view(n, to) && to->block == block;
}

void lost_totals(struct lost_totals *t)
{
    *t = (struct lost_totals){0};
    for (uint32_t n = 1; n < lost_records_end(); n++) {
        struct lost_view v;
        if (!view(n, &v)) continue;
        uint64_t *blocks = v.kind == LOST_DIRECT ? &t->direct : v.kind == LOST_INDIRECT ? &t->indirect : &t->possible;
        blocks[0]++;
        blocks[1] += v.given; /* the bytes follow their count */
        t->quarantined += v.quarantined;
        t->quarantined_bytes += v.quarantined ? v.given : 0;
    }
    t->lost = t->direct + t->indirect;
    t->lost_bytes = t->direct_bytes + t->indirect_bytes;
    t->unrecorded = atomic_load(&unrecorded);
    t->unrecorded_bytes = atomic_load(&unrecorded_bytes);
    for (unsigned i = 0; i < PROOFS; i++) {
        t->proofs[i] = atomic_load(&proofs[i]);
        t->proof_bytes[i] = atomic_load(&proof_bytes[i]);
    }
}

void lost_of_classes(uint64_t to[HEAP_CLASSES])
{
    for (unsigned i = 0; i < HEAP_CLASSES; i++) to[i] = 0;
    for (uint32_t n = 1; n < lost_records_end(); n++) {
        struct lost_view v;
        if (view(n, &v) && v.kind != LOST_POSSIBLE) to[lost_record_at(n)->class]++;
    }
}

void lost_fork_child(void)
{
    for (unsigned i = 0; i < PROOFS; i++) {
        atomic_store(&proofs[i], 0);
        atomic_store(&proof_bytes[i], 0);
    }
}
