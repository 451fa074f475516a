/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/eligible.h"
#include "heap/reclaim.h"
#include "heap/reclaim_place.h"

#define APART_MOST 10000000000u /* HAZARDS C4: at least one thread switch, or 10 s apart */

static uint32_t ticks(uint64_t ns) { return (uint32_t)(ns >> 24); }

/* A miss counts where the threads were elsewhere than at the one that counted last, or a good while later: what a register or
   a stack hid at one moment it does not hide for ever. */
static void confirm(const struct eligible_now *now, struct lost_trial *t)
{
    const struct reclaim_options *o = now->options;
    uint64_t apart = o->delay_ns / 4 < APART_MOST ? o->delay_ns / 4 : APART_MOST;
    bool other = t->confirmed == 0 || o->any_stacks || o->delay_ns == 0 || t->stacks != now->stacks ||
                 now->tick - t->confirmed_at >= ticks(apart);
    if (!other || t->confirmed == UINT8_MAX) return;
    t->confirmed++;
    t->stacks = now->stacks;
    t->confirmed_at = now->tick;
}

enum eligible_rule eligible(const struct eligible_now *now, const struct lost_record *r, struct lost_trial *t,
                            const struct verdict_block *b, bool *condemned)
{
    const struct reclaim_options *o = now->options;
    bool waits = o->delay_ns != 0;
    *condemned = false;
    confirm(now, t);
    if (r->kind == LOST_POSSIBLE) return RULE_EXOTIC;
    if (b->block & VERDICT_FREED) return RULE_FREED_MEMORY;
    if (b->hash != r->hash || (b->hash == 0 && !o->any_contents)) return RULE_CONTENTS;
    if (waits && t->confirmed < o->confirmations) return RULE_CONFIRMATIONS;
    if (waits && now->tick - r->first_missed < ticks(o->age_ns)) return RULE_AGE;
    if (waits && now->too_early) return RULE_START;
    if (t->place == 0) return RULE_NO_PLACE;
    if (t->library && !o->libraries) return RULE_LIBRARY;
    if (reclaim_place_is_vetoed(t->place)) return RULE_VETOED;
    *condemned = true;
    uint32_t first = now->tick, others = reclaim_place_condemned_before(t->place, now->number, &first);
    if (t->stage != LOST_ON_TRIAL && others > 0) others--; /* it was one of them */
    /* For as long again its place had the chance to prove one. */
    if (waits && o->trial > 0 && (others < o->trial || now->tick - first < ticks(o->delay_ns))) return RULE_TRIAL;
    return ELIGIBLE;
}
