/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/seal_stop.h"
#include "heap/remember.h"
#include "heap/seal.h"
#include "preload/stop.h"

struct work {
    enum present_way at_best;
    bool more;
};

static void look(const struct stop_result *result, void *argument)
{
    const enum present_way *at_best = argument;
    if (result->complete) seal_look(*at_best);
    else seal_doubt();
}

void seal_stop_look(enum present_way at_best)
{
    if (!seal_any()) return;
    if (!stop_world(&(struct stop_job){.inside = look, .argument = &at_best, .deep = true})) seal_doubt();
}

static void renew(const struct stop_result *result, void *argument)
{
    struct work *w = argument;
    struct present present;
    w->more = false;
    if (!result->complete) return;
    present_start(&present, w->at_best);
    w->more = seal_renew(&present);
    present_end(&present);
}

void seal_stop_renew(enum present_way at_best, bool tight)
{
    struct work w = {.at_best = at_best};
    w.more = seal_plan(!tight);
    while (w.more && stop_world(&(struct stop_job){.inside = renew, .argument = &w, .deep = true, .keep = (unsigned)(remember_descriptor() + 1)})) continue;
    seal_plan_end();
}
