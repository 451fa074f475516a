/* profile_maker.c: makes small pprof files for tests.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "profile_maker.h"
#include "profile.pb-c.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { MOST = 256 };

struct maker {
    Pprof__Profile profile;
    char *strings[MOST * 4];
    Pprof__ValueType *types[16];
    Pprof__Sample *samples[MOST];
    Pprof__Mapping *modules[MOST];
    Pprof__Location *places[MOST];
    Pprof__Function *functions[MOST];
    int64_t comments[4];
};

static void *fresh(size_t count, size_t bytes)
{
    void *block = calloc(count, bytes);
    ck_assert_ptr_nonnull(block);
    return block;
}

static int64_t string(struct maker *maker, const char *text)
{
    size_t count = maker->profile.n_string_table;
    for (size_t i = 0; i < count; i++)
        if (!strcmp(maker->strings[i], text)) return (int64_t)i;
    ck_assert_uint_lt(count, MOST * 4);
    maker->strings[maker->profile.n_string_table++] = strdup(text);
    return (int64_t)count;
}

static Pprof__ValueType *value_type(struct maker *maker, const char *both)
{
    char type[64];
    const char *slash = strchr(both, '/');
    snprintf(type, sizeof type, "%.*s", (int)(slash - both), both);
    Pprof__ValueType *to = fresh(1, sizeof *to);
    pprof__value_type__init(to);
    to->type = string(maker, type);
    to->unit = string(maker, slash + 1);
    return to;
}

void maker_types(struct maker *maker, const char *const *types)
{
    for (size_t i = 0; i < maker->profile.n_sample_type; i++) free(maker->types[i]);
    maker->profile.n_sample_type = 0;
    for (; *types; types++)
        maker->types[maker->profile.n_sample_type++] = value_type(maker, *types);
}

struct maker *maker_new(int64_t period)
{
    static const char *const types[] = {
        "alloc_objects/count", "alloc_space/bytes",  "inuse_objects/count",
        "inuse_space/bytes",   "lost_objects/count", "lost_space/bytes",
        "peak_objects/count",  "peak_space/bytes",   NULL};
    struct maker *maker = fresh(1, sizeof *maker);
    pprof__profile__init(&maker->profile);
    maker->profile.string_table = maker->strings;
    maker->profile.sample_type = maker->types;
    maker->profile.sample = maker->samples;
    maker->profile.mapping = maker->modules;
    maker->profile.location = maker->places;
    maker->profile.function = maker->functions;
    maker->profile.comment = maker->comments;
    string(maker, "");
    maker_types(maker, types);
    maker->profile.period_type = value_type(maker, "space/bytes");
    maker->profile.period = period;
    maker->profile.default_sample_type = string(maker, "inuse_space");
    return maker;
}

void maker_free(struct maker *maker)
{
    Pprof__Profile *profile = &maker->profile;
    for (size_t i = 0; i < profile->n_string_table; i++) free(maker->strings[i]);
    for (size_t i = 0; i < profile->n_sample_type; i++) free(maker->types[i]);
    for (size_t i = 0; i < profile->n_mapping; i++) free(maker->modules[i]);
    for (size_t i = 0; i < profile->n_function; i++) free(maker->functions[i]);
    for (size_t i = 0; i < profile->n_location; i++) {
        for (size_t j = 0; j < maker->places[i]->n_line; j++) free(maker->places[i]->line[j]);
        free(maker->places[i]->line);
        free(maker->places[i]);
    }
    for (size_t i = 0; i < profile->n_sample; i++) {
        Pprof__Sample *sample = maker->samples[i];
        for (size_t j = 0; j < sample->n_label; j++) free(sample->label[j]);
        free(sample->label);
        free(sample->location_id);
        free(sample->value);
        free(sample);
    }
    free(profile->period_type);
    free(maker);
}

void maker_comment(struct maker *maker, const char *text)
{
    ck_assert_uint_lt(maker->profile.n_comment, 4);
    maker->comments[maker->profile.n_comment++] = string(maker, text);
}

void maker_time(struct maker *maker, int64_t nanoseconds, int64_t duration)
{
    maker->profile.time_nanos = nanoseconds;
    maker->profile.duration_nanos = duration;
}

void maker_drop(struct maker *maker, const char *expression)
{
    maker->profile.drop_frames = string(maker, expression);
}

uint64_t maker_module(struct maker *maker, uint64_t start, uint64_t limit, uint64_t offset,
                      const char *file, const char *build_id)
{
    Pprof__Mapping *to = fresh(1, sizeof *to);
    pprof__mapping__init(to);
    to->memory_start = start;
    to->memory_limit = limit;
    to->file_offset = offset;
    to->filename = string(maker, file);
    to->build_id = string(maker, build_id);
    ck_assert_uint_lt(maker->profile.n_mapping, MOST);
    maker->modules[maker->profile.n_mapping++] = to;
    return to->id = maker->profile.n_mapping;
}

uint64_t maker_place(struct maker *maker, uint64_t module, uint64_t address)
{
    Pprof__Location *to = fresh(1, sizeof *to);
    pprof__location__init(to);
    to->mapping_id = module;
    to->address = address;
    to->line = fresh(8, sizeof *to->line);
    ck_assert_uint_lt(maker->profile.n_location, MOST);
    maker->places[maker->profile.n_location++] = to;
    return to->id = maker->profile.n_location;
}

void maker_line(struct maker *maker, uint64_t place, const char *function, const char *file,
                int64_t line)
{
    Pprof__Function *new = fresh(1, sizeof *new);
    pprof__function__init(new);
    new->name = string(maker, function);
    new->filename = string(maker, file);
    ck_assert_uint_lt(maker->profile.n_function, MOST);
    maker->functions[maker->profile.n_function++] = new;
    new->id = maker->profile.n_function;
    Pprof__Location *to = maker->places[place - 1];
    ck_assert_uint_lt(to->n_line, 8);
    Pprof__Line *at = to->line[to->n_line++] = fresh(1, sizeof *at);
    pprof__line__init(at);
    at->function_id = new->id;
    at->line = line;
}

static void label(struct maker *maker, Pprof__Sample *sample, const char *key, int64_t number,
                  const char *text)
{
    if (!number && !text) return;
    Pprof__Label *to = sample->label[sample->n_label++] = fresh(1, sizeof *to);
    pprof__label__init(to);
    to->key = string(maker, key);
    to->num = number;
    if (text) to->str = string(maker, text);
}

void maker_add(struct maker *maker, const struct maker_sample *from)
{
    Pprof__Sample *to = fresh(1, sizeof *to);
    pprof__sample__init(to);
    to->location_id = fresh(16, sizeof *to->location_id);
    while (to->n_location_id < 16 && from->places[to->n_location_id]) {
        to->location_id[to->n_location_id] = from->places[to->n_location_id];
        to->n_location_id++;
    }
    to->n_value = maker->profile.n_sample_type;
    to->value = fresh(8, sizeof *to->value);
    memcpy(to->value, from->values, sizeof from->values);
    to->label = fresh(32, sizeof *to->label);
    label(maker, to, "bytes", from->size, NULL);
    label(maker, to, "alloc_samples", from->alloc_points, NULL);
    label(maker, to, "inuse_samples", from->live_points, NULL);
    label(maker, to, "source", 0, from->source);
    label(maker, to, "stack", 0, from->stack_note);
    label(maker, to, "lost", 0, from->lost);
    label(maker, to, "why", 0, from->why);
    for (size_t i = 0; i < 16 && from->labels[i].key; i++)
        label(maker, to, from->labels[i].key, from->labels[i].number, NULL);
    ck_assert_uint_lt(maker->profile.n_sample, MOST);
    maker->samples[maker->profile.n_sample++] = to;
}

uint8_t *gzip_bytes(const void *bytes, size_t length, size_t *packed_length)
{
    z_stream packer = {0};
    ck_assert_int_eq(deflateInit2(&packer, 9, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
    size_t room = deflateBound(&packer, length);
    uint8_t *packed = fresh(1, room);
    packer.next_in = (Bytef *)bytes;
    packer.avail_in = (uInt)length;
    packer.next_out = packed;
    packer.avail_out = (uInt)room;
    ck_assert_int_eq(deflate(&packer, Z_FINISH), Z_STREAM_END);
    *packed_length = room - packer.avail_out;
    deflateEnd(&packer);
    return packed;
}

uint8_t *maker_bytes(struct maker *maker, bool gzip, size_t *length)
{
    *length = pprof__profile__get_packed_size(&maker->profile);
    uint8_t *bytes = fresh(1, *length + 1);
    pprof__profile__pack(&maker->profile, bytes);
    if (!gzip) return bytes;
    uint8_t *packed = gzip_bytes(bytes, *length, length);
    free(bytes);
    return packed;
}

void maker_write(struct maker *maker, const char *path)
{
    size_t length;
    uint8_t *bytes = maker_bytes(maker, true, &length);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, length, file), length);
    ck_assert_int_eq(fclose(file), 0);
    free(bytes);
}
