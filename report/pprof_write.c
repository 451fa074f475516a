/* pprof_write.c: writes the model as profile.proto, with functions and lines filled in, so that
   viewers need neither the binaries nor their debug information. SPDX-License-Identifier:
   LGPL-2.1-or-later */
#include "profile.pb-c.h"
#include "report/basics.h"
#include "report/lifetime.h"
#include "report/output.h"
#include "report/string_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* The columns of the file, in the order that doc/format.md gives them. */
static const struct {
    const char *type, *unit;
    enum measure measure;
    int which; /* 0 objects, 1 bytes */
} columns[] = {
    {"alloc_objects", "count", MEASURE_ALLOC, 0}, {"alloc_space", "bytes", MEASURE_ALLOC, 1},
    {"inuse_objects", "count", MEASURE_LIVE, 0},  {"inuse_space", "bytes", MEASURE_LIVE, 1},
    {"lost_objects", "count", MEASURE_LOST, 0},   {"lost_space", "bytes", MEASURE_LOST, 1},
    {"peak_objects", "count", MEASURE_PEAK, 0},   {"peak_space", "bytes", MEASURE_PEAK, 1},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

struct writer {
    struct arena arena; /* of the messages */
    struct strings strings, functions;
    const struct profile *from;
    Pprof__Profile to;
    Pprof__Function **function_list;
    size_t function_room;
};

static int64_t text(struct writer *writer, const char *string)
{
    return (int64_t)strings_number(&writer->strings, string ? string : "", NULL);
}

/* A message of the arena, initialised. */
#define NEW(writer, Type, INIT)                                                                    \
    ({                                                                                             \
        Type *new_ = arena_need(&(writer)->arena, 1, sizeof *new_);                                \
        *new_ = (Type)INIT;                                                                        \
        new_;                                                                                      \
    })
#define NEW_LIST(writer, Type, count) ((Type **)arena_need(&(writer)->arena, count, sizeof(Type *)))

static Pprof__ValueType *value_type(struct writer *writer, const char *type, const char *unit)
{
    Pprof__ValueType *to = NEW(writer, Pprof__ValueType, PPROF__VALUE_TYPE__INIT);
    to->type = text(writer, type);
    to->unit = text(writer, unit);
    return to;
}

static void write_modules(struct writer *writer)
{
    const struct profile *from = writer->from;
    bool *named = need_array(from->module_count, sizeof *named);
    for (size_t i = 0; i < from->place_count; i++)
        if (from->places[i].module && from->places[i].frame_count)
            named[from->places[i].module - from->modules] = true;
    writer->to.n_mapping = from->module_count;
    writer->to.mapping = NEW_LIST(writer, Pprof__Mapping, from->module_count);
    for (size_t i = 0; i < from->module_count; i++) {
        const struct module *module = &from->modules[i];
        Pprof__Mapping *to = NEW(writer, Pprof__Mapping, PPROF__MAPPING__INIT);
        to->id = i + 1;
        to->memory_start = module->start;
        to->memory_limit = module->limit;
        to->file_offset = module->offset;
        to->filename = text(writer, module->file);
        to->build_id = text(writer, module->build_id);
        to->has_functions = to->has_filenames = to->has_line_numbers = to->has_inline_frames =
            named[i];
        writer->to.mapping[i] = to;
    }
    free(named);
}

static uint64_t function_id(struct writer *writer, const struct frame *frame)
{
    const char *name = frame->function ? frame->function : "";
    const char *file = frame->file ? frame->file : "";
    char *key = need_text("%s\n%s", name, file);
    bool new;
    size_t number = strings_number(&writer->functions, key, &new);
    free(key);
    if (new) {
        Pprof__Function *to = NEW(writer, Pprof__Function, PPROF__FUNCTION__INIT);
        to->id = number + 1;
        to->name = to->system_name = text(writer, name);
        to->filename = text(writer, file);
        writer->function_list =
            need_more(writer->function_list, number, &writer->function_room, sizeof to);
        writer->function_list[number] = to;
    }
    return number + 1;
}

static void write_places(struct writer *writer)
{
    const struct profile *from = writer->from;
    writer->to.n_location = from->place_count;
    writer->to.location = NEW_LIST(writer, Pprof__Location, from->place_count);
    for (size_t i = 0; i < from->place_count; i++) {
        const struct place *place = &from->places[i];
        Pprof__Location *to = NEW(writer, Pprof__Location, PPROF__LOCATION__INIT);
        to->id = i + 1;
        to->mapping_id = place->module ? (uint64_t)(place->module - from->modules) + 1 : 0;
        to->address = place->address;
        to->n_line = place->frame_count;
        to->line = NEW_LIST(writer, Pprof__Line, place->frame_count);
        for (size_t j = 0; j < place->frame_count; j++) {
            to->line[j] = NEW(writer, Pprof__Line, PPROF__LINE__INIT);
            to->line[j]->function_id = function_id(writer, &place->frames[j]);
            to->line[j]->line = place->frames[j].line;
        }
        writer->to.location[i] = to;
    }
    writer->to.n_function = writer->functions.count;
    writer->to.function = writer->function_list;
}

static int64_t unit_of(struct writer *writer, const char *key)
{
    static const char *const bytes[] = {"bytes",      "lost_bytes",  "bytes_low",
                                        "bytes_high", "asked_bytes", "hangs_bytes"};
    static const char *const times[] = {"last_reached", "first_missed", "last_missed"};
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++)
        if (!strcmp(key, bytes[i])) return text(writer, "bytes");
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        if (!strcmp(key, times[i])) return text(writer, "nanoseconds");
    return 0;
}

