/* profile_read.c: from an untrusted pprof file to the model.

   Bounds.  The content is at most 256 MiB unpacked, the decoded messages at most 1 GiB (an empty
   message of two bytes decodes to over a hundred), samples at most 4 million, steps of all stacks
   at most 64 million (a long list of inlined calls can be referred to by one byte).  Every
   reference is looked up, never trusted; numbers are only added, as doubles.

   What counts as damaged.  A protobuf cut at a field's border still parses, so a file is refused
   when it has no string table, refers to what it does not have, or is ours and lacks its totals.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/profile_read.h"
#include "profile.pb-c.h"
#include "report/basics.h"
#include "report/holders.h"
#include "report/lifetime.h"
#include "report/lost_row.h"
#include "report/tally.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t CONTENT_LIMIT = (size_t)256 << 20, DECODED_LIMIT = (size_t)1 << 30;
enum { SAMPLE_LIMIT = 4 << 20, STEP_LIMIT = 64 << 20 };

/* Reads and looks up ids that may be any 64-bit numbers. */
struct id_index {
    struct id_pair {
        uint64_t id;
        size_t index;
    } * pairs;
    size_t count;
};

struct reader {
    const Pprof__Profile *from;
    struct profile *to;
    char **strings; /* cleaned, made when first asked for */
    struct id_index mappings, functions, locations;
    int value_of[MEASURES_SHOWN][2]; /* column of objects, bytes; -1: absent */
    struct tally *tallies;           /* MEASURES_SAMPLED a site */
    char *problem;
    const char *holders; /* the text that says who holds what; NULL: none */
};

static bool damaged(struct reader *reader, const char *what)
{
    snprintf(reader->problem, PROBLEM_BYTES, "is damaged or cut short (%s)", what);
    return false;
}

/* The string, or NULL after saying that the file is damaged. */
static const char *string_at(struct reader *reader, int64_t index)
{
    if (index < 0 || (uint64_t)index >= reader->from->n_string_table) {
        damaged(reader, "a string is missing");
        return NULL;
    }
    if (!reader->strings[index]) {
        const char *raw = reader->from->string_table[index];
        size_t length = strlen(raw);
        char *clean = clean_text(raw, length);
        reader->strings[index] = arena_need(&reader->to->arena, length + 1, 1);
        memcpy(reader->strings[index], clean, length);
        free(clean);
    }
    return reader->strings[index];
}

static int compare_ids(const void *a, const void *b)
{
    const struct id_pair *left = a, *right = b;
    if (left->id != right->id) return left->id < right->id ? -1 : 1;
    return (left->index > right->index) - (left->index < right->index);
}

static void index_sort(struct id_index *index)
{
    qsort(index->pairs, index->count, sizeof *index->pairs, compare_ids);
}

