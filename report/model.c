/* model.c: sums, order, and the unfolding of stacks into printed steps.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/model.h"
#include "report/basics.h"
#include "report/holders.h"

#include <math.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

const char *const measure_names[MEASURES_SHOWN] = {"alloc", "live", "peak", "lost"};

void profile_free(struct profile *profile)
{
    if (!profile) return;
    json_decref(profile->head);
    arena_free(&profile->arena);
    free(profile);
}

struct estimate exactly(double value)
{
    return (struct estimate){value, value, value};
}

bool is_estimated(struct estimate estimate)
{
    return !(estimate.lo == estimate.value && estimate.hi == estimate.value);
}

struct estimate estimate_plus(struct estimate a, struct estimate b)
{
    double sum = a.value + b.value;
    return (struct estimate){sum, sum - hypot(a.value - a.lo, b.value - b.lo),
                             sum + hypot(a.hi - a.value, b.hi - b.value)};
}

struct estimate estimate_minus(struct estimate a, struct estimate b)
{
    double difference = a.value - b.value;
    return (struct estimate){difference, difference - hypot(a.value - a.lo, b.hi - b.value),
                             difference + hypot(a.hi - a.value, b.value - b.lo)};
}

uint64_t place_offset(const struct place *place)
{
    if (!place->module) return place->address;
    return place->address - place->module->start + place->module->offset;
}

/* -- frames to drop -----------------------------------------------------------------------------
 */

/* The expressions come out of an untrusted file and are meant for RE2.  POSIX expressions without
   back references and counted repetition match in bounded time and space; anything else is not
   applied. */
static bool compile_whole(regex_t *to, const char *pattern)
{
    if (!pattern || !*pattern || strlen(pattern) > 4096 || strchr(pattern, '{')) return false;
    char *plain = need(strlen(pattern) + 5), *at = plain;
    *at++ = '^';
    *at++ = '(';
    for (const char *from = pattern; *from; from++) {
        bool escape = *from == '\\';
        if (escape && (!from[1] || strchr("0123456789dDwWsSbBpPAzQE", from[1]))) {
            free(plain);
            return false;
        }
        *at++ = *from;
        if (escape)
            *at++ = *++from;
        else if (*from == '(' && from[1] == '?' && from[2] == ':')
            from += 2; /* RE2's group without capture: we never ask what a group matched */
    }
    strcpy(at, ")$");
    bool good = !regcomp(to, plain, REG_EXTENDED | REG_NOSUB);
    free(plain);
    return good;
}

static bool matches(const regex_t *expression, const char *name)
{
    return name && strlen(name) <= 4096 && !regexec(expression, name, 0, NULL, 0);
}

/* As pprof's Prune: from the root, after the first frame that is not dropped, the first dropped
   frame goes with everything that it called. */
static size_t steps_to_cut(const struct step *steps, size_t count, const regex_t *drop,
                           const regex_t *keep)
{
    bool user_seen = false;
    for (size_t i = count; i-- > 0;) {
        const char *name = steps[i].frame ? steps[i].frame->function : NULL;
        bool dropped = matches(drop, name) && !(keep && matches(keep, name));
        if (!dropped)
            user_seen = true;
        else if (user_seen)
            return i + 1;
    }
    return 0;
}

static void unfold(struct profile *profile, struct site *site, const regex_t *drop, const regex_t *keep)
{
    size_t count = 0;
    for (size_t j = 0; j < site->depth; j++) {
        size_t frames = site->stack[j]->frame_count;
        count += frames ? frames : 1;
    }
    struct step *steps = arena_need(&profile->arena, count, sizeof *steps), *at = steps;
    for (size_t j = 0; j < site->depth; j++) {
        struct place *place = site->stack[j];
        if (!place->frame_count) *at++ = (struct step){place, NULL};
        for (size_t k = 0; k < place->frame_count; k++)
            *at++ = (struct step){place, &place->frames[k]};
    }
    size_t cut = drop ? steps_to_cut(steps, count, drop, keep) : 0;
    site->steps = steps + cut;
    site->step_count = count - cut;
}

void model_unfold(struct profile *profile)
{
    regex_t drop, keep;
    bool have_drop = compile_whole(&drop, profile->drop);
    bool have_keep = have_drop && compile_whole(&keep, profile->keep);
    const regex_t *dropped = have_drop ? &drop : NULL, *kept = have_keep ? &keep : NULL;
    for (size_t i = 0; i < profile->site_count; i++) unfold(profile, &profile->sites[i], dropped, kept);
    struct holders *holders = profile->holders;
    for (size_t i = 0; holders && i < holders->stack_count; i++) unfold(profile, &holders->stacks[i], dropped, kept);
    for (size_t i = 0; holders && i < holders->held_count; i++)
        for (size_t j = 0; j < holders->held[i].way_count; j++)
            if (holders->held[i].ways[j].frame) unfold(profile, holders->held[i].ways[j].frame, NULL, NULL);
    if (have_drop) regfree(&drop);
    if (have_keep) regfree(&keep);
}

/* -- order --------------------------------------------------------------------------------------
 */

static int compare_sites(const void *a, const void *b, void *measure)
{
    const struct site *left = a, *right = b;
    enum measure by = *(enum measure *)measure;
    double l = left->figures[by].bytes.value, r = right->figures[by].bytes.value;
    if (l != r) return l < r ? 1 : -1;
    l = left->figures[by].objects.value;
    r = right->figures[by].objects.value;
    if (l != r) return l < r ? 1 : -1;
    for (size_t i = 0; i < left->depth && i < right->depth; i++) {
        uint64_t x = left->stack[i]->address, y = right->stack[i]->address;
        if (x != y) return x < y ? -1 : 1;
    }
    return (left->depth > right->depth) - (left->depth < right->depth);
}

void model_sort(struct profile *profile, enum measure measure)
{
    qsort_r(profile->sites, profile->site_count, sizeof *profile->sites, compare_sites, &measure);
}

/* -- the head -----------------------------------------------------------------------------------
 */

static const json_t *head_at(const struct profile *profile, const char *path)
{
    const json_t *at = profile->head;
    while (*path && at) {
        size_t length = strcspn(path, ".");
        char key[64];
        if (length >= sizeof key) return NULL;
        memcpy(key, path, length);
        key[length] = 0;
        at = json_object_get(at, key);
        path += length + (path[length] == '.');
    }
    return at;
}

double head_number(const struct profile *profile, const char *path)
{
    const json_t *at = head_at(profile, path);
    return json_is_number(at) ? json_number_value(at) : NAN;
}

const char *head_text(const struct profile *profile, const char *path)
{
    return json_string_value(head_at(profile, path));
}
