/* growth_text.c: what changed between two profiles, for people: what is newly lost, then what grew and shrank.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/basics.h"
#include "report/output.h"
#include "report/print_site.h"

#include <math.h>
#include <stdlib.h>

enum trend { GREW, SHRANK, UNSURE, SAME };

static enum trend trend_of(const struct estimate *change)
{
    if (isnan(change->lo)) return change->value > 0 ? GREW : change->value < 0 ? SHRANK : SAME;
    if (change->lo > 0) return GREW;
    if (change->hi < 0) return SHRANK;
    return change->value == 0 ? SAME : UNSURE;
}

static void print_trend(FILE *to, const struct profile *difference, enum measure measure,
                        enum trend wanted, size_t top)
{
    const char *const verb = measure == MEASURE_LOST
                                 ? wanted == GREW ? "Newly lost" : "No longer lost"
                             : wanted == GREW ? "Grew"
                                              : "Shrank";
    size_t shown = 0, count = 0;
    for (size_t i = 0; i < difference->site_count; i++)
        count += trend_of(&difference->sites[i].figures[measure].bytes) == wanted;
    for (size_t n = 0; n < difference->site_count && (!top || shown < top); n++) {
        /* Sorted by falling growth: what shrank most is at the end. */
        size_t i = wanted == SHRANK ? difference->site_count - 1 - n : n;
        const struct site *site = &difference->sites[i];
        const struct figure *change = &site->figures[measure];
        if (trend_of(&change->bytes) != wanted) continue;
        shown++;
        fprintf(to, "\n%s: ", verb);
        print_estimate(to, change->bytes, "bytes", true);
        fputs(" in ", to);
        print_estimate(to, change->objects, "blocks", true);
        fprintf(to, ", from %.0f to %.0f bytes, allocated from:\n",
                site->before[measure].bytes.value, site->after[measure].bytes.value);
        print_stack(to, site);
    }
    if (shown < count)
        fprintf(to, "\n… and %zu more that %s (--top 0 shows all)\n", count - shown,
                measure == MEASURE_LOST ? wanted == GREW ? "are newly lost" : "are no longer lost"
                : wanted == GREW        ? "grew"
                                        : "shrank");
}

/* The stacks that lost blocks in between, most first. */
static void print_newly_lost(FILE *to, struct profile *difference, const struct profile *newer,
                             const struct profile *older, size_t top)
{
    if (!profile_collected(newer)) return;
    double lost[2] = {head_number(older, "totals.lost.bytes"),
                      head_number(newer, "totals.lost.bytes")};
    char human[2][32];
    fprintf(to, "    lost, exact: %s to %s, %+.0f bytes\n", human_bytes(lost[0], human[0]),
            human_bytes(lost[1], human[1]), lost[1] - lost[0]);
    if (!profile_collected(older))
        fputs("    note: nobody had looked for lost blocks before the older profile\n", to);
    model_sort(difference, MEASURE_LOST);
    print_trend(to, difference, MEASURE_LOST, GREW, top);
    print_trend(to, difference, MEASURE_LOST, SHRANK, top);
    model_sort(difference, MEASURE_LIVE);
}

void growth_write(FILE *to, struct profile *difference, const struct profile *newer,
                  const struct profile *older, size_t top)
{
    char times[2][32], *command = command_text(newer);
    fprintf(to, "Growth of live memory of %s\n    from %s to %s", command,
            time_text(older->time, times[0]), time_text(newer->time, times[1]));
    free(command);
    if (older->time > 0 && newer->time > 0)
        fprintf(to, " (%.1f s)", (double)(newer->time - older->time) / 1e9);
    fputc('\n', to);
    double live[2] = {head_number(older, "totals.live.bytes"),
                      head_number(newer, "totals.live.bytes")};
    if (!isnan(live[0]) && !isnan(live[1])) {
        char human[2][32];
        fprintf(to, "    live, exact: %s to %s, %+.0f bytes\n", human_bytes(live[0], human[0]),
                human_bytes(live[1], human[1]), live[1] - live[0]);
    }
    print_newly_lost(to, difference, newer, older, top);
    size_t unsure = 0, sure = 0;
    double noise = 0;
    for (size_t i = 0; i < difference->site_count; i++) {
        const struct estimate *change = &difference->sites[i].figures[MEASURE_LIVE].bytes;
        enum trend trend = trend_of(change);
        if (trend == UNSURE) {
            unsure++;
            noise += change->value;
        }
        sure += trend == GREW || trend == SHRANK;
    }
    print_trend(to, difference, MEASURE_LIVE, GREW, top);
    print_trend(to, difference, MEASURE_LIVE, SHRANK, top);
    if (!sure) fputs("\nNothing grew or shrank beyond the noise of sampling.\n", to);
    if (unsure)
        fprintf(to, "\nWithin the noise of sampling: %zu %s, together %+.0f bytes.\n", unsure, unsure == 1 ? "stack" : "stacks",
                noise);
}
