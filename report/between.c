/* between.c: see between.h.

   Of each call stack and size of block the profiles have the sample points of all that was allocated by then, a, and of what lives, l:
   a2 - a1 were allocated in between, an independent sample.  Of these A live at the end; l2 - l1 = A - B, where B are those of the
   blocks that lived before and went.  Of A only bounds are known, of which the least is taken: a2 - a1, which counts what came and went in between as well;
   l2; and the points of live blocks whose age, in bytes that the process has allocated since, is not more than it allocated in between.
   (Ages in time would not do: a profile's clock is read when it is written, which may be long after the copy was taken that it is of.)
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/between.h"
#include "report/basics.h"
#include "report/lifetime.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Seconds by which two accounts of a process's start may differ: a profile's date and its process's age are read at two moments. */
static const double START_TOLERANCE = 2;

/* Of a call stack, the blocks of one size.  Sample points, before and after. */
struct row {
    size_t stack;
    int64_t size;
    double allocated[2], live[2];
    double young; /* of those that live after: not older than the older profile, or a little older; NAN: not known */
};

/* Seconds since 1970 at which the library began in the process, which a program that is executed in its place does not share. */
static double start_of(const struct profile *profile)
{
    const struct lifetimes *lifetimes = profile->lifetimes;
    if (lifetimes) return (double)profile->time / 1e9 - lifetimes->observed_time * lifetimes->tick;
    return head_number(profile, "start_time");
}

static bool same_text(const struct profile *a, const struct profile *b, const char *path)
{
    const char *left = head_text(a, path), *right = head_text(b, path);
    return left && right && !strcmp(left, right);
}

static bool same_process(const struct profile *newer, const struct profile *older)
{
    if (!newer->ours || !older->ours || newer->period != older->period || !newer->module_count || !older->module_count) return false;
    /* The main program, where the loader has put it. */
    if (newer->modules[0].start != older->modules[0].start || strcmp(newer->modules[0].file, older->modules[0].file)) return false;
    if (!(head_number(newer, "pid") == head_number(older, "pid")) || !same_text(newer, older, "host")) return false;
    return (!newer->lifetimes == !older->lifetimes) && fabs(start_of(newer) - start_of(older)) <= START_TOLERANCE;
}

/* Sample points of live blocks by part of the newer profile that were born after the older one; NULL where it does not say. */
static double *young_of(const struct profile *newer, const struct profile *older)
{
    const struct lifetimes *new = newer->lifetimes, *old = older->lifetimes;
    if (!new || !old || new->unit != old->unit) return NULL;
    /* Both are rounded down. */
    return lifetime_live_younger(newer, new->observed_span - old->observed_span + 1);
}

static size_t add_rows(struct row *to, const struct profile *profile, const size_t *stack_of, int side, const double *young,
                       struct between *between)
{
    size_t count = 0;
    for (size_t i = 0; i < profile->part_count; i++) {
        const struct part *part = &profile->parts[i];
        if (part->lost) continue; /* its blocks are in the other samples */
        size_t stack = stack_of[part->site];
        /* What was dropped has no size but a mean, which changes. */
        bool dropped = part->stack_note && !strcmp(part->stack_note, "dropped");
        if (dropped || part->size <= 0 || part->points[MEASURE_ALLOC] < 0 || part->points[MEASURE_LIVE] < 0) {
            between[stack].unknown = true;
            continue;
        }
        struct row *row = &to[count++];
        *row = (struct row){.stack = stack, .size = part->size};
        row->allocated[side] = (double)part->points[MEASURE_ALLOC];
        row->live[side] = (double)part->points[MEASURE_LIVE];
        if (side == 1) row->young = young ? young[i] : NAN;
    }
    return count;
}

static int compare_rows(const void *a, const void *b)
{
    const struct row *left = a, *right = b;
    if (left->stack != right->stack) return left->stack < right->stack ? -1 : 1;
    return (left->size > right->size) - (left->size < right->size);
}

static void add_points(struct tally *to, double points, int64_t period, int64_t size)
{
    double bytes = points * (double)period;
    tally_add(to, bytes / (double)size, bytes, (int64_t)points, period, size);
}

/* False where allocations have become fewer: it was not one process. */
static bool add_row(struct between *to, const struct row *row, int64_t period)
{
    double allocated = row->allocated[1] - row->allocated[0], change = row->live[1] - row->live[0];
    if (allocated < 0) return false;
    /* fmin takes the other one of a NAN.  Counts that were read while the program ran on may be at odds by a block or two. */
    double came = fmax(fmin(fmin(allocated, row->live[1]), row->young), fmax(change, 0));
    add_points(&to->allocated, allocated, period, row->size);
    add_points(&to->came, came, period, row->size);
    add_points(&to->went, came - change, period, row->size);
    return true;
}

struct between *between_profiles(const struct profile *newer, const struct profile *older, size_t *const stack_of[2], size_t count)
{
    bool counted = newer->has[MEASURE_ALLOC] && newer->has[MEASURE_LIVE] && older->has[MEASURE_ALLOC] && older->has[MEASURE_LIVE];
    if (newer->exact || !counted || !same_process(newer, older)) return NULL;
    struct between *between = need_array(count, sizeof *between);
    struct row *rows = need_array(newer->part_count + older->part_count, sizeof *rows);
    double *young = young_of(newer, older);
    size_t n = add_rows(rows, older, stack_of[0], 0, NULL, between);
    n += add_rows(rows + n, newer, stack_of[1], 1, young, between);
    qsort(rows, n, sizeof *rows, compare_rows);
    bool good = true;
    for (size_t i = 0; i < n && good;) {
        struct row sum = rows[i];
        for (i++; i < n && !compare_rows(&sum, &rows[i]); i++) {
            for (int side = 0; side < 2; side++) {
                sum.allocated[side] += rows[i].allocated[side];
                sum.live[side] += rows[i].live[side];
            }
            sum.young += rows[i].young;
        }
        good = add_row(&between[sum.stack], &sum, newer->period);
    }
    free(rows);
    free(young);
    if (good) return between;
    free(between);
    return NULL;
}

static struct estimate around(double value, struct estimate difference)
{
    return (struct estimate){value, value - (difference.value - difference.lo), value + (difference.hi - difference.value)};
}

void between_live(struct figure *change, const struct between *between, int64_t period)
{
    struct figure came = tally_figure(&between->came, period), went = tally_figure(&between->went, period);
    change->objects = around(change->objects.value, estimate_minus(came.objects, went.objects));
    change->bytes = around(change->bytes.value, estimate_minus(came.bytes, went.bytes));
}

void between_allocated(struct figure *change, const struct between *between, int64_t period)
{
    struct figure allocated = tally_figure(&between->allocated, period);
    change->objects = around(change->objects.value, allocated.objects);
    change->bytes = around(change->bytes.value, allocated.bytes);
}
