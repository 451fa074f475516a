/* lost_row.c: what the samples of lost blocks say, and the sites' figures that follow from them.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/lost_row.h"
#include "report/basics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const form_names[FORMS] = {"narrow", "before", "past_end", "misaligned"};

const char *const rule_texts[ELIGIBLE_RULES] = {
    [ELIGIBLE] = "in quarantine",
    [RULE_EXOTIC] = "an unusual form of pointer may reach it",
    [RULE_FREED_MEMORY] = "freed memory, or a dead stack, points to it",
    [RULE_CONTENTS] = "its contents change, or cannot be looked at",
    [RULE_CONFIRMATIONS] = "too few collections have missed it",
    [RULE_AGE] = "lost for too short a time",
    [RULE_START] = "the process is too young",
    [RULE_NO_PLACE] = "it is not known who allocated it",
    [RULE_LIBRARY] = "allocated by the C library, the loader, or a library that hides pointers",
    [RULE_VETOED] = "a block from there was proven not to be lost",
    [RULE_TRIAL] = "its call stack is still on trial",
    [RULE_GROUP] = "a block that is connected with it must stay",
    [RULE_BUDGET] = "enough was taken by one collection",
    [RULE_OFF] = "reclaim is off",
};

void lost_row_add_rule(struct labels *labels, const char *name)
{
    for (int rule = 0; rule < ELIGIBLE_RULES; rule++)
        if (!strcmp(name, eligible_names[rule])) labels->rules |= 1u << rule;
}

static enum measure kind_of(const char *text)
{
    static const struct {
        const char *text;
        enum measure kind;
    } kinds[] = {{"direct", MEASURE_DIRECT},
                 {"indirect", MEASURE_INDIRECT},
                 {"possible", MEASURE_POSSIBLE},
                 {"false", MEASURE_FALSE},
                 {"reclaimed", MEASURE_RECLAIMED},
                 {"proof", MEASURE_PROOF}};
    for (size_t i = 0; text && i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(text, kinds[i].text)) return kinds[i].kind;
    return MEASURE_LOST;
}

/* Limits that do not hold the figure are nobody's. */
static struct estimate limited(int64_t value, int64_t low, int64_t high, bool estimated, bool known)
{
    struct estimate e = exactly((double)value);
    if (!known || (estimated && (low > value || high < value)))
        e.lo = e.hi = NAN;
    else if (estimated)
        e.lo = (double)low, e.hi = (double)high;
    return e;
}

struct lost_row *lost_row(struct profile *to, const struct labels *labels, const int64_t values[2])
{
    bool ours = to->ours && labels->lost;
    if (!ours && !values[0] && !values[1]) return NULL;
    struct lost_row *row = arena_need(&to->arena, 1, sizeof *row);
    row->kind = ours ? kind_of(labels->lost) : MEASURE_LOST;
    bool in_labels = row->kind >= MEASURE_POSSIBLE;
    bool estimated = labels->objects_high > 0 || labels->bytes_high > 0;
    row->figure.objects = limited(in_labels ? labels->lost_objects : values[0], labels->objects_low,
                                  labels->objects_high, estimated, ours || to->exact);
    row->figure.bytes = limited(in_labels ? labels->lost_bytes : values[1], labels->bytes_low,
                                labels->bytes_high, estimated, ours || to->exact);
    if (!ours) return row;
    row->since = (struct since){labels->last_reached, labels->first_missed, labels->last_missed,
                                labels->misses};
    for (int form = 0; labels->why && form < FORMS; form++)
        if (!strcmp(labels->why, form_names[form])) row->forms = 1u << form;
    row->rules = labels->rules;
    row->asked = labels->asked;
    row->hangs_objects = labels->hangs_objects;
    row->hangs_bytes = labels->hangs_bytes;
    row->number = (uint64_t)labels->site;
    row->head = (uint64_t)labels->head;
    return row;
}

static void earlier(int64_t *to, int64_t time)
{
    if (time > 0 && (*to == 0 || time < *to)) *to = time;
}

void since_add(struct since *to, const struct since *more)
{
    earlier(&to->last_reached, more->last_reached);
    earlier(&to->first_missed, more->first_missed);
    if (more->last_missed > to->last_missed) to->last_missed = more->last_missed;
    if (more->misses > to->misses) to->misses = more->misses;
}

static void figure_add(struct figure *to, struct figure more)
{
    to->objects = estimate_plus(to->objects, more.objects);
    to->bytes = estimate_plus(to->bytes, more.bytes);
}

static void add_row(struct site *site, const struct lost_row *row)
{
    figure_add(&site->figures[row->kind], row->figure);
    if (row->kind >= MEASURE_FALSE || row->kind == MEASURE_LOST) return;
    int which = row->kind - MEASURE_DIRECT;
    since_add(&site->since[which], &row->since);
    site->asked[which] += row->asked > 0 ? (double)row->asked : NAN;
    site->forms |= row->forms;
    site->rules |= row->rules;
    if (row->kind == MEASURE_POSSIBLE) return;
    figure_add(&site->figures[MEASURE_LOST], row->figure);
    figure_add(&site->figures[MEASURE_HANGING], (struct figure){exactly((double)row->hangs_objects),
                                                                exactly((double)row->hangs_bytes)});
}

void model_sum_lost(struct profile *profile)
{
    struct site **at = need_array(profile->site_count, sizeof *at);
    for (size_t i = 0; i < profile->site_count; i++) {
        struct site *site = &profile->sites[i];
        at[site->number] = site;
        for (int measure = MEASURE_LOST; measure < MEASURES; measure++)
            site->figures[measure] = (struct figure){exactly(0), exactly(0)};
        memset(site->since, 0, sizeof site->since);
        memset(site->asked, 0, sizeof site->asked);
        site->forms = site->rules = 0;
    }
    for (size_t i = 0; i < profile->part_count; i++) {
        const struct part *part = &profile->parts[i];
        if (part->lost && !part->lost->suppressed) add_row(at[part->site], part->lost);
    }
    free(at);
}

bool profile_collected(const struct profile *profile)
{
    return head_number(profile, "collections.major") > 0;
}
