/* profile_lost.c: samples of lost blocks.  Each has one label `lost` that says how, so that pprof can tell the kinds apart
   (-tagfocus, -tagroot), and is one of lost_sites.h's figures.  Its values but those of lost blocks are zero: what was allocated there,
   and lives, is in the samples of profile.c.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/caller.h"
#include "heap/reclaim_place.h"
#include "heap/vet.h"
#include "sampler/false_lost.h"
#include "sampler/module.h"
#include "sampler/profile_writer.h"
#include "sampler/reclaim_sites.h"
#include "sampler/site.h"

/* The latest module around an address.  Nothing was noted when the block was allocated: the loader is asked where that takes no lock,
   else what stacks have brought to light must do. */
static uint32_t module_around(uintptr_t address)
{
    for (uint32_t number = module_count(); number > 0; number--) {
        const struct module *m = module_get(number);
        if (m && address >= m->start && address < m->end) return number;
    }
    return module_lock_free() ? module_of(address) : 0;
}

struct row {
    struct lost_place place;
    uint32_t stack;          /* not 0: of the place, which has no site */
    unsigned kind;           /* string */
    uint64_t objects, bytes; /* of the values; */
    bool in_labels;          /* or of labels */
    size_t given;
};

/* Begins a sample up to its labels of the place. */
static size_t begin(struct writer *w, const struct row *r)
{
    size_t begun = protobuf_begin(&w->out, PROFILE_SAMPLE), part;
    uint32_t stack = r->stack, location = 0;
    if (!stack && r->place.where == LOST_AT_SITE) stack = site_stack(r->place.number);
    bool any = false;
    if (r->place.where == LOST_AT_SITE) {
        any = profile_stack(w, stack);
    } else {
        uintptr_t caller = r->place.where == LOST_AT_CALLER ? caller_address(r->place.number) : 0;
        if (caller) location = profile_table_caller(&w->table, caller, module_around(caller - 1));
        w->lacks_record |= location == 0;
        part = protobuf_begin(&w->out, SAMPLE_LOCATION);
        protobuf_varint(&w->out, location ? location : UNRECORDED_LOCATION);
        protobuf_end(&w->out, part);
    }
    part = protobuf_begin(&w->out, SAMPLE_VALUE);
    for (unsigned i = 0; i < 4; i++) protobuf_varint(&w->out, 0);
    protobuf_varint(&w->out, r->in_labels ? 0 : r->objects);
    protobuf_varint(&w->out, r->in_labels ? 0 : r->bytes);
    for (unsigned i = 0; i < 2; i++) protobuf_varint(&w->out, 0);
    protobuf_end(&w->out, part);

    profile_string_label(w, S_LOST, r->kind);
    if (r->given) profile_number_label(w, S_BYTES, r->given, S_BYTES);
    if (r->place.where == LOST_AT_SITE)
        profile_stack_labels(w, stack, any, r->stack ? HEAP_SOURCES : site_source(r->place.number));
    else
        profile_string_label(w, S_STACK, location ? S_CALLER : S_UNRECORDED);
    if (r->in_labels) {
        profile_number_label(w, S_LOST_OBJECTS, r->objects, S_COUNT);
        profile_number_label(w, S_LOST_BYTES, r->bytes, S_BYTES);
    }
    return begun;
}

static void end(struct writer *w, size_t begun)
{
    protobuf_end(&w->out, begun);
    profile_flush(w);
}

/* A number by which a reader finds the place again; never 0 for one that is known. */
static uint64_t place_number(struct lost_place place)
{
    return (uint64_t)place.where << 32 | place.number;
}

static void number(struct writer *w, unsigned key, uint64_t value, unsigned unit)
{
    if (value) profile_number_label(w, key, value, unit);
}

static void lost_row(const struct lost_site *s, void *user)
{
    static const unsigned kinds[] = {S_DIRECT, S_INDIRECT, S_POSSIBLE};
    static const unsigned whys[VET_WHYS] = {[VET_NARROW] = S_NARROW,
                                            [VET_BEFORE] = S_BEFORE,
                                            [VET_PAST_END] = S_PAST_END,
                                            [VET_MISALIGNED] = S_MISALIGNED};
    struct writer *w = user;
    if (w->error) return;
    struct row row = {.place = s->place,
                      .kind = kinds[s->kind],
                      .objects = s->objects,
                      .bytes = s->bytes,
                      .in_labels = s->kind == LOST_POSSIBLE,
                      .given = s->given};
    size_t begun = begin(w, &row);
    if (s->estimated) {
        number(w, S_OBJECTS_LOW, s->objects_limits.low, S_COUNT);
        number(w, S_OBJECTS_HIGH, s->objects_limits.high, S_COUNT);
        number(w, S_BYTES_LOW, s->bytes_limits.low, S_BYTES);
        number(w, S_BYTES_HIGH, s->bytes_limits.high, S_BYTES);
    }
    if (s->why < VET_WHYS && whys[s->why]) profile_string_label(w, S_WHY, whys[s->why]);
    number(w, S_ASKED, s->asked, S_BYTES);
    number(w, S_LAST_REACHED, s->last_reached, S_NANOSECONDS);
    number(w, S_FIRST_MISSED, s->first_missed, S_NANOSECONDS);
    number(w, S_LAST_MISSED, s->last_missed, S_NANOSECONDS);
    number(w, S_MISSES, s->misses, S_COUNT);
    if (s->kind == LOST_DIRECT && s->hangs) {
        number(w, S_HANGS_OBJECTS, s->hangs, S_COUNT);
        number(w, S_HANGS_BYTES, s->hangs_bytes, S_BYTES);
        number(w, S_SITE, place_number(s->place), S_EMPTY);
    }
    for (unsigned i = 0; i < ELIGIBLE_RULES; i++)
        if (s->rules >> i & 1) profile_string_label(w, S_NOT_RECLAIMED, S_RULES + i);
    if (s->kind == LOST_INDIRECT && s->head.where != LOST_NOWHERE)
        number(w, S_HEAD, place_number(s->head), S_EMPTY);
    end(w, begun);
}

static void false_row(const struct false_lost *f, void *user)
{
    struct writer *w = user;
    if (w->error) return;
    struct row row = {.place = f->place,
                      .kind = S_FALSE,
                      .objects = f->objects,
                      .bytes = f->bytes,
                      .in_labels = true};
    end(w, begin(w, &row));
}

/* What was reclaimed of a place, and what proved that a block of it was not lost: the call that freed or resized it, as far as it is
   known. */
static void reclaimed_row(const struct reclaim_place_view *v, void *user)
{
    struct writer *w = user;
    struct reclaim_site site;
    if (w->error || !reclaim_sites_get(v->place, &site)) return;
    struct row row = {.place = {site.where, site.where == LOST_AT_CALLER ? site.number : 0},
                      .stack = site.where == LOST_AT_SITE ? site.number : 0,
                      .kind = S_RECLAIMED,
                      .objects = v->reclaimed,
                      .bytes = v->reclaimed_bytes,
                      .in_labels = true};
    if (v->reclaimed) end(w, begin(w, &row));
    if (!v->vetoes || !site.proof) return;
    row = (struct row){.place = {LOST_AT_SITE, 0}, .stack = site.proof, .kind = S_PROOF, .objects = v->vetoes, .in_labels = true};
    end(w, begin(w, &row));
}

void profile_lost(struct writer *w)
{
    if (w->lost) lost_sites_each(w->lost, lost_row, w);
    false_lost_each(false_row, w);
    reclaim_place_each(reclaimed_row, w);
}