static void add_label(struct writer *writer, Pprof__Sample *sample, const char *key, int64_t number,
                      const char *string)
{
    if (number <= 0 && !string) return;
    Pprof__Label *to = NEW(writer, Pprof__Label, PPROF__LABEL__INIT);
    to->key = text(writer, key);
    if (string) {
        to->str = text(writer, string);
    } else {
        to->num = number;
        to->num_unit = unit_of(writer, key);
    }
    sample->label[sample->n_label++] = to;
}

/* At most: those of a site, and of a lost row. */
enum { LABELS = 6 + 17 + ELIGIBLE_RULES };

static Pprof__Sample *new_sample(struct writer *writer, struct place *const *stack, size_t depth)
{
    Pprof__Sample *to = NEW(writer, Pprof__Sample, PPROF__SAMPLE__INIT);
    to->n_location_id = depth;
    to->location_id = arena_need(&writer->arena, depth, sizeof *to->location_id);
    for (size_t i = 0; i < depth; i++)
        to->location_id[i] = (uint64_t)(stack[i] - writer->from->places) + 1;
    to->value = arena_need(&writer->arena, COLUMNS, sizeof *to->value);
    to->label = NEW_LIST(writer, Pprof__Label, LABELS);
    return to;
}

static void put_value(const struct writer *writer, Pprof__Sample *sample, enum measure measure,
                      int which, int64_t value)
{
    size_t at = 0;
    for (int i = 0; i < COLUMNS; i++) {
        if (!writer->from->has[columns[i].measure]) continue;
        if (columns[i].measure == measure && columns[i].which == which) sample->value[at] = value;
        at++;
    }
    sample->n_value = at;
}

/* The labels of doc/format.md. */
static void add_lost_labels(struct writer *writer, Pprof__Sample *to, const struct lost_row *row)
{
    static const char *const kinds[MEASURES] = {[MEASURE_DIRECT] = "direct",
                                                [MEASURE_INDIRECT] = "indirect",
                                                [MEASURE_POSSIBLE] = "possible",
                                                [MEASURE_FALSE] = "false",
                                                [MEASURE_RECLAIMED] = "reclaimed",
                                                [MEASURE_PROOF] = "proof"};
    const struct figure *figure = &row->figure;
    if (!kinds[row->kind]) return;
    add_label(writer, to, "lost", 0, kinds[row->kind]);
    if (row->kind >= MEASURE_POSSIBLE) {
        add_label(writer, to, "lost_objects", llround(figure->objects.value), NULL);
        add_label(writer, to, "lost_bytes", llround(figure->bytes.value), NULL);
    }
    if (is_estimated(figure->bytes) && !isnan(figure->bytes.lo)) {
        add_label(writer, to, "objects_low", llround(figure->objects.lo), NULL);
        add_label(writer, to, "objects_high", llround(figure->objects.hi), NULL);
        add_label(writer, to, "bytes_low", llround(figure->bytes.lo), NULL);
        add_label(writer, to, "bytes_high", llround(figure->bytes.hi), NULL);
    }
    for (int form = 0; form < FORMS; form++)
        if (row->forms == 1u << form) add_label(writer, to, "why", 0, form_names[form]);
    for (int rule = 0; rule < ELIGIBLE_RULES; rule++)
        if (row->rules >> rule & 1) add_label(writer, to, "not_reclaimed", 0, eligible_names[rule]);
    add_label(writer, to, "asked_bytes", row->asked, NULL);
    add_label(writer, to, "last_reached", row->since.last_reached, NULL);
    add_label(writer, to, "first_missed", row->since.first_missed, NULL);
    add_label(writer, to, "last_missed", row->since.last_missed, NULL);
    add_label(writer, to, "misses", row->since.misses, NULL);
    add_label(writer, to, "hangs_objects", row->hangs_objects, NULL);
    add_label(writer, to, "hangs_bytes", row->hangs_bytes, NULL);
    add_label(writer, to, "site", (int64_t)row->number, NULL);
    add_label(writer, to, "head", (int64_t)row->head, NULL);
}

