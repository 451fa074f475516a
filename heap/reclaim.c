/* reclaim.c: see reclaim.h.  One cycle works on three arrays of its own: the record and the rule of each block of the verdict, and a sum
   for each island, at the index of its lowest block.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/reclaim.h"
#include "heap/heap.h"
#include "heap/os.h"
#include "heap/probes.h"
#include "heap/quarantine.h"
#include "heap/reclaim_place.h"
#include "heap/reclaimed.h"
#include "heap/seal.h"
#include "heap/stats.h"
#include "heap/thread_heap.h"

#define BUDGET_LEAST (4 * MIB) /* bytes a collection, however small the heap is */

static struct reclaim_options options;
static bool started;
static uint64_t started_at;
static _Atomic(const char *) off_why;
static _Atomic uint64_t reclaimed, reclaimed_bytes, vetoes, vetoes_after, late;
static _Atomic uint64_t of_class[HEAP_CLASSES], bytes_of_class[HEAP_CLASSES];
static atomic_bool any; /* a block was reclaimed, in this process or the one that it was forked from */
static struct {
    _Atomic uint64_t blocks, bytes;
} rules[ELIGIBLE_RULES];

void reclaim_start(const struct reclaim_options *o)
{
    options = *o;
    started = true;
    started_at = os_realtime();
    lost_records_with_trials();
    if (options.seal) seal_start();
}

void reclaim_stop(const char *why)
{
    const char *none = NULL;
    if (!started || !atomic_compare_exchange_strong(&off_why, &none, why)) return;
    if (heap_hooks->reclaim_off) heap_hooks->reclaim_off(why);
}

bool reclaim_is_on(void) { return started && !atomic_load(&off_why); }

/* ---- proofs ---- */

void reclaim_began(struct lost_trial *t, uint32_t tag, const void *block)
{
    uint32_t caller = 0;
    bool library = false;
    *t = (struct lost_trial){0};
    if (!heap_hooks->place) return;
    uint32_t place = heap_hooks->place(tag, block, &caller, &library);
    t->library = library;
    if (caller != 0 && caller != place) reclaim_place_know(caller, caller);
    if (reclaim_place_know(place, caller)) t->place = place;
}

static void veto(uint32_t place, enum lost_proof how, bool condemned, const char *why)
{
    reclaim_place_veto(place);
    if (heap_hooks->vetoed) heap_hooks->vetoed(heap_tls.heap ? &heap_tls.heap->hook : NULL, place, how);
    if (!condemned) return;
    atomic_fetch_add(&vetoes, 1);
    if (!atomic_load(&any)) return;
    atomic_fetch_add(&vetoes_after, 1);
    reclaim_stop(why);
}

/* What is reached again was perhaps only a stale word's, and begins anew; what the program uses it had a pointer to. */
void reclaim_proved(const struct lost_trial *t, enum lost_proof how)
{
    if (how != PROOF_REACHED) veto(t->place, how, t->stage != LOST_ON_TRIAL, "the program has used a block that was about to be reclaimed");
}

void reclaim_proved_late(uint32_t place, enum lost_proof how)
{
    atomic_fetch_add(&late, 1);
    veto(place, how, true, "the program has freed a block that was reclaimed before; the call was ignored");
}

/* ---- a cycle ---- */

struct island {
    uint64_t bytes;
    uint32_t blocks, quarantined;
    uint8_t rule; /* the first that keeps one of its blocks; ELIGIBLE: none */
};

struct cycle {
    const struct verdict *verdict;
    struct eligible_now now;
    uint32_t *record; /* of each block of the list; 0: none */
    uint8_t *rule;
    struct island *island;
    uint64_t budget; /* bytes left */
    bool spent;
    struct reclaim_did *did;
};

static size_t island_of(const struct cycle *c, size_t i)
{
    uint32_t of = c->verdict->block[i].island;
    return of < c->verdict->count ? of : i; /* the list lacks its lowest block, then others, too, and blocks < island_blocks */
}

