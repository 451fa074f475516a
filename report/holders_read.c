/* holders_read.c: from the profile's text to the model; the text is nobody's to trust.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/basics.h"
#include "report/holders.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_LIMIT = 64 << 20, STACK_STEPS_LIMIT = 16 << 20 };

struct reading {
    struct profile *to;
    struct holders *holders;
    const struct holders_lookup *lookup;
    size_t steps;
    bool bad;
};

static void *make(struct reading *r, size_t count, size_t bytes)
{
    return arena_need(&r->to->arena, count ? count : 1, bytes);
}

/* A number that is not negative; what is missing or else is damage. */
static uint64_t whole(struct reading *r, const json_t *value)
{
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 0) r->bad = true;
    return number < 0 ? 0 : (uint64_t)number;
}

static uint64_t member(struct reading *r, const json_t *object, const char *key)
{
    return whole(r, json_object_get(object, key));
}

static uint64_t item(struct reading *r, const json_t *array, size_t index)
{
    return whole(r, json_array_get(array, index));
}

static const char *text_of(struct reading *r, const json_t *value)
{
    const char *text = json_string_value(value);
    if (!text) return NULL;
    size_t length = strlen(text);
    char *clean = clean_text(text, length), *kept = make(r, length + 1, 1);
    memcpy(kept, clean, length);
    free(clean);
    return kept;
}

/* The element of an array of the model that a number names. */
#define ELEMENT(r, array, count, number) ((number) < (count) ? &(array)[number] : ((r)->bad = true, NULL))

static void read_stacks(struct reading *r, const json_t *array)
{
    struct holders *h = r->holders;
    h->stacks = make(r, json_array_size(array), sizeof *h->stacks);
    for (size_t i = 0; i < json_array_size(array) && !r->bad; i++) {
        const json_t *ids = json_array_get(array, i);
        struct site *site = &h->stacks[h->stack_count++];
        site->stack = make(r, json_array_size(ids), sizeof *site->stack);
        for (size_t j = 0; j < json_array_size(ids) && !r->bad; j++) {
            struct place *place = r->lookup->place(r->lookup->user, item(r, ids, j));
            if (!place || (r->steps += 1 + place->frame_count) > STACK_STEPS_LIMIT) r->bad = true;
            site->stack[site->depth++] = place;
        }
        if (!site->depth) site->stack_note = "dropped";
    }
}

static void read_areas(struct reading *r, const json_t *array)
{
    static const char *const kinds[AREA_KINDS] = {"frames", "tls", "module", "mapping", "kernel", "ignored"};
    struct holders *h = r->holders;
    h->areas = make(r, json_array_size(array), sizeof *h->areas);
    for (size_t i = 0; i < json_array_size(array) && !r->bad; i++) {
        const json_t *from = json_array_get(array, i);
        const char *kind = json_string_value(json_object_get(from, "kind"));
        struct area *area = &h->areas[h->area_count++];
        for (area->kind = 0; area->kind < AREA_KINDS; area->kind++)
            if (kind && !strcmp(kind, kinds[area->kind])) break;
        switch (area->kind) {
        case AREA_TLS:
            area->tp = member(r, from, "tp");
            /* fall through */
        case AREA_FRAMES:
            area->tid = (int64_t)member(r, from, "tid");
            area->thread = text_of(r, json_object_get(from, "thread"));
            break;
        case AREA_MODULE:
            area->module = r->lookup->module(r->lookup->user, member(r, from, "mapping"));
            area->bias = member(r, from, "bias");
            r->bad |= !area->module;
            break;
        case AREA_MAPPING:
            area->from = member(r, from, "from");
            area->to = member(r, from, "to");
            area->name = text_of(r, json_object_get(from, "name"));
            break;
        case AREA_KINDS:
            r->bad = true;
            break;
        default:
            break;
        }
    }
}

static void read_units(struct reading *r, const json_t *array)
{
    struct holders *h = r->holders;
    h->units = make(r, json_array_size(array), sizeof *h->units);
    for (size_t i = 0; i < json_array_size(array) && !r->bad; i++) {
        const json_t *from = json_array_get(array, i);
        struct unit *unit = &h->units[h->unit_count++];
        unit->area = ELEMENT(r, h->areas, h->area_count, item(r, from, 0));
        unit->at = item(r, from, 1);
        unit->bytes = item(r, from, 2);
    }
}

static void read_shares(struct reading *r, const json_t *array)
{
    struct holders *h = r->holders;
    h->has_shares = json_is_array(array);
    h->shares = make(r, json_array_size(array), sizeof *h->shares);
    for (size_t i = 0; i < json_array_size(array) && !r->bad; i++) {
        const json_t *from = json_array_get(array, i);
        struct share *share = &h->shares[h->share_count++];
        share->low = ELEMENT(r, h->units, h->unit_count, item(r, from, 0));
        share->high = ELEMENT(r, h->units, h->unit_count, item(r, from, 1));
        share->objects = item(r, from, 2);
        share->bytes = item(r, from, 3);
    }
}

static const struct site *stack_at(struct reading *r, const json_t *value)
{
    json_int_t index = json_integer_value(value);
    if (json_is_integer(value) && index == -1) return NULL;
    uint64_t number = whole(r, value);
    return ELEMENT(r, r->holders->stacks, r->holders->stack_count, number);
}

/* Neighbours that were allocated alike are one step: a list's nodes.  What was left out behind the first is taken to be
   like it if what follows is. */
