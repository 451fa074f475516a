/* json.c: the report for scripts.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/basics.h"
#include "report/json_parts.h"
#include "report/output.h"
#include "sampler/suppressions.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What a profile of ours may bring along, in the schema's order. */
static const char *const head_keys[] = {"version",    "pid",          "parent", "command",
                                        "executable", "host",         "reason", "time",
                                        "start_time", "sample_bytes", "lambda", "totals",
                                        "classes",    "collections",  "memory", "sampler",
                                        "reclaim"};
static const char *const total_keys[] = {"alloc",    "live",      "lost",      "indirect",
                                         "possible", "unrecorded", "reclaimed", "false_lost"};

json_t *json_whole(double value)
{
    return json_integer((json_int_t)llround(fmin(fmax(value, -9e18), 9e18)));
}

static json_t *text_or_null(const char *text)
{
    return text && *text ? json_string(text) : json_null();
}

void json_estimate(json_t *to, const char *key, struct estimate estimate)
{
    json_object_set_new(to, key, json_whole(estimate.value));
    if (!is_estimated(estimate)) return;
    char interval[32];
    snprintf(interval, sizeof interval, "%s_ci95", key);
    json_object_set_new(to, interval,
                        isnan(estimate.lo)
                            ? json_null()
                            : json_pack("[o,o]", json_whole(estimate.lo), json_whole(estimate.hi)));
}

/* What the profile does not know is null, never zero. */
static json_t *figure_of(const struct profile *profile, const struct site *site,
                         enum measure measure)
{
    const struct figure *figure = &site->figures[measure];
    if (!profile->has[measure]) return json_pack("{s:n,s:n}", "objects", "bytes");
    json_t *to = json_object();
    json_estimate(to, "objects", figure->objects);
    json_estimate(to, "bytes", figure->bytes);
    return to;
}

static json_t *step_of(const struct step *step)
{
    const struct place *place = step->place;
    const struct frame *frame = step->frame;
    char address[32], offset[32];
    snprintf(address, sizeof address, "0x%" PRIx64, place->address);
    snprintf(offset, sizeof offset, "0x%" PRIx64, place_offset(place));
    json_t *to = json_object();
    json_object_set_new(to, "function", text_or_null(frame ? frame->function : NULL));
    json_object_set_new(to, "file", text_or_null(frame ? frame->file : NULL));
    json_object_set_new(to, "line", frame && frame->line ? json_integer(frame->line) : json_null());
    json_object_set_new(to, "module", text_or_null(place->module ? place->module->file : NULL));
    json_object_set_new(to, "address", json_string(address));
    json_object_set_new(to, "offset", place->module ? json_string(offset) : json_null());
    return to;
}

/* Seconds since 1970. */
static json_t *time_or_null(int64_t nanoseconds)
{
    return nanoseconds > 0 ? json_real((double)nanoseconds / 1e9) : json_null();
}

static json_t *lost_of(const struct profile *profile, const struct site *site)
{
    static const struct {
        enum measure measure;
        const char *objects, *bytes;
    } parts[] = {{MEASURE_DIRECT, "direct_objects", "direct_bytes"},
                 {MEASURE_INDIRECT, "indirect_objects", "indirect_bytes"},
                 {MEASURE_HANGING, "hanging_objects", "hanging_bytes"}};
    json_t *to = figure_of(profile, site, MEASURE_LOST);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const struct figure *figure = &site->figures[parts[i].measure];
        if (profile->has[parts[i].measure]) {
            json_estimate(to, parts[i].objects, figure->objects);
            json_estimate(to, parts[i].bytes, figure->bytes);
        } else {
            json_object_set_new(to, parts[i].objects, json_null());
            json_object_set_new(to, parts[i].bytes, json_null());
        }
    }
    struct since since = {0};
    since_add(&since, &site->since[0]);
    since_add(&since, &site->since[1]);
    double asked = site->asked[0] + site->asked[1];
    json_object_set_new(to, "asked_bytes", asked > 0 ? json_whole(asked) : json_null());
    json_object_set_new(to, "misses", json_integer(since.misses));
    json_t *rules = json_array();
    for (int rule = 0; rule < ELIGIBLE_RULES; rule++)
        if (site->rules >> rule & 1) json_array_append_new(rules, json_string(eligible_names[rule]));
    json_object_set_new(to, "not_reclaimed", rules);
    json_object_set_new(to, "first_seen", time_or_null(since.first_missed));
    json_object_set_new(
        to, "between",
        since.first_missed > 0
            ? json_pack("[o,o]", time_or_null(since.last_reached), time_or_null(since.last_missed))
            : json_null());
    return to;
}

json_t *json_stack_of(const struct site *site)
{
    json_t *stack = json_array();
    for (size_t i = 0; i < site->step_count; i++)
        json_array_append_new(stack, step_of(&site->steps[i]));
    return stack;
}

