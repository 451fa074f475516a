/* survival_text.c: how long blocks live, by call stack, in one table: cache or leak?
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/basics.h"
#include "report/lifetime.h"
#include "report/output.h"
#include "report/print_site.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Ages of the columns. */
static const struct {
    double age; /* seconds, bytes */
    const char *name;
} time_columns[] = {{1, "1 s"}, {10, "10 s"}, {60, "60 s"}, {600, "10 min"}},
  span_columns[] = {{0x1p20, "1 MiB"}, {0x1p26, "64 MiB"}, {0x1p30, "1 GiB"}};
enum { TIMES = sizeof time_columns / sizeof *time_columns, SPANS = sizeof span_columns / sizeof *span_columns };

static int compare(const void *a, const void *b)
{
    const struct site *left = a, *right = b;
    for (int i = 0; i < 2; i++) {
        enum measure measure = i ? MEASURE_ALLOC : MEASURE_LIVE;
        double l = left->figures[measure].bytes.value, r = right->figures[measure].bytes.value;
        if (l != r) return l < r ? 1 : -1;
    }
    for (size_t i = 0; i < left->depth && i < right->depth; i++) {
        uint64_t x = left->stack[i]->address, y = right->stack[i]->address;
        if (x != y) return x < y ? -1 : 1;
    }
    return (left->depth > right->depth) - (left->depth < right->depth);
}

void survival_sort(struct profile *profile)
{
    qsort(profile->sites, profile->site_count, sizeof *profile->sites, compare);
}

static void cell(FILE *to, int width, const char *text)
{
    fprintf(to, " %*s", width, text);
}

/* Neither 0 nor 100 unless it is. */
static void percent_cell(FILE *to, int width, double share)
{
    char text[16];
    double percent = 100 * share;
    if (isnan(share)) strcpy(text, "-");
    else if (percent > 0 && percent < 0.5) strcpy(text, "<1%");
    else if (percent < 100 && percent > 99.5) strcpy(text, ">99%");
    else snprintf(text, sizeof text, "%.0f%%", percent);
    cell(to, width, text);
}

static void age_text(double seconds, char *to, size_t bytes)
{
    if (seconds < 0.95) snprintf(to, bytes, "%.0f ms", 1000 * seconds);
    else if (seconds < 119.5) snprintf(to, bytes, "%.3g s", seconds);
    else if (seconds < 7200) snprintf(to, bytes, "%.0f min", seconds / 60);
    else if (seconds < 48 * 3600) snprintf(to, bytes, "%.1f h", seconds / 3600);
    else snprintf(to, bytes, "%.1f d", seconds / 86400);
}

/* ">" and the oldest age that is known where more than half outlive it. */
static void median_cell(FILE *to, int width, const struct survival *survival, double tick)
{
    char text[24] = "-", age[20];
    double median = survival_median(survival);
    if (!isnan(median)) {
        age_text(fmax(median, 1) * tick, age, sizeof age);
        snprintf(text, sizeof text, "%s%s", median < 1 ? "<" : "", age);
    } else if (survival->at_risk[0] > 0) {
        unsigned last = survival->steps->count - 1;
        while (last > 0 && !(survival->at_risk[last] > 0)) last--;
        double least = (double)survival->steps->least(last);
        age_text(fmax(least, 1) * tick, age, sizeof age);
        snprintf(text, sizeof text, ">%s", age);
    }
    cell(to, width, text);
}

/* The innermost functions, as many as fit. */
static void print_place(FILE *to, const struct site *site)
{
    enum { MOST = 100, FRAMES = 5 };
    size_t used = 0;
    fputs("      ", to);
    for (size_t i = 0; i < site->step_count && i < FRAMES; i++) {
        char name[MOST + 1], line[160];
        const struct frame *frame = site->steps[i].frame;
        step_name(&site->steps[i], name, sizeof name);
        snprintf(line, sizeof line, "%s%s", i ? " < " : "", name);
        const char *file = i == 0 && frame && frame->file ? strrchr(frame->file, '/') : NULL;
        file = file ? file + 1 : i == 0 && frame ? frame->file : NULL;
        if (file && frame->line)
            snprintf(line, sizeof line, "%s %.40s:%" PRId64, name, file, frame->line);
        size_t length = strlen(line);
        if (i > 0 && used + length > MOST) {
            fputs(" < …", to);
            break;
        }
        fputs(line, to);
        used += length;
    }
    if (!site->step_count) fputs("(no call stack)", to);
    fputc('\n', to);
}

