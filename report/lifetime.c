/* lifetime.c: from the rows of lifetimes to the sites.  doc/format.md has the rows.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/lifetime.h"
#include "report/basics.h"
#include "report/tally.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char mark[] = "gleaner-lifetimes:";
static const double MOST = 9007199254740992; /* 2^53: what a double counts exactly, and more than any clock */

struct part_by_number {
    uint64_t number;
    struct part *part;
};

struct reading {
    struct profile *to;
    struct part_by_number *parts; /* sorted; those that have a number */
    size_t count;
    struct lifetime_tally {
        struct tally young, old, elsewhere, live_old;
    } * tallies; /* by site number */
    struct lifetime **of; /* by site number */
    const char *problem;
};

static int by_number(const void *a, const void *b)
{
    const struct part_by_number *left = a, *right = b;
    return (left->number > right->number) - (left->number < right->number);
}

/* The only part of that number. */
static struct part *part_of(const struct reading *reading, uint64_t number)
{
    size_t low = 0, high = reading->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (reading->parts[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == reading->count || reading->parts[low].number != number) return NULL;
    if (low + 1 < reading->count && reading->parts[low + 1].number == number) return NULL;
    return reading->parts[low].part;
}

/* A whole number from 0 to `most`, or false. */
static bool whole(const json_t *value, double most, double *to)
{
    if (!json_is_integer(value)) return false;
    *to = (double)json_integer_value(value);
    return *to >= 0 && *to <= most;
}

struct weights {
    double bytes, objects, points; /* of one */
};

static struct weights weights_of(const struct profile *profile, const struct part *part)
{
    double size = (double)part->size, period = (double)profile->period;
    if (profile->exact) return (struct weights){size, 1, 1};
    return (struct weights){period, size > 0 ? period / size : 0, 1};
}

/* A list of steps, each followed by its weight; added up to `to`. */
static bool read_steps(const json_t *list, unsigned count, double bytes, double *to, double *sum)
{
    size_t n = json_array_size(list);
    if (!json_is_array(list) || n % 2) return false;
    for (size_t i = 0; i < n; i += 2) {
        double step, weight;
        if (!whole(json_array_get(list, i), count - 1, &step) ||
            !whole(json_array_get(list, i + 1), MOST, &weight))
            return false;
        to[(size_t)step] += weight * bytes;
        *sum += weight;
    }
    return true;
}

static void add(const struct reading *reading, struct tally *to, double n,
                const struct weights *each, const struct part *part)
{
    tally_add(to, n * each->objects, n * each->bytes, (int64_t)n, reading->to->period, part->size);
}

static bool read_row(struct reading *reading, const json_t *row)
{
    double number, n[4], seen = 0, spans = 0;
    if (json_array_size(row) != 9 || !whole(json_array_get(row, 0), MOST, &number)) return false;
    for (size_t i = 0; i < 4; i++)
        if (!whole(json_array_get(row, i + 1), MOST, &n[i])) return false;
    struct part *part = part_of(reading, (uint64_t)number);
    struct lifetime unused = {0}, *to = &unused;
    struct weights each = {0};
    if (part) {
        struct lifetime **of = &reading->of[part->site];
        if (!*of) *of = arena_need(&reading->to->arena, 1, sizeof **of);
        to = *of;
        each = weights_of(reading->to, part);
    }
    if (!read_steps(json_array_get(row, 5), LIFETIME_TIMES, each.bytes, to->died_time, &seen) ||
        !read_steps(json_array_get(row, 6), LIFETIME_SPANS, each.bytes, to->died_span, &spans) ||
        !read_steps(json_array_get(row, 7), LIFETIME_TIMES, each.bytes, to->live_time, &seen) ||
        !read_steps(json_array_get(row, 8), LIFETIME_SPANS, each.bytes, to->live_span, &spans))
        return false;
    if (!part) return true;
    to->points += seen * each.points;
    to->blocks += seen * each.objects;
    struct lifetime_tally *tally = &reading->tallies[part->site];
    add(reading, &tally->young, n[0], &each, part);
    add(reading, &tally->old, n[1], &each, part);
    add(reading, &tally->elsewhere, n[2], &each, part);
    add(reading, &tally->live_old, n[3], &each, part);
    return true;
}

/* [a, b] */
static bool read_pair(const json_t *pair, double *a, double *b)
{
    return json_array_size(pair) == 2 && whole(json_array_get(pair, 0), MOST, a) &&
           whole(json_array_get(pair, 1), MOST, b);
}

static bool read_comment(struct reading *reading, struct lifetimes *to, const char *text)
{
    json_error_t error;
    json_t *all = json_loads(text, 0, &error);
    const json_t *sites = json_object_get(all, "sites");
    double ticks, unit;
    bool good = json_is_object(all) && json_integer_value(json_object_get(all, "version")) == 1 &&
                read_pair(json_object_get(all, "steps"), &ticks, &unit) && ticks > 0 && unit > 0 &&
                read_pair(json_object_get(all, "observed"), &to->observed_time,
                          &to->observed_span) &&
                whole(json_object_get(all, "dropped"), MOST, &to->dropped) && json_is_array(sites);
    if (good) {
        to->tick = 1 / ticks;
        to->unit = unit;
    }
    for (size_t i = 0; good && i < json_array_size(sites); i++)
        good = read_row(reading, json_array_get(sites, i));
    json_decref(all);
    return good;
}

static void set_sites(struct reading *reading)
{
    struct profile *profile = reading->to;
    for (size_t i = 0; i < profile->site_count; i++) {
        struct lifetime *of = reading->of[profile->sites[i].number];
        const struct lifetime_tally *tally = &reading->tallies[profile->sites[i].number];
        if (!of) continue;
        of->young = tally_figure(&tally->young, profile->period);
        of->old = tally_figure(&tally->old, profile->period);
        of->elsewhere = tally_figure(&tally->elsewhere, profile->period);
        of->live_old = tally_figure(&tally->live_old, profile->period);
        profile->sites[i].lifetime = of;
    }
}

static void find_parts(struct reading *reading)
{
    const struct profile *profile = reading->to;
    reading->parts = need_array(profile->part_count, sizeof *reading->parts);
    for (size_t i = 0; i < profile->part_count; i++) {
        struct part *part = &profile->parts[i];
        if (part->number && !part->lost)
            reading->parts[reading->count++] = (struct part_by_number){part->number, part};
    }
    qsort(reading->parts, reading->count, sizeof *reading->parts, by_number);
}

bool lifetime_read(struct profile *profile, const char *const *comments, size_t count,
                   char problem[PROBLEM_BYTES])
{
    struct reading reading = {.to = profile};
    struct lifetimes *to = NULL;
    bool good = true;
    for (size_t i = 0; i < count && good; i++) {
        const char *text = comments[i] + (*comments[i] == '#');
        if (strncmp(text, mark, sizeof mark - 1)) continue;
        if (!to) {
            to = arena_need(&profile->arena, 1, sizeof *to);
            to->comments = arena_need(&profile->arena, count, sizeof *to->comments);
            find_parts(&reading);
            reading.of = need_array(profile->site_count, sizeof *reading.of);
            reading.tallies = need_array(profile->site_count, sizeof *reading.tallies);
        }
        size_t bytes = strlen(comments[i]) + 1;
        char *copy = arena_need(&profile->arena, bytes, 1);
        to->comments[to->comment_count++] = memcpy(copy, comments[i], bytes);
        good = read_comment(&reading, to, text + sizeof mark - 1);
    }
    if (good && to) {
        set_sites(&reading);
        profile->lifetimes = to;
    }
    if (!good)
        snprintf(problem, PROBLEM_BYTES, "is damaged or cut short (its lifetimes do not parse)");
    free(reading.parts);
    free(reading.of);
    free(reading.tallies);
    return good;
}

/* The weights of the steps that begin at `units` or before. */
static double sum_younger(const json_t *list, double units)
{
    double sum = 0;
    for (size_t i = 0; i + 1 < json_array_size(list); i += 2)
        if ((double)lifetime_span_least((unsigned)json_integer_value(json_array_get(list, i))) <= units)
            sum += (double)json_integer_value(json_array_get(list, i + 1));
    return sum;
}

double *lifetime_live_younger(const struct profile *profile, double units)
{
    const struct lifetimes *from = profile->lifetimes;
    if (!from || from->dropped > 0 || profile->exact) return NULL;
    struct reading reading = {.to = (struct profile *)profile};
    double *points = need_array(profile->part_count, sizeof *points);
    for (size_t i = 0; i < profile->part_count; i++) points[i] = NAN;
    find_parts(&reading);
    for (size_t i = 0; i < from->comment_count; i++) {
        const char *text = from->comments[i] + (*from->comments[i] == '#') + sizeof mark - 1;
        json_t *all = json_loads(text, 0, NULL), *row; /* lifetime_read has found them good */
        size_t n;
        json_array_foreach(json_object_get(all, "sites"), n, row)
        {
            const struct part *part = part_of(&reading, (uint64_t)json_integer_value(json_array_get(row, 0)));
            if (part) points[part - profile->parts] = sum_younger(json_array_get(row, 8), units);
        }
        json_decref(all);
    }
    free(reading.parts);
    return points;
}

double lifetime_total(const struct site *site)
{
    const struct lifetime *of = site->lifetime;
    return of->young.bytes.value + of->old.bytes.value + site->figures[MEASURE_LIVE].bytes.value;
}

/* Sample points behind a byte: where blocks are larger than the interval, blocks, for their points live and die together. */
static double points_a_byte(const struct profile *profile, const double *died, const double *live,
                            unsigned count, const struct lifetime *of)
{
    double bytes = 0;
    for (unsigned i = 0; i < count; i++) bytes += died[i] + live[i];
    if (profile->exact || bytes <= 0) return 0;
    return fmin(of->points, of->blocks > 0 ? of->blocks : of->points) / bytes;
}

bool lifetime_by_time(const struct profile *profile, const struct site *site, struct survival *to)
{
    const struct lifetime *of = site->lifetime;
    if (!of) return false;
    survival_make(to, &survival_times, of->died_time, of->live_time,
                  profile->lifetimes->observed_time);
    to->points = points_a_byte(profile, of->died_time, of->live_time, LIFETIME_TIMES, of);
    return true;
}

bool lifetime_by_span(const struct profile *profile, const struct site *site, struct survival *to)
{
    const struct lifetime *of = site->lifetime;
    if (!of) return false;
    survival_make(to, &survival_spans, of->died_span, of->live_span,
                  profile->lifetimes->observed_span);
    to->points = points_a_byte(profile, of->died_span, of->live_span, LIFETIME_SPANS, of);
    return true;
}

bool lifetime_knows_old(const struct profile *profile)
{
    if (head_number(profile, "collections.minor") + head_number(profile, "collections.major") > 0)
        return true;
    for (size_t i = 0; i < profile->site_count; i++) {
        const struct lifetime *of = profile->sites[i].lifetime;
        if (of && of->old.bytes.value + of->live_old.bytes.value > 0) return true;
    }
    return false;
}