static void add_step(struct way *way, struct way_step step)
{
    struct way_step *last = way->step_count ? &way->steps[way->step_count - 1] : NULL;
    if (last && last->stack == step.stack && last->bytes == step.bytes && step.stack) {
        last->least = last->most += step.most;
        if (step.offset_low < last->offset_low) last->offset_low = step.offset_low;
        if (step.offset_high > last->offset_high) last->offset_high = step.offset_high;
        return;
    }
    way->steps[way->step_count++] = step;
}

static void read_steps(struct reading *r, const json_t *array, uint64_t left_out, struct way *way)
{
    size_t count = json_array_size(array);
    way->steps = make(r, count + 1, sizeof *way->steps);
    for (size_t i = 0; i < count && !r->bad; i++) {
        const json_t *from = json_array_get(array, i);
        const json_t *offset = json_array_get(from, 2);
        struct way_step step = {.stack = stack_at(r, json_array_get(from, 0)), .bytes = item(r, from, 1)};
        step.offset_low = step.offset_high = json_integer_value(offset);
        step.least = step.most = item(r, from, 3);
        if (!json_is_integer(offset) || step.offset_low < -1 || !step.most || step.most > UINT32_MAX) r->bad = true;
        struct way_step *first = way->steps;
        if (i == 1 && left_out) {
            if (first->stack && first->stack == step.stack && first->bytes == step.bytes)
                first->least = first->most += left_out;
            else
                way->steps[way->step_count++] = (struct way_step){.offset_low = -1, .offset_high = -1,
                                                                  .least = left_out, .most = left_out};
        }
        add_step(way, step);
    }
}

static void read_way(struct reading *r, const json_t *from, struct way *way)
{
    struct holders *h = r->holders;
    const json_t *only = json_object_get(from, "only"), *frame = json_object_get(from, "frame"),
                 *left_out = json_object_get(from, "left_out");
    const char *how = json_string_value(json_object_get(from, "how"));
    way->root.area = ELEMENT(r, h->areas, h->area_count, member(r, from, "area"));
    way->root.at = member(r, from, "at");
    way->root.bytes = sizeof(uint64_t);
    if (how && !strcmp(how, "register")) way->how = HOW_REGISTER;
    if (how && !strcmp(how, "left")) way->how = HOW_LEFT;
    way->count = 1;
    if (frame) {
        struct place *place = r->lookup->place(r->lookup->user, whole(r, frame));
        way->frame = make(r, 1, sizeof *way->frame);
        way->frame->stack = make(r, 1, sizeof *way->frame->stack);
        way->frame->stack[way->frame->depth++] = place;
        if (!place || (r->steps += 1 + place->frame_count) > STACK_STEPS_LIMIT) r->bad = true;
    }
    if (only) {
        way->has_only = true;
        way->low = ELEMENT(r, h->units, h->unit_count, item(r, only, 0));
        way->high = ELEMENT(r, h->units, h->unit_count, item(r, only, 1));
    }
    uint64_t between = left_out ? whole(r, left_out) : 0;
    if (between > UINT32_MAX) r->bad = true;
    if (!r->bad) read_steps(r, json_object_get(from, "steps"), between, way);
}

static void read_groups(struct reading *r, const json_t *array)
{
    struct holders *h = r->holders;
    h->held = make(r, json_array_size(array), sizeof *h->held);
    for (size_t i = 0; i < json_array_size(array) && !r->bad; i++) {
        const json_t *from = json_array_get(array, i), *ways = json_object_get(from, "ways");
        struct held *held = &h->held[h->held_count++];
        held->stack = stack_at(r, json_object_get(from, "stack"));
        held->live = member(r, from, "live");
        held->unreached = member(r, from, "unreached");
        held->ignored = member(r, from, "ignored");
        held->looked_at = json_array_size(ways) + held->unreached + held->ignored;
        held->ways = make(r, json_array_size(ways), sizeof *held->ways);
        for (size_t j = 0; j < json_array_size(ways) && !r->bad; j++)
            read_way(r, json_array_get(ways, j), &held->ways[held->way_count++]);
    }
}

static void read_all(struct reading *r, const json_t *from)
{
    struct holders *h = r->holders;
    h->why_not = text_of(r, json_object_get(from, "why_not"));
    if (h->why_not) return;
    const json_t *reached = json_object_get(from, "reached"), *unreached = json_object_get(from, "unreached");
    h->complete = json_is_true(json_object_get(from, "complete"));
    h->reached = member(r, reached, "objects");
    h->reached_bytes = member(r, reached, "bytes");
    h->unreached = member(r, unreached, "objects");
    h->unreached_bytes = member(r, unreached, "bytes");
    read_stacks(r, json_object_get(from, "stacks"));
    read_areas(r, json_object_get(from, "areas"));
    read_units(r, json_object_get(from, "units"));
    read_shares(r, json_object_get(from, "shares"));
    read_groups(r, json_object_get(from, "groups"));
}

bool holders_parse(struct profile *to, const char *text, const struct holders_lookup *lookup, char problem[PROBLEM_BYTES])
{
    json_error_t error;
    json_t *from = strnlen(text, TEXT_LIMIT) < TEXT_LIMIT ? json_loads(text, 0, &error) : NULL;
    struct reading r = {.to = to, .lookup = lookup, .bad = !json_is_object(from)};
    r.holders = make(&r, 1, sizeof *r.holders);
    json_int_t version = json_integer_value(json_object_get(from, "version"));
    if (!r.bad && version == 1) read_all(&r, from);
    json_decref(from);
    if (r.bad)
        snprintf(problem, PROBLEM_BYTES, "is damaged or cut short (who holds what)");
    else if (version == 1)
        to->holders = r.holders; /* of another version: as if there were none */
    return !r.bad;
}
