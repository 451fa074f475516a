/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/reclaim_rules.h"
#include "heap/reclaim.h"

#define EVERY_MOST 15000000000u
#define EVERY_LEAST 250000000u
#define EVERY_WITHOUT_DELAY 1000000000u

uint64_t reclaim_rules_start(const struct config *c)
{
    const struct reclaim_options options = {
        .delay_ns = c->reclaim_delay_ns,
        .age_ns = c->reclaim_age_ns == UINT64_MAX ? c->reclaim_delay_ns : c->reclaim_age_ns,
        .confirmations = c->reclaim_confirmations,
        .trial = c->reclaim_trial,
        .share = c->reclaim_share,
        .any_stacks = !c->reclaim_stacks,
        .any_contents = !c->reclaim_contents,
        .libraries = c->reclaim_libraries,
        .seal = c->reclaim_seal,
    };
    reclaim_start(&options);
    if (options.delay_ns == 0) return EVERY_WITHOUT_DELAY;
    uint64_t every = options.delay_ns / 4; /* so that the confirmations fit into it */
    return every < EVERY_LEAST ? EVERY_LEAST : every > EVERY_MOST ? EVERY_MOST : every;
}
