/* text.c: the report that people read.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/basics.h"
#include "report/output.h"
#include "report/print_site.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const titles[MEASURES_SHOWN] = {"Allocated", "Live", "At the peak", "Lost"};

void print_header(FILE *to, const struct profile *profile)
{
    char text[32], *command = command_text(profile);
    double pid = head_number(profile, "pid");
    if (profile->ours && !isnan(pid)) fprintf(to, "==%.0f==Gleaner: ", pid);
    fprintf(to, "heap profile of %s\n", command);
    free(command);
    fprintf(to, "    taken %s", time_text(profile->time, text));
    const char *reason = head_text(profile, "reason");
    if (reason) {
        char *clean = clean_text(reason, strlen(reason));
        fprintf(to, " (%s)", clean);
        free(clean);
    }
    if (profile->duration > 0) fprintf(to, ", after %.1f s", (double)profile->duration / 1e9);
    if (profile->exact)
        fputs("; every block was recorded\n", to);
    else if (profile->period > 0)
        fprintf(to, "; one sample every %s on average\n",
                human_bytes((double)profile->period, text));
    else
        fputs(profile->ours ? "; sampling was off\n" : "\n", to);
}

static void print_total(FILE *to, const struct profile *profile, const char *label, const char *key)
{
    char path[64], human[32];
    snprintf(path, sizeof path, "totals.%s.objects", key);
    double objects = head_number(profile, path);
    snprintf(path, sizeof path, "totals.%s.bytes", key);
    double bytes = head_number(profile, path);
    if (isnan(bytes)) return;
    if (isnan(objects))
        fprintf(to, "    %-14s %15s", label, "");
    else
        fprintf(to, "    %-14s %15.0f", label, objects);
    fprintf(to, " %17.0f  (%s)", bytes, human_bytes(bytes, human));
    double time = head_number(profile, "totals.peak.time"); /* seconds since 1970 */
    if (!strcmp(key, "peak") && time > 0 && time < 9e9)
        fprintf(to, " at %s", time_text((int64_t)(time * 1e9), human));
    fputc('\n', to);
}

static void print_totals(FILE *to, const struct profile *profile)
{
    if (!json_object_size(json_object_get(profile->head, "totals"))) return;
    fprintf(to, "\n%-18s %15s %17s\n", profile->relative ? "Newer minus older" : "Totals (exact)",
            "blocks", "bytes");
    print_total(to, profile, "allocated", "alloc");
    print_total(to, profile, "live", "live");
    if (head_number(profile, "totals.lost.bytes") != 0) print_total(to, profile, "lost", "lost");
    if (head_number(profile, "totals.indirect.bytes") != 0)
        print_total(to, profile, "  indirectly", "indirect");
    if (head_number(profile, "totals.possible.bytes") != 0)
        print_total(to, profile, "possibly lost", "possible");
    if (head_number(profile, "totals.unrecorded.bytes") != 0) print_total(to, profile, "lost, no record", "unrecorded");
    print_total(to, profile, "peak", "peak");
}

/* What was taken back, and what keeps the rest. */
static void print_reclaim(FILE *to, const struct profile *profile)
{
    const json_t *reclaim = json_object_get(profile->head, "reclaim"), *kept = json_object_get(reclaim, "kept");
    if (!json_is_object(reclaim)) return;
    fprintf(to, "    reclaimed: %.0f bytes in %.0f objects; in quarantine %.0f bytes in %.0f objects; vetoes: %.0f\n",
            head_number(profile, "totals.reclaimed.bytes"), head_number(profile, "totals.reclaimed.objects"),
            head_number(profile, "totals.quarantined.bytes"), head_number(profile, "totals.quarantined.objects"),
            head_number(profile, "reclaim.vetoes"));
    const char *why = head_text(profile, "reclaim.why_off");
    if (why) {
        char *clean = clean_text(why, strlen(why));
        fprintf(to, "    note: reclaim is off: %s\n", clean);
        free(clean);
    }
    for (int rule = 1; rule < ELIGIBLE_RULES; rule++) {
        const json_t *of = json_object_get(kept, eligible_names[rule]);
        double bytes = json_number_value(json_object_get(of, "bytes")), objects = json_number_value(json_object_get(of, "objects"));
        if (objects > 0) fprintf(to, "    not reclaimed: %.0f bytes in %.0f objects (%s)\n", bytes, objects, rule_texts[rule]);
    }
}

