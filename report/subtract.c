/* subtract.c: one profile minus an older one.

   1. Every step of a stack gets a key, a text that is the same in both profiles although the loader
      put the modules elsewhere; equal keys get equal numbers.
   2. A stack is the sequence of its steps' numbers, again looked up as a text, so that stacks which
      differ only in what the keys leave out fall together.
   3. Both profiles' figures are summed by stack, then subtracted.  The intervals of what changed are those of independent estimates,
      or, of live and allocated memory in two profiles of one process, narrower ones (between.h).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/subtract.h"
#include "report/basics.h"
#include "report/between.h"
#include "report/string_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct match {
    const struct site *site; /* the newer profile's where both have it */
    struct figure sums[2][MEASURES];
    struct since since[3]; /* of the newer profile */
};

struct subtraction {
    struct strings builds[2]; /* build ids of each profile's modules */
    struct strings keys, stacks;
    struct match *matches; /* by the stack's number */
    size_t match_room;
    size_t *stack_of[2]; /* the stacks' numbers by the sites' */
    char *text; /* scratch: a stack as a text */
    size_t text_room;
};

static char *key_of(const struct subtraction *with, const struct step *step)
{
    const struct place *place = step->place;
    const struct module *module = place->module;
    const char *build = module ? module->build_id : "";
    if (*build && strings_has(&with->builds[0], build) && strings_has(&with->builds[1], build)) {
        /* Inlined steps share the address; the frame's number tells them apart. */
        size_t frame = step->frame ? (size_t)(step->frame - place->frames) : 0;
        return need_text("b %s %" PRIx64 " %zu", build, place_offset(place), frame);
    }
    if (step->frame && step->frame->function)
        return need_text("f %s %s", module ? module->name : "", step->frame->function);
    return need_text("o %s %" PRIx64, module ? module->name : "", place_offset(place));
}

static size_t stack_number(struct subtraction *with, const struct site *site, bool *new)
{
    enum { DIGITS = 9 }; /* of a number in hexadecimal, with its space */
    if (site->step_count >= with->text_room / DIGITS) {
        with->text_room = (site->step_count + 1) * 2 * DIGITS;
        with->text = need_again(with->text, with->text_room, 1);
    }
    size_t length = 0;
    with->text[0] = 0;
    for (size_t i = 0; i < site->step_count; i++) {
        char *key = key_of(with, &site->steps[i]);
        uint32_t number = (uint32_t)strings_number(&with->keys, key, NULL);
        snprintf(with->text + length, with->text_room - length, "%08" PRIx32 " ", number);
        length += DIGITS;
        free(key);
    }
    return strings_number(&with->stacks, with->text, new);
}

static void add_sites(struct subtraction *with, const struct profile *profile, int side)
{
    for (size_t i = 0; i < profile->site_count; i++) {
        const struct site *site = &profile->sites[i];
        bool new;
        size_t number = stack_number(with, site, &new);
        if (new) {
            with->matches =
                need_more(with->matches, number, &with->match_room, sizeof *with->matches);
            with->matches[number] = (struct match){.site = site};
        }
        with->stack_of[side][site->number] = number;
        for (int i = 0; i < 3 && side == 1; i++)
            since_add(&with->matches[number].since[i], &site->since[i]);
        for (int measure = 0; measure < MEASURES; measure++) {
            struct figure *sum = &with->matches[number].sums[side][measure];
            sum->objects = estimate_plus(sum->objects, site->figures[measure].objects);
            sum->bytes = estimate_plus(sum->bytes, site->figures[measure].bytes);
        }
    }
}

static void subtract_totals(json_t *from, const json_t *older)
{
    static const char *const kinds[] = {"alloc",     "live",       "lost",
                                        "direct",    "indirect",   "possible", "unrecorded",
                                        "reclaimed", "false_lost", "reached_again", "quarantined"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        json_t *to = json_object_get(from, kinds[i]);
        const json_t *base = json_object_get(older, kinds[i]);
        static const char *const keys[] = {"objects", "bytes"};
        for (int j = 0; j < 2; j++) {
            json_int_t a = json_integer_value(json_object_get(to, keys[j])), difference;
            json_int_t b = json_integer_value(json_object_get(base, keys[j]));
            if (json_is_object(to) && !__builtin_sub_overflow(a, b, &difference))
                json_object_set_new(to, keys[j], json_integer(difference));
        }
    }
}

/* Gives the difference modules and places of its own, the newer profile's first, so that writers
   can number them. */