static bool index_find(const struct id_index *index, uint64_t id, size_t *at)
{
    size_t low = 0, high = index->count;
    if (id && id <= index->count && index->pairs[id - 1].id == id) { /* the usual 1, 2, 3 … */
        *at = index->pairs[id - 1].index;
        return true;
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (index->pairs[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == index->count || index->pairs[low].id != id) return false;
    *at = index->pairs[low].index;
    return true;
}

/* -- tables -------------------------------------------------------------------------------------
 */

static const char *last_component(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static const char *lower_hexadecimal(struct arena *arena, const char *text)
{
    size_t length = strlen(text);
    char *lower = arena_need(arena, length + 1, 1);
    for (size_t i = 0; i < length; i++) {
        lower[i] = text[i] >= 'A' && text[i] <= 'F' ? (char)(text[i] + 32) : text[i];
        if (!strchr("0123456789abcdef", lower[i])) return ""; /* Go writes other things there */
    }
    return lower;
}

static bool read_mappings(struct reader *reader)
{
    const Pprof__Profile *from = reader->from;
    struct profile *to = reader->to;
    to->modules = arena_need(&to->arena, from->n_mapping, sizeof *to->modules);
    reader->mappings.pairs = need_array(from->n_mapping, sizeof *reader->mappings.pairs);
    for (size_t i = 0; i < from->n_mapping; i++) {
        const Pprof__Mapping *mapping = from->mapping[i];
        struct module *module = &to->modules[to->module_count++];
        const char *file = string_at(reader, mapping->filename);
        const char *id = string_at(reader, mapping->build_id);
        if (!file || !id) return false;
        *module = (struct module){.start = mapping->memory_start,
                                  .limit = mapping->memory_limit,
                                  .offset = mapping->file_offset,
                                  .file = file,
                                  .name = last_component(file),
                                  .build_id = lower_hexadecimal(&to->arena, id),
                                  .named = mapping->has_functions};
        reader->mappings.pairs[reader->mappings.count++] = (struct id_pair){mapping->id, i};
    }
    index_sort(&reader->mappings);
    return true;
}

static bool read_frame(struct reader *reader, const Pprof__Line *line, struct frame *to)
{
    size_t at;
    if (!index_find(&reader->functions, line->function_id, &at))
        return damaged(reader, "a function is missing");
    const Pprof__Function *function = reader->from->function[at];
    const char *name = string_at(reader, function->name);
    const char *system_name = string_at(reader, function->system_name);
    const char *file = string_at(reader, function->filename);
    if (!name || !system_name || !file) return false;
    if (!*name) name = system_name;
    *to = (struct frame){*name ? name : NULL, *file ? file : NULL, line->line > 0 ? line->line : 0};
    return true;
}

static bool read_places(struct reader *reader)
{
    const Pprof__Profile *from = reader->from;
    struct profile *to = reader->to;
    reader->functions.pairs = need_array(from->n_function, sizeof *reader->functions.pairs);
    for (size_t i = 0; i < from->n_function; i++)
        reader->functions.pairs[reader->functions.count++] =
            (struct id_pair){from->function[i]->id, i};
    index_sort(&reader->functions);
    reader->locations.pairs = need_array(from->n_location, sizeof *reader->locations.pairs);
    to->places = arena_need(&to->arena, from->n_location, sizeof *to->places);
    for (size_t i = 0; i < from->n_location; i++) {
        const Pprof__Location *location = from->location[i];
        struct place *place = &to->places[to->place_count++];
        place->address = location->address;
        size_t at;
        if (location->mapping_id) {
            if (!index_find(&reader->mappings, location->mapping_id, &at))
                return damaged(reader, "a mapping is missing");
            const struct module *module = &to->modules[at];
            bool bounded = module->limit != 0;
            if (!bounded || (place->address >= module->start && place->address < module->limit))
                place->module = module;
        }
        place->frames = arena_need(&to->arena, location->n_line, sizeof *place->frames);
        place->frame_count = location->n_line;
        for (size_t j = 0; j < location->n_line; j++)
            if (!read_frame(reader, location->line[j], &place->frames[j])) return false;
        reader->locations.pairs[reader->locations.count++] = (struct id_pair){location->id, i};
    }
    index_sort(&reader->locations);
    return true;
}

/* -- samples ------------------------------------------------------------------------------------
 */

static bool read_sample_types(struct reader *reader)
{
    static const char *const names[MEASURES_SHOWN][2] = {{"alloc_objects", "alloc_space"},
                                                         {"inuse_objects", "inuse_space"},
                                                         {"peak_objects", "peak_space"},
                                                         {"lost_objects", "lost_space"}};
    const char *first = NULL;
    memset(reader->value_of, -1, sizeof reader->value_of);
    for (size_t i = 0; i < reader->from->n_sample_type; i++) {
        const char *type = string_at(reader, reader->from->sample_type[i]->type);
        const char *unit = string_at(reader, reader->from->sample_type[i]->unit);
        if (!type || !unit) return false;
        if (!first) first = type;
        for (int measure = 0; measure < MEASURES_SHOWN; measure++)
            for (int which = 0; which < 2; which++)
                if (!strcmp(type, names[measure][which]) &&
                    !strcmp(unit, which ? "bytes" : "count"))
                    reader->value_of[measure][which] = (int)i;
    }
    bool any = false;
    for (int measure = 0; measure < MEASURES_SHOWN; measure++) {
        const int *columns = reader->value_of[measure];
        any |= reader->to->has[measure] = columns[0] >= 0 && columns[1] >= 0;
    }
    for (int measure = MEASURES_SHOWN; measure < MEASURES; measure++)
        reader->to->has[measure] = reader->to->has[MEASURE_LOST] && reader->to->ours;
    if (!any)
        snprintf(reader->problem, PROBLEM_BYTES,
                 "is no heap profile: it has no alloc_space or inuse_space in bytes, but %.60s",
                 first ? first : "nothing");
    return any;
}

struct site_table {
    size_t *slots; /* index of a site, plus one */
    size_t mask;
};

static size_t hash_stack(struct place *const *stack, size_t depth)
{
    uint64_t hash = 0xcbf29ce484222325; /* FNV-1a by words, finished as splitmix64 does */
    for (size_t i = 0; i < depth; i++) hash = (hash ^ (uintptr_t)stack[i]) * 0x100000001b3;
    hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9;
    return (size_t)(hash ^ (hash >> 31));
}

static size_t site_of(struct reader *reader, struct site_table *table, struct place **stack,
                      size_t depth)
{
    struct profile *to = reader->to;
    size_t at = hash_stack(stack, depth) & table->mask;
    for (; table->slots[at]; at = (at + 1) & table->mask) {
        struct site *site = &to->sites[table->slots[at] - 1];
        if (site->depth == depth && !memcmp(site->stack, stack, depth * sizeof *stack))
            return table->slots[at] - 1;
    }
    struct site *site = &to->sites[to->site_count];
    site->number = to->site_count++;
    site->stack = arena_need(&to->arena, depth, sizeof *stack);
    memcpy(site->stack, stack, depth * sizeof *stack);
    site->depth = depth;
    table->slots[at] = to->site_count;
    return to->site_count - 1;
}

static bool read_labels(struct reader *reader, const Pprof__Sample *sample, struct labels *to)
{
    *to = (struct labels){.bytes = -1, .alloc_points = -1, .live_points = -1};
    const struct {
        const char *key;
        int64_t *number;
    } numbers[] = {{"bytes", &to->bytes},
                   {"alloc_samples", &to->alloc_points},
                   {"inuse_samples", &to->live_points},
                   {"lost_objects", &to->lost_objects},
                   {"lost_bytes", &to->lost_bytes},
                   {"objects_low", &to->objects_low},
                   {"objects_high", &to->objects_high},
                   {"bytes_low", &to->bytes_low},
                   {"bytes_high", &to->bytes_high},
                   {"asked_bytes", &to->asked},
                   {"hangs_objects", &to->hangs_objects},
                   {"hangs_bytes", &to->hangs_bytes},
                   {"last_reached", &to->last_reached},
                   {"first_missed", &to->first_missed},
                   {"last_missed", &to->last_missed},
                   {"misses", &to->misses},
                   {"site", &to->site},
                   {"head", &to->head}};
    for (size_t i = 0; i < sample->n_label; i++) {
        const Pprof__Label *label = sample->label[i];
        const char *key = string_at(reader, label->key);
        const char *text = string_at(reader, label->str);
        if (!key || !text) return false;
        for (size_t j = 0; !*text && j < sizeof numbers / sizeof *numbers; j++)
            if (!strcmp(key, numbers[j].key)) *numbers[j].number = label->num;
        if (!strcmp(key, "source") && *text) to->source = text;
        if (!strcmp(key, "stack") && *text) to->stack_note = text;
        if (!strcmp(key, "lost") && *text) to->lost = text;
        if (!strcmp(key, "why") && *text) to->why = text;
        if (!strcmp(key, "not_reclaimed") && *text) lost_row_add_rule(to, text);
    }
    return true;
}

/* How many sample points stand behind a measure of a sample of ours: it says so, or the bytes do,
   for each point stands for `period` of them. */
static int64_t points_of(const struct reader *reader, int measure, int64_t bytes,
                         const struct labels *labels)
{
    int64_t said = measure == MEASURE_ALLOC  ? labels->alloc_points
                   : measure == MEASURE_LIVE ? labels->live_points
                                             : -1;
    int64_t period = reader->to->period;
    if (said >= 0 || !reader->to->ours || period <= 0 || bytes < 0) return said;
    return bytes / period + (bytes % period > period / 2);
}

static void add_values(struct reader *reader, struct site *site, size_t index,
                       const Pprof__Sample *sample, const struct labels *labels)
{
    struct profile *to = reader->to;
    if (!site->source)
        site->source = labels->source;
    else if (labels->source && strcmp(site->source, labels->source))
        site->source = "mixed";
    if (labels->stack_note) site->stack_note = labels->stack_note;
    struct part *part = &to->parts[to->part_count++];
    *part = (struct part){.stack = site->stack,
                          .depth = site->depth,
                          .site = site->number,
                          .size = labels->bytes > 0 ? labels->bytes : 0,
                          .source = labels->source,
                          .stack_note = labels->stack_note,
                          .number = labels->site > 0 ? (uint64_t)labels->site : 0};
    for (int measure = 0; measure < MEASURES_SHOWN; measure++) {
        bool sampled = measure < MEASURES_SAMPLED;
        if (sampled) part->points[measure] = -1;
        if (!to->has[measure]) continue;
        int64_t objects = sample->value[reader->value_of[measure][0]];
        int64_t bytes = sample->value[reader->value_of[measure][1]];
        part->values[measure][0] = objects;
        part->values[measure][1] = bytes;
        if (!sampled) continue;
        part->points[measure] = points_of(reader, measure, bytes, labels);
        tally_add(&reader->tallies[index * MEASURES_SAMPLED + (size_t)measure], (double)objects,
                  (double)bytes, part->points[measure], to->period, part->size);
    }
    part->lost = lost_row(to, labels, part->values[MEASURE_LOST]);
}

static bool read_samples(struct reader *reader)
{
    const Pprof__Profile *from = reader->from;
    struct profile *to = reader->to;
    size_t deepest = 0, steps = 0;
    if (from->n_sample > SAMPLE_LIMIT) return damaged(reader, "more than 4 million samples");
    for (size_t i = 0; i < from->n_sample; i++)
        if (from->sample[i]->n_location_id > deepest) deepest = from->sample[i]->n_location_id;
    struct place **stack = need_array(deepest, sizeof *stack);
    struct site_table table = {0};
    for (table.mask = 15; table.mask < from->n_sample * 2; table.mask = table.mask * 2 + 1)
        continue;
    table.slots = need_array(table.mask + 1, sizeof *table.slots);
    to->sites = arena_need(&to->arena, from->n_sample, sizeof *to->sites);
    to->parts = arena_need(&to->arena, from->n_sample, sizeof *to->parts);
    reader->tallies = need_array(from->n_sample, MEASURES_SAMPLED * sizeof *reader->tallies);
    bool good = true;
    for (size_t i = 0; i < from->n_sample && good; i++) {
        const Pprof__Sample *sample = from->sample[i];
        struct labels labels;
        if (sample->n_value != from->n_sample_type) good = damaged(reader, "a sample lacks values");
        for (size_t j = 0; j < sample->n_location_id && good; j++) {
            size_t at;
            if (index_find(&reader->locations, sample->location_id[j], &at))
                stack[j] = &to->places[at];
            else
                good = damaged(reader, "a location is missing");
            if (good) steps += 1 + stack[j]->frame_count;
        }
        if (good && steps > STEP_LIMIT) good = damaged(reader, "its stacks are too long");
        good = good && read_labels(reader, sample, &labels);
        if (!good) break;
        size_t index = site_of(reader, &table, stack, sample->n_location_id);
        add_values(reader, &to->sites[index], index, sample, &labels);
    }
    free(stack);
    free(table.slots);
    return good;
}

static void set_figures(struct reader *reader)
{
    struct profile *to = reader->to;
    for (size_t i = 0; i < to->site_count; i++)
        for (size_t measure = 0; measure < MEASURES_SAMPLED; measure++)
            to->sites[i].figures[measure] =
                tally_figure(&reader->tallies[i * MEASURES_SAMPLED + measure], to->period);
    model_sum_lost(to);
}

/* -- the whole ----------------------------------------------------------------------------------
 */

static bool read_head(struct reader *reader)
{
    static const char mark[] = "gleaner:", holders[] = "gleaner-holders:";
    struct profile *to = reader->to;
    for (size_t i = 0; i < reader->from->n_comment; i++) {
        int64_t index = reader->from->comment[i];
        if (!string_at(reader, index)) return false;
        const char *text = reader->from->string_table[index];
        text += *text == '#'; /* which hides a comment from pprof; not in the first profiles */
        if (!strncmp(text, holders, sizeof holders - 1)) reader->holders = text + sizeof holders - 1;
        if (strncmp(text, mark, sizeof mark - 1)) continue;
        json_error_t error;
        json_decref(to->head);
        to->head = json_loads(text + sizeof mark - 1, 0, &error);
        if (!json_is_object(to->head)) return damaged(reader, "its totals do not parse");
        to->ours = true;
        json_int_t version = json_integer_value(json_object_get(to->head, "version"));
        if (version != 1) {
            snprintf(reader->problem, PROBLEM_BYTES,
                     "was written by another version of Gleaner: its format is %lld, this command "
                     "reads 1",
                     (long long)version);
            return false;
        }
    }
    return true;
}

/* After the samples, of which they speak. */
static bool read_lifetimes(struct reader *reader)
{
    const Pprof__Profile *from = reader->from;
    const char **comments = need_array(from->n_comment, sizeof *comments);
    for (size_t i = 0; i < from->n_comment; i++)
        comments[i] = from->string_table[from->comment[i]]; /* read_head has looked at the numbers */
    bool good = !reader->to->ours ||
                lifetime_read(reader->to, comments, from->n_comment, reader->problem);
    free(comments);
    return good;
}

static const char *optional(struct reader *reader, int64_t index)
{
    const char *text = string_at(reader, index);
    return text && *text ? text : NULL;
}

static struct place *place_of(void *user, uint64_t id)
{
    struct reader *reader = user;
    size_t at;
    return index_find(&reader->locations, id, &at) ? &reader->to->places[at] : NULL;
}

static const struct module *module_of(void *user, uint64_t id)
{
    struct reader *reader = user;
    size_t at;
    return index_find(&reader->mappings, id, &at) ? &reader->to->modules[at] : NULL;
}

static bool read_holders(struct reader *reader)
{
    const struct holders_lookup lookup = {place_of, module_of, reader};
    return !reader->holders || !reader->to->ours ||
           holders_parse(reader->to, reader->holders, &lookup, reader->problem);
}

static bool convert(struct reader *reader)
{
    const Pprof__Profile *from = reader->from;
    struct profile *to = reader->to;
    if (!from->n_string_table || *from->string_table[0])
        return damaged(reader, "it has no table of strings");
    reader->strings = need_array(from->n_string_table, sizeof *reader->strings);
    if (!read_head(reader) || !read_sample_types(reader)) return false;
    to->time = from->time_nanos;
    to->duration = from->duration_nanos;
    to->period = from->period > 0 ? from->period : 0;
    /* A sample every word, or every byte, is every block. */
    to->exact = to->period >= 1 && to->period <= ESTIMATE_WORD;
    to->drop = optional(reader, from->drop_frames);
    to->keep = optional(reader, from->keep_frames);
    if (!read_mappings(reader) || !read_places(reader) || !read_samples(reader) ||
        !read_holders(reader))
        return false;
    set_figures(reader);
    return read_lifetimes(reader);
}

static void *decode_alloc(void *arena, size_t bytes)
{
    return arena_try(arena, bytes);
}

static void decode_free(void *arena, void *block)
{
    (void)arena, (void)block; /* the arena goes as a whole */
}

static void say_what_it_is(const struct bytes *bytes, char problem[PROBLEM_BYTES])
{
    const char *text = (const char *)bytes->at;
    size_t n = bytes->length;
    if (n >= 12 && !memcmp(text, "heap profile", 12))
        snprintf(problem, PROBLEM_BYTES,
                 "is gperftools' or Go's text format; only pprof's profile.proto is read");
    else if (n >= 8 && !memcmp(text, "heap_v2/", 8))
        snprintf(problem, PROBLEM_BYTES,
                 "is jemalloc's text format; only pprof's profile.proto is read");
    else if (n >= 4 && !memcmp(text,
                               "\x7f"
                               "ELF",
                               4))
        snprintf(problem, PROBLEM_BYTES, "is a program or library, no profile");
    else
        snprintf(problem, PROBLEM_BYTES, "is no profile, or is damaged or cut short");
}

struct profile *profile_parse(const char *path, struct bytes bytes, char problem[PROBLEM_BYTES])
{
    if (!bytes.length) {
        snprintf(problem, PROBLEM_BYTES, "is empty");
        free(bytes.at);
        return NULL;
    }
    if (!file_unpack(&bytes, CONTENT_LIMIT, problem)) return NULL;
    struct arena decoded = {.limit = DECODED_LIMIT};
    ProtobufCAllocator allocator = {decode_alloc, decode_free, &decoded};
    Pprof__Profile *from = pprof__profile__unpack(&allocator, bytes.length, bytes.at);
    struct reader reader = {.from = from, .problem = problem};
    if (from) {
        reader.to = need_array(1, sizeof *reader.to);
        reader.to->path = path;
        reader.to->head = json_object();
        if (!convert(&reader)) {
            profile_free(reader.to);
            reader.to = NULL;
        }
    } else {
        say_what_it_is(&bytes, problem);
    }
    free(reader.strings);
    free(reader.mappings.pairs);
    free(reader.functions.pairs);
    free(reader.locations.pairs);
    free(reader.tallies);
    arena_free(&decoded);
    free(bytes.at);
    return reader.to;
}

struct profile *profile_read(const char *path)
{
    char problem[PROBLEM_BYTES];
    struct bytes bytes;
    struct profile *profile = NULL;
    bool read = file_read(path, &bytes, problem);
    if (read) profile = profile_parse(path, bytes, problem);
    if (!profile) say("%s%s %s", path, read ? "" : ":", problem);
    return profile;
}