/* What the collector did, and its honesty: blocks that it called lost and that the program proved not to be. */
static void print_collections(FILE *to, const struct profile *profile)
{
    double minor = head_number(profile, "collections.minor"),
           major = head_number(profile, "collections.major");
    if (profile->relative || !(minor + major > 0)) return;
    double incomplete = head_number(profile, "collections.incomplete");
    fprintf(to, "\nCollections: %.0f major, %.0f minor", major, minor);
    if (incomplete > 0) fprintf(to, ", %.0f of them incomplete", incomplete);
    double pause = head_number(profile, "collections.pause_ms.max");
    if (pause > 0) fprintf(to, "; longest pause %.1f ms", pause);
    fprintf(to, "\n    false_lost: %.0f blocks, %.0f bytes",
            head_number(profile, "totals.false_lost.objects"),
            head_number(profile, "totals.false_lost.bytes"));
    if (head_number(profile, "totals.false_lost.objects") > 0)
        fputs(" (called lost, then freed, resized, written or read by the program)", to);
    fputc('\n', to);
    print_reclaim(to, profile);
    double again = head_number(profile, "totals.reached_again.objects");
    if (again > 0) fprintf(to, "    reached again by a later collection: %.0f blocks\n", again);
    const char *why = head_text(profile, "collections.latest.why_not");
    if (why) {
        char *clean = clean_text(why, strlen(why));
        fprintf(to, "    note: the latest one was incomplete and called nothing lost: %s\n", clean);
        free(clean);
    }
}

/* What the sampler could not keep, from its own counters. */
static void print_sampler(FILE *to, const struct profile *profile)
{
    static const struct {
        const char *key, *text;
    } notes[] = {
        {"sampler.dropped_entries", "sampled blocks were not tracked: the table was full"},
        {"sampler.dropped_stacks", "call stacks were not kept: the table was full"},
        {"sampler.early", "samples are from before the start and have one frame only"},
    };
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++) {
        double count = head_number(profile, notes[i].key);
        if (count > 0) fprintf(to, "    note: %.0f %s\n", count, notes[i].text);
    }
    double samples = head_number(profile, "sampler.samples");
    double one_frame = head_number(profile, "sampler.one_frame");
    if (samples >= 10 && one_frame > samples / 2)
        fprintf(to, "    note: %.0f of %.0f stacks came back one frame deep; try the other setting of unwind (libunwind, fp)\n",
                one_frame, samples);
}

static void print_sites(FILE *to, const struct profile *profile, enum measure measure, size_t top)
{
    double total = 0;
    size_t count = 0, shown = 0;
    for (size_t i = 0; i < profile->site_count; i++) {
        double bytes = profile->sites[i].figures[measure].bytes.value;
        total += bytes;
        count += bytes != 0;
    }
    char human[32];
    if (profile->ours && !profile->exact && profile->period <= 0) {
        fputs("\nNo call stacks: sampling was off\n", to);
        return;
    }
    fprintf(to, "\n%s by call stack: %.0f bytes (%s) at %zu %s", titles[measure], total,
            human_bytes(total, human), count, count == 1 ? "stack" : "stacks");
    fputs(profile->exact ? "\n" : ", estimated\n", to);
    for (size_t i = 0; i < profile->site_count; i++) {
        const struct site *site = &profile->sites[i];
        const struct figure *figure = &site->figures[measure];
        if (figure->bytes.value == 0) continue;
        if (top && shown == top) break;
        shown++;
        fprintf(to, "\n%s", titles[measure]);
        if (!profile->relative && total > 0)
            fprintf(to, " %.1f%%", 100 * figure->bytes.value / total);
        fputs(": ", to);
        print_estimate(to, figure->bytes, "bytes", profile->relative);
        fputs(" in ", to);
        print_estimate(to, figure->objects, "blocks", profile->relative);
        fputs(" allocated from:\n", to);
        print_stack(to, site);
    }
    if (shown < count) fprintf(to, "\n… and %zu more (--top 0 shows all)\n", count - shown);
}

static void print_memory(FILE *to, const struct profile *profile)
{
    const json_t *memory = json_object_get(profile->head, "memory");
    if (profile->relative || !json_object_size(memory)) return;
    fputs("\nMemory of the process\n", to);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)memory, key, value)
    {
        if (!json_is_number(value)) continue;
        /* What a collection tells. */
        if (!profile_collected(profile) && (!strcmp(key, "reachable") || !strcmp(key, "lost") || !strcmp(key, "quarantine"))) continue;
        char label[32], human[32];
        char *clean = clean_text(key, strlen(key));
        snprintf(label, sizeof label, "%s", clean);
        free(clean);
        for (char *at = label; *at; at++)
            if (*at == '_') *at = ' ';
        if (!strcmp(label, "rss")) strcpy(label, "resident (RSS)");
        fprintf(to, "    %-20s %17.0f  (%s)\n", label, json_number_value(value),
                human_bytes(json_number_value(value), human));
    }
}

void text_write(FILE *to, const struct profile *profile, enum measure measure, size_t top)
{
    print_header(to, profile);
    print_totals(to, profile);
    print_sampler(to, profile);
    print_collections(to, profile);
    bool leaks = measure == MEASURE_LOST || measure == MEASURE_LIVE;
    if (leaks && profile->ours && !profile->relative) {
        leaks_write(to, profile, top, measure == MEASURE_LOST);
        if (measure == MEASURE_LOST) return;
    }
    print_sites(to, profile, measure, top);
    print_memory(to, profile);
}
