/* holders_json.c: who holds the blocks of a call stack, for scripts.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/basics.h"
#include "report/holders.h"
#include "report/output.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static json_t *number(uint64_t value)
{
    return json_integer(value <= INT64_MAX ? (json_int_t)value : INT64_MAX);
}

static json_t *text_or_null(const char *text)
{
    return text && *text ? json_string(text) : json_null();
}

static json_t *hexadecimal(uint64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "0x%" PRIx64, value);
    return json_string(text);
}

static json_t *root_of(const struct unit *unit, enum holder_how how, const struct site *frame)
{
    static const char *const kinds[AREA_KINDS] = {"stack", "tls", "module", "mapping", "kernel", "ignored"};
    const struct area *area = unit->area;
    bool thread = area->kind == AREA_FRAMES || area->kind == AREA_TLS, mapping = area->kind == AREA_MAPPING;
    json_t *to = json_object();
    char *text = holder_text(unit, how, frame);
    json_object_set_new(to, "text", json_string(text));
    free(text);
    json_object_set_new(to, "kind", json_string(how == HOW_REGISTER ? "register" : how == HOW_LEFT ? "left on stack" : kinds[area->kind]));
    json_object_set_new(to, "address", area->kind == AREA_KERNEL ? json_null() : hexadecimal(unit->at));
    json_object_set_new(to, "variable", text_or_null(unit->variable.name));
    json_object_set_new(to, "offset", unit->variable.name ? number(unit->at - unit->variable.start) : json_null());
    json_object_set_new(to, "module", text_or_null(area->module ? area->module->file : mapping ? area->name : NULL));
    json_object_set_new(to, "tid", thread ? json_integer(area->tid) : json_null());
    json_object_set_new(to, "thread", text_or_null(area->thread));
    const char *function = frame && frame->step_count && frame->steps[0].frame ? frame->steps[0].frame->function : NULL;
    json_object_set_new(to, "function", text_or_null(function));
    return to;
}

static json_t *step_of(const struct way_step *step)
{
    bool listed = step->bytes > 0;
    json_t *to = json_object();
    json_object_set_new(to, "stack", step->stack ? json_stack_of(step->stack) : json_null());
    json_object_set_new(to, "bytes", listed ? number(step->bytes) : json_null());
    json_object_set_new(to, "offset", step->offset_low < 0 ? json_null()
                                                           : json_pack("[I,I]", (json_int_t)step->offset_low,
                                                                       (json_int_t)step->offset_high));
    json_object_set_new(to, "blocks", json_pack("[o,o]", number(step->least), number(step->most)));
    return to;
}

static json_t *way_of(const struct way *way)
{
    json_t *to = json_object(), *steps = json_array();
    json_object_set_new(to, "blocks", number(way->count));
    json_object_set_new(to, "exclusive", way->has_only ? number(way->exclusive) : json_null());
    json_object_set_new(to, "root", root_of(&way->root, way->how, way->frame));
    for (size_t i = 0; i < way->step_count; i++) json_array_append_new(steps, step_of(&way->steps[i]));
    json_object_set_new(to, "through", steps);
    return to;
}

static json_t *held_of(const struct held *held)
{
    json_t *to = json_object(), *ways = json_array();
    json_object_set_new(to, "stack", held->stack ? json_stack_of(held->stack) : json_null());
    json_object_set_new(to, "sampled_live", number(held->live));
    json_object_set_new(to, "looked_at", number(held->looked_at));
    json_object_set_new(to, "unreached", number(held->unreached));
    json_object_set_new(to, "ignored", number(held->ignored));
    for (size_t i = 0; i < held->way_count; i++) json_array_append_new(ways, way_of(&held->ways[i]));
    json_object_set_new(to, "ways", ways);
    return to;
}

static json_t *whole_of(const struct unit *unit, bool alone)
{
    struct unit whole = *unit;
    whole.bytes = sizeof whole.at;
    if (whole.variable.name) whole.at = whole.variable.start;
    if (!alone) whole.variable.name = NULL;
    return root_of(&whole, HOW_WORD, NULL);
}

static json_t *retained_of(const struct retained *r)
{
    json_t *to = json_object();
    json_object_set_new(to, "root", whole_of(r->low, r->one || r->low_alone));
    json_object_set_new(to, "and", r->one ? json_null() : whole_of(r->high, r->high_alone));
    json_object_set_new(to, "objects", number(r->objects));
    json_object_set_new(to, "bytes", number(r->bytes));
    return to;
}

void holders_write_json(FILE *stream, const struct profile *profile, const struct held *const *held, size_t count, size_t top)
{
    const struct holders *h = profile->holders;
    json_t *to = json_object(), *groups = json_array(), *all = json_array();
    size_t retained_count = 0;
    struct retained *retained = h->has_shares ? holders_retained(h, &retained_count) : NULL;
    double pid = head_number(profile, "pid");
    json_object_set_new(to, "version", json_integer(1));
    json_object_set_new(to, "pid", pid > 0 ? json_integer((json_int_t)pid) : json_null());
    json_object_set_new(to, "time", profile->time ? json_real((double)profile->time / 1e9) : json_null());
    json_object_set_new(to, "complete", json_boolean(h->complete));
    json_object_set_new(to, "reached", json_pack("{s:o,s:o}", "objects", number(h->reached), "bytes", number(h->reached_bytes)));
    json_object_set_new(to, "unreached",
                        json_pack("{s:o,s:o}", "objects", number(h->unreached), "bytes", number(h->unreached_bytes)));
    for (size_t i = 0; i < count && (!top || i < top); i++) json_array_append_new(groups, held_of(held[i]));
    json_object_set_new(to, "holders", groups);
    for (size_t i = 0; i < retained_count && (!top || i < top); i++) json_array_append_new(all, retained_of(&retained[i]));
    json_object_set_new(to, "retained", h->has_shares ? all : json_null());
    if (!h->has_shares) json_decref(all);
    free(retained);
    json_dumpf(to, stream, JSON_INDENT(1));
    fputc('\n', stream);
    json_decref(to);
}