static void print_row(FILE *to, const struct profile *profile, const struct site *site, bool old_known)
{
    const struct lifetimes *all = profile->lifetimes;
    const struct lifetime *of = site->lifetime;
    struct survival time, span;
    char text[32];
    double total = of ? lifetime_total(site) : 0;
    fprintf(to, "\n%-11s", verdict_names[lifetime_verdict(profile, site)]);
    cell(to, 10, human_bytes(site->figures[MEASURE_LIVE].bytes.value, text));
    cell(to, 10, human_bytes(site->figures[MEASURE_ALLOC].bytes.value, text));
    double young = of && total > 0 ? of->young.bytes.value / total : NAN;
    double old = of && total > 0 && old_known ? of->old.bytes.value / total : NAN;
    double promoted = of && total > 0 && old_known ? of->live_old.bytes.value / total + old : NAN;
    percent_cell(to, 6, young);
    percent_cell(to, 8, promoted);
    percent_cell(to, 6, old);
    bool have_time = lifetime_by_time(profile, site, &time);
    if (have_time) median_cell(to, 9, &time, all->tick);
    else cell(to, 9, "-");
    fputs(" |", to);
    for (int i = 0; i < TIMES; i++)
        percent_cell(to, 6, have_time ? survival_share(&time, time_columns[i].age / all->tick).value : NAN);
    fputs(" |", to);
    bool have_span = lifetime_by_span(profile, site, &span);
    for (int i = 0; i < SPANS; i++)
        percent_cell(to, 6, have_span ? survival_share(&span, span_columns[i].age / all->unit).value : NAN);
    fputc('\n', to);
    print_place(to, site);
}

static void print_notes(FILE *to, const struct profile *profile, bool old_known)
{
    const struct lifetimes *all = profile->lifetimes;
    if (!old_known)
        fputs("    note: no collection yet, so nothing is promoted; what grows is judged by ages\n", to);
    if (!profile_collected(profile))
        fputs("    note: nobody has looked for lost blocks: what grows may be a leak "
              "(gleaner report PID --show survival looks)\n", to);
    if (all->dropped > 0)
        fprintf(to, "    note: the ages of %.0f blocks were not kept: a table was full\n", all->dropped);
    if (all->observed_time < LIFETIME_TICKS)
        fputs("    note: less than a second was observed: what grows is judged by bytes allocated\n", to);
}

void survival_write(FILE *to, const struct profile *profile, size_t top)
{
    const struct lifetimes *all = profile->lifetimes;
    bool old_known = lifetime_knows_old(profile);
    size_t count = 0, shown = 0, of_verdict[VERDICTS] = {0};
    double bytes[VERDICTS] = {0};
    char age[24], human[32];
    print_header(to, profile);
    age_text(all->observed_time * all->tick, age, sizeof age);
    fprintf(to, "    observed for %s, in which %s were allocated\n", age,
            human_bytes(all->observed_span * all->unit, human));
    print_notes(to, profile, old_known);
    fprintf(to, "\nSurvival by call stack, of bytes%s\n\n%-11s %10s %10s %6s %8s %6s %9s | alive after",
            profile->exact ? "" : ", estimated", "verdict", "live", "allocated", "died", "promoted", "died", "median");
    fprintf(to, "%*s| alive after allocating\n%-11s %10s %10s %6s %8s %6s %9s |", 7 * TIMES - 11, "", "", "", "",
            "young", "", "old", "age");
    for (int i = 0; i < TIMES; i++) cell(to, 6, time_columns[i].name);
    fputs(" |", to);
    for (int i = 0; i < SPANS; i++) cell(to, 6, span_columns[i].name);
    fputc('\n', to);
    for (size_t i = 0; i < profile->site_count; i++) {
        const struct site *site = &profile->sites[i];
        if (!site->lifetime && site->figures[MEASURE_LIVE].bytes.value <= 0 &&
            site->figures[MEASURE_LOST].bytes.value <= 0)
            continue;
        enum verdict verdict = lifetime_verdict(profile, site);
        of_verdict[verdict]++;
        bytes[verdict] += site->figures[MEASURE_LIVE].bytes.value;
        count++;
        if (top && shown == top) continue;
        shown++;
        print_row(to, profile, site, old_known);
    }
    if (shown < count) fprintf(to, "\n… and %zu more (--top 0 shows all)\n", count - shown);
    fputs("\nTogether:", to);
    for (int i = VERDICT_GROWING; i < VERDICTS; i++)
        fprintf(to, "%s %zu %s (%s live)", i > VERDICT_GROWING ? "," : "", of_verdict[i], verdict_names[i],
                human_bytes(bytes[i], human));
    fputc('\n', to);
}
