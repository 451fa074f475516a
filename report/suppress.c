/* suppress.c: leaves known leaks out of a profile.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/suppress.h"
#include "report/basics.h"
#include "sampler/suppressions.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The parser's lines begin as ours do. */
static void complain(const char *line)
{
    static const char head[] = "gleaner: ";
    bool has = !strncmp(line, head, sizeof head - 1);
    say("%s", has ? line + sizeof head - 1 : line);
}

static bool known_already(const struct suppressions *known, const char *pattern)
{
    uint64_t blocks, bytes;
    for (unsigned i = 0; known && i < suppressions_total(known); i++)
        if (!strcmp(suppressions_pattern(known, i, &blocks, &bytes), pattern)) return true;
    return false;
}

/* A profile may come from anybody, and every name is matched against every pattern. */
enum { PATTERNS_OF_PROCESS = 4096 };

/* The process may have read the very file that was named here: no pattern twice. */
static void add_of_process(struct profile *profile)
{
    const json_t *patterns = json_object_get(profile->head, "suppressions");
    char *text = NULL;
    size_t length = 0, index;
    json_t *value;
    FILE *to = open_memstream(&text, &length);
    if (!to) return;
    json_array_foreach(patterns, index, value)
    {
        const char *pattern = json_string_value(value);
        if (index == PATTERNS_OF_PROCESS) {
            say("of the %zu suppressions in the profile %zu are applied", json_array_size(patterns),
                index);
            break;
        }
        if (pattern && !known_already(profile->known, pattern)) fprintf(to, "leak:%s\n", pattern);
    }
    fclose(to);
    if (length) suppressions_parse(&profile->known, text, length, "the profile", complain);
    free(text);
}

/* The first pattern that matches a frame of the stack, from the leaf on; -1: none. */
static int match(const struct suppressions *known, const struct site *site)
{
    for (size_t i = 0; i < site->step_count; i++) {
        const struct frame *frame = site->steps[i].frame;
        const struct module *module = site->steps[i].place->module;
        int number = suppressions_match(known, frame ? frame->function : NULL,
                                        frame ? frame->file : NULL, module ? module->file : NULL);
        if (number >= 0) return number;
    }
    return -1;
}

static int compare_numbers(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

static uint64_t whole(double value)
{
    return value > 0 && value < 9e18 ? (uint64_t)llround(value) : 0;
}

void suppress_known(struct profile *profile, const char *const *files, size_t count)
{
    for (size_t i = 0; i < count; i++) suppressions_read(&profile->known, files[i], complain);
    add_of_process(profile);
    if (!profile->known || !suppressions_total(profile->known)) return;

    int *pattern = need_array(profile->site_count,
                              sizeof *pattern); /* by the site's number; -2: not looked for */
    const struct site **sites = need_array(profile->site_count, sizeof *sites);
    uint64_t *heads = need_array(profile->part_count, sizeof *heads);
    size_t head_count = 0;
    for (size_t i = 0; i < profile->site_count; i++) {
        sites[profile->sites[i].number] = &profile->sites[i];
        pattern[i] = -2;
    }
    for (size_t i = 0; i < profile->part_count; i++) {
        struct lost_row *row = profile->parts[i].lost;
        size_t site = profile->parts[i].site;
        if (!row || row->kind >= MEASURE_FALSE) continue;
        if (pattern[site] == -2) pattern[site] = match(profile->known, sites[site]);
        if (pattern[site] < 0) continue;
        row->suppressed = true;
        if (row->kind == MEASURE_DIRECT && row->number) heads[head_count++] = row->number;
        if (row->kind != MEASURE_POSSIBLE)
            suppressions_count(profile->known, pattern[site], whole(row->figure.objects.value),
                               whole(row->figure.bytes.value));
    }
    qsort(heads, head_count, sizeof *heads, compare_numbers);
    for (size_t i = 0; i < profile->part_count; i++) {
        struct lost_row *row = profile->parts[i].lost;
        if (row && row->head &&
            bsearch(&row->head, heads, head_count, sizeof *heads, compare_numbers))
            row->suppressed = true;
    }
    free(heads);
    free(sites);
    free(pattern);
    model_sum_lost(profile);
}

double unsuppressed_blocks(const struct profile *profile)
{
    double sum = 0, all = head_number(profile, "totals.lost.objects"), unrecorded = head_number(profile, "totals.unrecorded.objects");
    if (unrecorded > 0) sum = unrecorded;
    bool some = false;
    for (size_t i = 0; i < profile->part_count; i++)
        some |= profile->parts[i].lost && profile->parts[i].lost->suppressed;
    if (!some && !isnan(all)) return sum + all;
    for (size_t i = 0; i < profile->site_count; i++)
        sum += profile->sites[i].figures[MEASURE_LOST].objects.value;
    return sum;
}