static void judge(struct cycle *c, size_t i)
{
    const struct verdict_block *b = &c->verdict->block[i];
    uint32_t n = lost_record_find(VERDICT_ADDRESS(b), 0);
    struct lost_record *r = lost_record_at(n);
    struct lost_trial *t = lost_trial_at(n);
    struct island *of = &c->island[island_of(c, i)];
    bool condemned = false;
    enum eligible_rule rule = RULE_GROUP; /* freed since the cut, or there was no memory for a record */
    if (r && t && r->seen == c->now.number) {
        c->record[i] = n;
        rule = atomic_load(&off_why) ? RULE_OFF : eligible(&c->now, r, t, b, &condemned);
        if (condemned && t->stage == LOST_ON_TRIAL) {
            t->stage = LOST_CONDEMNED;
            reclaim_place_condemn(t->place, c->now.number, c->now.tick);
        }
        of->bytes += r->given;
        of->quarantined += t->stage == LOST_QUARANTINED;
    }
    c->rule[i] = (uint8_t)rule;
    of->blocks++;
    if (rule != ELIGIBLE && of->rule == ELIGIBLE) of->rule = (uint8_t)rule;
}

static void count_reclaimed(const struct lost_record *r, const struct lost_trial *t, size_t given, struct reclaim_did *did)
{
    atomic_fetch_add(&reclaimed, 1);
    atomic_fetch_add(&reclaimed_bytes, given);
    atomic_fetch_add(&of_class[r->class], 1);
    atomic_fetch_add(&bytes_of_class[r->class], given);
    reclaim_place_reclaimed(t->place, given);
    did->reclaimed++;
    did->reclaimed_bytes += given;
}

/* All blocks of an island passed the quarantine.  Contents first: a write to one speaks for all. */
static enum eligible_rule look_again(struct cycle *c, size_t i)
{
    const struct lost_record *r = lost_record_at(c->record[i]);
    uint64_t block = atomic_load(&r->block);
    if (block == 0 || block & LOST_MARKS) return RULE_GROUP; /* freed since the cut */
    if (lost_trial_at(c->record[i])->sealed && seal_is_doubtful()) return RULE_CONTENTS;
    return quarantine_is_unchanged(block, r->given, r->hash) ? ELIGIBLE : RULE_CONTENTS;
}

static void reclaim(struct cycle *c, size_t i)
{
    size_t given;
    uint32_t n = c->record[i];
    const struct lost_record *r = lost_record_at(n);
    const struct lost_trial *t = lost_trial_at(n);
    if (!reclaim_is_on()) return; /* a veto came meanwhile */
    uint64_t block = atomic_load(&r->block);
    atomic_store(&any, true);
    if (!quarantine_reuse(n, &given)) return;
    PROBE3(gleaner, reclaimed, block, given, c->now.number);
    count_reclaimed(r, t, given, c->did);
}

/* The islands' lots, by their lowest blocks, at each block of theirs. */
static void decide(struct cycle *c, size_t i)
{
    struct island *of = &c->island[island_of(c, i)];
    uint32_t n = c->record[i];
    struct lost_trial *t = n ? lost_trial_at(n) : NULL;
    bool whole = of->blocks == c->verdict->block[i].island_blocks;
    if (!t) return;
    if (of->rule == ELIGIBLE && whole && of->quarantined == of->blocks) {
        reclaim(c, i);
        return;
    }
    if (c->rule[i] == ELIGIBLE && (of->rule != ELIGIBLE || !whole)) c->rule[i] = of->rule == RULE_BUDGET ? RULE_BUDGET : RULE_GROUP;
    if (c->rule[i] != ELIGIBLE) {
        if (t->stage == LOST_QUARANTINED) t->stage = LOST_CONDEMNED;
        t->sealed = t->sealed_whole = t->changed = false;
    } else if (t->stage != LOST_QUARANTINED) {
        t->stage = LOST_QUARANTINED;
        c->did->quarantined++;
        c->did->quarantined_bytes += lost_record_at(n)->given;
    }
    t->rule = c->rule[i];
}

/* What is quarantined anew must fit in the budget; the first island always does. */
static void spend(struct cycle *c, size_t i)
{
    struct island *of = &c->island[i];
    if (of->blocks == 0 || of->rule != ELIGIBLE || of->quarantined == of->blocks) return;
    if (of->bytes > c->budget && c->spent) {
        of->rule = RULE_BUDGET;
        return;
    }
    c->budget -= of->bytes < c->budget ? of->bytes : c->budget;
    c->spent = true;
}

static uint64_t budget_now(bool waits, bool tight)
{
    uint64_t live = (uint64_t)atomic_load(&heap_taken_bytes), share = live / 100 * options.share;
    if (tight && share < live / 2) share = live / 2;
    if (!waits) return UINT64_MAX;
    return share > BUDGET_LEAST ? share : BUDGET_LEAST;
}