static json_t *site_of(const struct profile *profile, const struct site *site)
{
    json_t *to = json_object();
    json_object_set_new(to, "stack", json_stack_of(site));
    json_object_set_new(to, "stack_note", text_or_null(site->stack_note));
    json_object_set_new(to, "source", text_or_null(site->source));
    json_object_set_new(to, "alloc", figure_of(profile, site, MEASURE_ALLOC));
    json_object_set_new(to, "live", figure_of(profile, site, MEASURE_LIVE));
    json_object_set_new(to, "peak", figure_of(profile, site, MEASURE_PEAK));
    json_object_set_new(to, "lost", lost_of(profile, site));
    json_t *possible = figure_of(profile, site, MEASURE_POSSIBLE), *forms = json_array();
    for (int form = 0; form < FORMS; form++)
        if (site->forms >> form & 1) json_array_append_new(forms, json_string(form_names[form]));
    json_object_set_new(possible, "why", forms);
    json_object_set_new(to, "possible", possible);
    json_object_set_new(to, "reclaimed", figure_of(profile, site, MEASURE_RECLAIMED));
    json_object_set_new(to, "false_lost", figure_of(profile, site, MEASURE_FALSE));
    json_object_set_new(to, "lifetime", lifetime_json(profile, site));
    return to;
}

/* Other producers' profiles lack the head. */
static void complete_head(json_t *to, const struct profile *profile)
{
    json_t *totals = json_object_get(to, "totals");
    if (!json_is_object(totals)) {
        totals = json_object();
        json_object_set_new(to, "totals", totals);
    }
    for (size_t i = 0; i < sizeof total_keys / sizeof *total_keys; i++)
        if (!json_object_get(totals, total_keys[i]))
            json_object_set_new(totals, total_keys[i], json_pack("{s:n,s:n}", "objects", "bytes"));
    if (!json_object_get(totals, "peak"))
        json_object_set_new(totals, "peak", json_pack("{s:n,s:n}", "bytes", "time"));
    if (!json_object_get(to, "classes")) json_object_set_new(to, "classes", json_array());
    if (!json_object_get(to, "collections"))
        json_object_set_new(to, "collections",
                            json_pack("{s:i,s:i,s:i,s:i}", "minor", 0, "major", 0, "incomplete", 0,
                                      "promoted_bytes", 0));
    if (!json_object_get(to, "memory")) json_object_set_new(to, "memory", json_object());
    if (!json_object_get(to, "sample_bytes"))
        json_object_set_new(to, "sample_bytes",
                            profile->period ? json_integer(profile->period) : json_null());
    if (!json_object_get(to, "time"))
        json_object_set_new(to, "time", /* seconds since 1970 */
                            profile->time ? json_real((double)profile->time / 1e9) : json_null());
    if (!json_object_get(to, "pid")) json_object_set_new(to, "pid", json_null());
    if (!json_object_get(to, "command"))
        json_object_set_new(to, "command",
                            text_or_null(profile->module_count ? profile->modules[0].file : NULL));
}

/* Patterns that matched, with what they hid. */
static json_t *suppressed(const struct suppressions *known)
{
    json_t *to = json_array();
    for (unsigned i = 0; i < suppressions_total(known); i++) {
        uint64_t blocks, bytes;
        const char *pattern = suppressions_pattern(known, i, &blocks, &bytes);
        if (!blocks) continue;
        char *clean = clean_text(pattern, strlen(pattern));
        json_array_append_new(to, json_pack("{s:s,s:I,s:I}", "template", clean, "objects",
                                            (json_int_t)blocks, "bytes", (json_int_t)bytes));
        free(clean);
    }
    return to;
}

void json_write(FILE *stream, const struct profile *profile, const char *shown, size_t top)
{
    json_t *to = json_object();
    json_object_set_new(to, "version", json_integer(1));
    for (size_t i = 0; i < sizeof head_keys / sizeof *head_keys; i++) {
        json_t *value = json_object_get(profile->head, head_keys[i]);
        if (value) json_object_set(to, head_keys[i], value);
    }
    complete_head(to, profile);
    json_object_set_new(to, "exact", json_boolean(profile->exact));
    json_object_set_new(to, "shown", json_string(shown));
    json_object_set_new(to, "observed", lifetime_observed_json(profile));
    json_object_set_new(to, "difference", json_boolean(profile->relative));
    if (profile->known) json_object_set_new(to, "suppressed", suppressed(profile->known));
    json_t *sites = json_array();
    for (size_t i = 0; i < profile->site_count && (!top || i < top); i++)
        json_array_append_new(sites, site_of(profile, &profile->sites[i]));
    json_object_set_new(to, "sites", sites);
    json_dumpf(to, stream, JSON_INDENT(1));
    fputc('\n', stream);
    json_decref(to);
}
