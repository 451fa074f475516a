/* holders_text.c: who holds the blocks of a call stack, for people.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/basics.h"
#include "report/holders.h"
#include "report/output.h"
#include "report/print_site.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { FRAMES = 4 }; /* of the call stack of a block on the way */

static const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

/* Indented by four more. */
static void print_inner_stack(FILE *to, const struct site *stack)
{
    char *text = NULL;
    size_t length;
    struct site shown = *stack;
    if (shown.step_count > FRAMES) shown.step_count = FRAMES;
    FILE *memory = open_memstream(&text, &length);
    if (!memory) return;
    print_stack(memory, &shown);
    fclose(memory);
    for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1)
        fprintf(to, "    %.*s\n", (int)(end - line), line);
    free(text);
}

static void print_step(FILE *to, const struct way_step *step)
{
    fputs("    -> ", to);
    if (!step->bytes) { /* left out */
        fprintf(to, "%" PRIu64 " more block%s, not listed\n", step->most, plural(step->most));
        return;
    }
    if (step->least != step->most)
        fprintf(to, "%" PRIu64 " to %" PRIu64 " blocks of %" PRIu64 " bytes, one holding the next,", step->least, step->most,
                step->bytes);
    else if (step->most > 1)
        fprintf(to, "%" PRIu64 " blocks of %" PRIu64 " bytes, one holding the next,", step->most, step->bytes);
    else
        fprintf(to, "a block of %" PRIu64 " bytes", step->bytes);
    if (step->offset_low >= 0) fprintf(to, " at +%" PRId64, step->offset_low);
    if (step->offset_low >= 0 && step->offset_high > step->offset_low) fprintf(to, " to +%" PRId64, step->offset_high);
    const struct site *stack = step->stack;
    if (!stack) {
        fputs(step->most > 1 ? "; they were not sampled\n" : "; it was not sampled\n", to);
        return;
    }
    fputs(", allocated from:\n", to);
    print_inner_stack(to, stack);
}

static void print_way(FILE *to, const struct held *held, const struct way *way)
{
    char *root = holder_text(&way->root, way->how, way->frame);
    fprintf(to, "\n%" PRIu64 " of %" PRIu64 " held by %s", way->count, held->looked_at, root);
    free(root);
    if (!way->has_only)
        fputc('\n', to);
    else if (way->exclusive == way->count)
        fputs(", and by nothing else\n", to);
    else if (way->exclusive == 0)
        fputs(", and from elsewhere, too\n", to);
    else
        fprintf(to, "; %" PRIu64 " of them from elsewhere, too\n", way->count - way->exclusive);
    for (size_t i = 0; i < way->step_count; i++) print_step(to, &way->steps[i]);
    fprintf(to, "    -> the block%s\n", plural(way->count));
}

static void print_held(FILE *to, const struct held *held, bool exact, size_t top)
{
    fprintf(to, "\nHolders of %" PRIu64 " %slive block%s", held->live, exact ? "" : "sampled ", plural(held->live));
    if (held->looked_at < held->live) fprintf(to, ", of which %" PRIu64 " were looked at,", held->looked_at);
    fputs(" allocated from:\n", to);
    if (held->stack)
        print_stack(to, held->stack);
    else
        fputs("    (their call stacks were not kept: a table was full)\n", to);
    size_t shown = top && top < held->way_count ? top : held->way_count;
    for (size_t i = 0; i < shown; i++) print_way(to, held, &held->ways[i]);
    if (shown < held->way_count) fprintf(to, "\n… and %zu more ways (--top 0 shows all)\n", held->way_count - shown);
    if (held->ignored)
        fprintf(to, "\n%" PRIu64 " of %" PRIu64 " ignored: the program told Gleaner never to call them lost\n", held->ignored,
                held->looked_at);
    if (held->unreached)
        fprintf(to, "\n%" PRIu64 " of %" PRIu64 " held by nothing that could be found: lost, it seems (--show lost)\n",
                held->unreached, held->looked_at);
}

/* A holder as a whole; `alone`: it is this variable, not several of its area. */
static char *whole_text(const struct unit *unit, bool alone)
{
    const struct area *area = unit->area;
    struct unit whole = *unit;
    whole.bytes = sizeof whole.at;
    if (whole.variable.name) whole.at = whole.variable.start;
    if (area->kind == AREA_MAPPING) whole.at = area->from;
    if (area->kind == AREA_KERNEL) return need_copy("the kernel: epoll, timers");
    if (!alone && area->kind == AREA_MODULE) return need_text("variables of %s", area->module->name);
    if (!alone && area->kind == AREA_TLS) return need_text("thread-local memory of thread %" PRId64, area->tid);
    return holder_text(&whole, HOW_WORD, NULL);
}

static char *retained_text(const struct retained *r)
{
    char *low = whole_text(r->low, r->one || r->low_alone), *high, *text;
    if (r->one) return low;
    if (r->low->area == r->high->area && !r->low_alone && !r->high_alone) {
        text = need_text("several %s", low);
        free(low);
        return text;
    }
    high = whole_text(r->high, r->high_alone);
    text = need_text("both %s and %s", low, high);
    free(low);
    free(high);
    return text;
}

static void print_retained(FILE *to, const struct holders *h, size_t top)
{
    size_t count;
    struct retained *retained = holders_retained(h, &count);
    fputs("\nRetained by each holder: what is reached from nowhere else that lasts as long (exact)\n", to);
    fprintf(to, "    %15s %12s\n", "bytes", "blocks");
    for (size_t i = 0; i < count && (!top || i < top); i++) {
        char *text = retained_text(&retained[i]);
        fprintf(to, "    %15" PRIu64 " %12" PRIu64 "  %s\n", retained[i].bytes, retained[i].objects, text);
        free(text);
    }
    if (top && top < count) fprintf(to, "    … and %zu more (--top 0 shows all)\n", count - top);
    free(retained);
}

void holders_write(FILE *to, const struct profile *profile, const struct held *const *held, size_t count, size_t top)
{
    const struct holders *h = profile->holders;
    size_t shown = top && top < count ? top : count;
    double pid = head_number(profile, "pid");
    char *command = command_text(profile), time[32];
    fprintf(to, "==%.0f==Gleaner: who holds what in %s\n    taken %s\n", pid > 0 ? pid : 0, command,
            time_text(profile->time, time));
    free(command);
    if (!h->complete)
        fputs("    note: some memory could not be looked at; blocks that are held from there seem to be held by nothing\n", to);
    for (size_t i = 0; i < shown; i++) print_held(to, held[i], profile->exact, top);
    if (shown < count) fprintf(to, "\n… and %zu more call stacks (--top 0 shows all)\n", count - shown);
    if (h->has_shares)
        print_retained(to, h, top);
    else
        fputs("\nWhat each holder retains is not known: there was no memory to find it out\n", to);
    if (h->unreached)
        fprintf(to, "    %15" PRIu64 " %12" PRIu64 "  nobody (lost, it seems)\n", h->unreached_bytes, h->unreached);
}