static void sum_up(const struct cycle *c)
{
    struct {
        uint64_t blocks, bytes;
    } sum[ELIGIBLE_RULES] = {{0, 0}};
    for (size_t i = 0; i < c->verdict->count; i++) {
        const struct lost_record *r = lost_record_at(c->record[i]);
        uint64_t block = r ? atomic_load(&r->block) : 0;
        if (block == 0 || block & LOST_MARKS) continue;
        sum[c->rule[i]].blocks++;
        sum[c->rule[i]].bytes += r->given;
    }
    for (unsigned i = 0; i < ELIGIBLE_RULES; i++) {
        atomic_store(&rules[i].blocks, sum[i].blocks);
        atomic_store(&rules[i].bytes, sum[i].bytes);
    }
}

/* Nothing is lost any more. */
static void forget_rules(void)
{
    for (unsigned i = 0; i < ELIGIBLE_RULES; i++) {
        atomic_store(&rules[i].blocks, 0);
        atomic_store(&rules[i].bytes, 0);
    }
}

void reclaim_cycle(const struct verdict *v, uint64_t time, uint32_t number, bool tight, struct reclaim_did *did)
{
    *did = (struct reclaim_did){0};
    if (!started) return;
    if (v->count == 0) forget_rules();
    if (!v->islands) return;
    if (v->rings) reclaim_stop("the process uses io_uring or kernel AIO, which hide pointers");
    bool waits = options.delay_ns != 0;
    struct cycle c = {.verdict = v, .did = did, .budget = budget_now(waits, tight)};
    c.now = (struct eligible_now){.options = &options, .tick = lost_tick(time), .number = number, .stacks = v->stacks,
                                  .too_early = time < started_at + options.delay_ns};
    size_t n = v->count + 1, bytes = round_up(n * (sizeof *c.island + sizeof *c.record + 1), OS_PAGE);
    char *memory = os_map(bytes);
    if (!memory) return;
    c.island = (struct island *)(void *)memory;
    c.record = (uint32_t *)(void *)(c.island + n);
    c.rule = (uint8_t *)(c.record + n);
    seal_prove();
    for (size_t i = 0; i < v->count; i++) judge(&c, i);
    for (size_t i = 0; i < v->count; i++) {
        struct island *of = &c.island[island_of(&c, i)];
        if (of->rule != ELIGIBLE || of->quarantined < of->blocks) continue;
        enum eligible_rule rule = look_again(&c, i);
        if (rule == ELIGIBLE) continue;
        c.rule[i] = (uint8_t)rule;
        of->rule = (uint8_t)rule;
    }
    for (size_t i = 0; i < v->count; i++) spend(&c, i);
    for (size_t i = 0; i < v->count; i++) decide(&c, i);
    sum_up(&c);
    os_unmap(memory, bytes);
}

/* ---- figures ---- */

void reclaim_figures(struct reclaim_figures *f)
{
    *f = (struct reclaim_figures){.started = started,
                                  .off_why = atomic_load(&off_why),
                                  .reclaimed = atomic_load(&reclaimed),
                                  .reclaimed_bytes = atomic_load(&reclaimed_bytes),
                                  .vetoes = atomic_load(&vetoes),
                                  .vetoes_after = atomic_load(&vetoes_after),
                                  .late = atomic_load(&late)};
    struct seal_figures seals;
    seal_figures(&seals);
    f->sealed_bytes = seals.bytes;
    f->sealed_ever = seals.sealed;
    for (unsigned i = 0; i < ELIGIBLE_RULES; i++) {
        f->rule[i].blocks = atomic_load(&rules[i].blocks);
        f->rule[i].bytes = atomic_load(&rules[i].bytes);
    }
}

void reclaim_of_class(unsigned class, uint64_t *blocks, uint64_t *bytes)
{
    *blocks = class < HEAP_CLASSES ? atomic_load(&of_class[class]) : 0;
    *bytes = class < HEAP_CLASSES ? atomic_load(&bytes_of_class[class]) : 0;
}

void reclaim_fork_child(void)
{
    _Atomic uint64_t *zero[] = {&reclaimed, &reclaimed_bytes, &vetoes, &vetoes_after, &late};
    for (unsigned i = 0; i < sizeof zero / sizeof *zero; i++) atomic_store(zero[i], 0);
    for (unsigned i = 0; i < HEAP_CLASSES; i++) {
        atomic_store(&of_class[i], 0);
        atomic_store(&bytes_of_class[i], 0);
    }
    reclaim_place_fork_child();
    seal_doubt(); /* the child has none of the page tables' entries that tell */
}