static void write_parts(struct writer *writer)
{
    const struct profile *from = writer->from;
    writer->to.sample = NEW_LIST(writer, Pprof__Sample, from->part_count);
    for (size_t i = 0; i < from->part_count; i++) {
        const struct part *part = &from->parts[i];
        if (part->lost && part->lost->suppressed) continue;
        Pprof__Sample *to = new_sample(writer, part->stack, part->depth);
        for (int measure = 0; measure < MEASURES_SHOWN; measure++)
            for (int which = 0; which < 2; which++)
                put_value(writer, to, measure, which, part->values[measure][which]);
        add_label(writer, to, "bytes", part->size, NULL);
        add_label(writer, to, "alloc_samples", part->points[MEASURE_ALLOC], NULL);
        add_label(writer, to, "inuse_samples", part->points[MEASURE_LIVE], NULL);
        add_label(writer, to, "source", 0, part->source);
        add_label(writer, to, "stack", 0, part->stack_note);
        if (part->lost) add_lost_labels(writer, to, part->lost);
        else add_label(writer, to, "site", (int64_t)part->number, NULL);
        writer->to.sample[writer->to.n_sample++] = to;
    }
}

static void write_sites(struct writer *writer)
{
    const struct profile *from = writer->from;
    writer->to.n_sample = from->site_count;
    writer->to.sample = NEW_LIST(writer, Pprof__Sample, from->site_count);
    for (size_t i = 0; i < from->site_count; i++) {
        const struct site *site = &from->sites[i];
        Pprof__Sample *to = new_sample(writer, site->stack, site->depth);
        for (int measure = 0; measure < MEASURES_SHOWN; measure++) {
            put_value(writer, to, measure, 0, llround(site->figures[measure].objects.value));
            put_value(writer, to, measure, 1, llround(site->figures[measure].bytes.value));
        }
        add_label(writer, to, "source", 0, site->source);
        add_label(writer, to, "stack", 0, site->stack_note);
        writer->to.sample[i] = to;
    }
}

static void write_head(struct writer *writer, enum measure measure)
{
    const struct profile *from = writer->from;
    Pprof__Profile *to = &writer->to;
    to->sample_type = NEW_LIST(writer, Pprof__ValueType, COLUMNS);
    for (int i = 0; i < COLUMNS; i++) {
        if (!from->has[columns[i].measure]) continue;
        to->sample_type[to->n_sample_type++] = value_type(writer, columns[i].type, columns[i].unit);
        if (columns[i].measure == measure && columns[i].which)
            to->default_sample_type = text(writer, columns[i].type);
    }
    to->period_type = value_type(writer, "space", "bytes");
    to->period = from->period;
    to->time_nanos = from->time;
    to->duration_nanos = from->duration;
    to->drop_frames = text(writer, from->drop);
    to->keep_frames = text(writer, from->keep);
    if (from->ours) {
        char *json = json_dumps(from->head, JSON_COMPACT);
        char *comment = need_text("#gleaner:%s", json ? json : "{}");
        const struct lifetimes *lifetimes = from->lifetimes;
        size_t more = lifetimes ? lifetimes->comment_count : 0;
        to->comment = arena_need(&writer->arena, 1 + more, sizeof *to->comment);
        to->comment[to->n_comment++] = text(writer, comment);
        for (size_t i = 0; i < more; i++)
            to->comment[to->n_comment++] = text(writer, lifetimes->comments[i]);
        free(comment);
        free(json);
    }
}

/* Gzip, in one member, best effort of speed: profiles shrink to a fifth whatever the level. */
static void write_packed(FILE *stream, uint8_t *bytes, size_t length)
{
    z_stream packer = {0};
    uint8_t out[64 << 10];
    if (deflateInit2(&packer, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        say("zlib failed");
        exit(EXIT_PROBLEM);
    }
    packer.next_in = bytes;
    packer.avail_in = (uInt)length; /* what was read is at most 1 GiB, names add less than that */
    do {
        packer.next_out = out;
        packer.avail_out = sizeof out;
        deflate(&packer, Z_FINISH);
        fwrite(out, 1, sizeof out - packer.avail_out, stream);
    } while (!packer.avail_out);
    deflateEnd(&packer);
}

void pprof_write(FILE *stream, const struct profile *profile, enum measure measure)
{
    struct writer writer = {.from = profile, .to = PPROF__PROFILE__INIT};
    text(&writer, ""); /* number 0 */
    write_head(&writer, measure);
    write_modules(&writer);
    write_places(&writer);
    if (profile->parts)
        write_parts(&writer);
    else
        write_sites(&writer);
    writer.to.n_string_table = writer.strings.count;
    writer.to.string_table = writer.strings.texts;
    size_t length = pprof__profile__get_packed_size(&writer.to);
    uint8_t *bytes = need(length);
    pprof__profile__pack(&writer.to, bytes);
    write_packed(stream, bytes, length);
    free(bytes);
    free(writer.function_list);
    strings_free(&writer.strings);
    strings_free(&writer.functions);
    arena_free(&writer.arena);
}