static void join_places(struct profile *to, const struct profile *newer,
                        const struct profile *older)
{
    const struct profile *const sides[2] = {newer, older};
    to->module_count = newer->module_count + older->module_count;
    to->place_count = newer->place_count + older->place_count;
    to->modules = arena_need(&to->arena, to->module_count, sizeof *to->modules);
    to->places = arena_need(&to->arena, to->place_count, sizeof *to->places);
    struct module *module = to->modules;
    struct place *place = to->places;
    for (int side = 0; side < 2; side++) {
        const struct profile *from = sides[side];
        for (size_t i = 0; i < from->place_count; i++, place++) {
            *place = from->places[i];
            if (place->module) place->module = module + (place->module - from->modules);
        }
        for (size_t i = 0; i < from->module_count; i++) *module++ = from->modules[i];
    }
}

static struct place *joined(const struct profile *to, const struct profile *newer,
                            const struct profile *older, const struct place *place)
{
    if (place >= newer->places && place < newer->places + newer->place_count)
        return to->places + (place - newer->places);
    return to->places + newer->place_count + (place - older->places);
}

static void join_stack(struct profile *to, const struct profile *newer, const struct profile *older,
                       struct site *site)
{
    struct place **stack = arena_need(&to->arena, site->depth, sizeof *stack);
    struct step *steps = arena_need(&to->arena, site->step_count, sizeof *steps);
    for (size_t i = 0; i < site->depth; i++) stack[i] = joined(to, newer, older, site->stack[i]);
    for (size_t i = 0; i < site->step_count; i++)
        steps[i] =
            (struct step){joined(to, newer, older, site->steps[i].place), site->steps[i].frame};
    site->stack = stack;
    site->steps = steps;
}

struct profile *profile_subtract(const struct profile *newer, const struct profile *older)
{
    struct subtraction with = {.text = need_array(64, 1), .text_room = 64};
    const struct profile *const sides[2] = {older, newer};
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < sides[side]->module_count; i++)
            strings_number(&with.builds[side], sides[side]->modules[i].build_id, NULL);
        with.stack_of[side] = need_array(sides[side]->site_count, sizeof *with.stack_of[side]);
    }
    add_sites(&with, newer, 1);
    add_sites(&with, older, 0);
    struct between *between = between_profiles(newer, older, with.stack_of, with.stacks.count);

    struct profile *to = need_array(1, sizeof *to);
    *to = *newer;
    to->arena = (struct arena){0};
    to->relative = true;
    to->known = NULL;
    to->lifetimes = NULL;
    to->exact = newer->exact && older->exact;
    to->parts = NULL;
    to->part_count = 0;
    to->head = json_deep_copy(newer->head);
    subtract_totals(json_object_get(to->head, "totals"), json_object_get(older->head, "totals"));
    join_places(to, newer, older);
    to->site_count = with.stacks.count;
    to->sites = arena_need(&to->arena, to->site_count, sizeof *to->sites);
    for (size_t i = 0; i < to->site_count; i++) {
        struct figure *sums = arena_need(&to->arena, 2 * MEASURES, sizeof *sums);
        memcpy(sums, with.matches[i].sums, sizeof with.matches[i].sums);
        struct site *site = &to->sites[i];
        *site = *with.matches[i].site;
        site->lifetime = NULL;
        memcpy(site->since, with.matches[i].since, sizeof site->since);
        memset(site->asked, 0, sizeof site->asked);
        join_stack(to, newer, older, site);
        site->before = sums;
        site->after = sums + MEASURES;
        for (int measure = 0; measure < MEASURES; measure++) {
            struct figure *change = &site->figures[measure];
            change->objects =
                estimate_minus(site->after[measure].objects, site->before[measure].objects);
            change->bytes = estimate_minus(site->after[measure].bytes, site->before[measure].bytes);
        }
        if (between && !between[i].unknown) {
            between_live(&site->figures[MEASURE_LIVE], &between[i], newer->period);
            between_allocated(&site->figures[MEASURE_ALLOC], &between[i], newer->period);
        }
    }
    for (int measure = 0; measure < MEASURES; measure++)
        to->has[measure] = newer->has[measure] && older->has[measure];
    free(between);
    free(with.matches);
    free(with.text);
    for (int side = 0; side < 2; side++) {
        strings_free(&with.builds[side]);
        free(with.stack_of[side]);
    }
    strings_free(&with.keys);
    strings_free(&with.stacks);
    return to;
}
