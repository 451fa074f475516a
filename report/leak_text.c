/* leak_text.c: lost blocks in the line shapes of LeakSanitizer's report, which people's scripts know.  What it does not have (since when,
   intervals, what hangs on a block, what is only possibly lost) stands in lines of its own, below a stack or in
   sections of their own, so that nothing of it is in the way.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/basics.h"
#include "report/output.h"
#include "report/print_site.h"
#include "sampler/suppressions.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One stack that lost blocks in one way. */
struct leak {
    const struct site *site;
    enum measure kind;
};

static const struct figure *figure_of(const struct leak *leak)
{
    return &leak->site->figures[leak->kind];
}

/* As LeakSanitizer: directly lost ones first, then by bytes; what is equal stays in the sites' order. */
static int compare_leaks(const void *a, const void *b)
{
    const struct leak *left = a, *right = b;
    if (left->kind != right->kind) return left->kind < right->kind ? -1 : 1;
    double l = figure_of(left)->bytes.value, r = figure_of(right)->bytes.value;
    if (l != r) return l < r ? 1 : -1;
    return (left->site > right->site) - (left->site < right->site);
}

/* The stacks with anything of kinds `from` to `to`; to be freed. */
static struct leak *leaks_of(const struct profile *profile, enum measure from, enum measure to,
                             size_t *count)
{
    struct leak *leaks = need_array(profile->site_count * (size_t)(to - from + 1), sizeof *leaks);
    *count = 0;
    for (size_t i = 0; i < profile->site_count; i++)
        for (enum measure kind = from; kind <= to; kind++)
            if (profile->sites[i].figures[kind].objects.value > 0 ||
                profile->sites[i].figures[kind].bytes.value > 0)
                leaks[(*count)++] = (struct leak){&profile->sites[i], kind};
    qsort(leaks, *count, sizeof *leaks, compare_leaks);
    return leaks;
}

/* -- one of them --------------------------------------------------------------------------------
 */

static void print_frame(FILE *to, size_t number, const struct step *step)
{
    const struct place *place = step->place;
    const struct frame *frame = step->frame;
    fprintf(to, "    #%zu 0x%" PRIx64, number, place->address);
    if (frame && frame->function) fprintf(to, " in %s", frame->function);
    if (frame && frame->file && frame->line)
        fprintf(to, " %s:%" PRId64, frame->file, frame->line);
    else if (frame && frame->file)
        fprintf(to, " %s", frame->file);
    else if (place->module)
        fprintf(to, " (%s+0x%" PRIx64 ")", place->module->file, place_offset(place));
    else if (!frame)
        fputs(" (in no module)", to);
    fputc('\n', to);
}

static void print_frames(FILE *to, const struct site *site)
{
    bool unrecorded = site->stack_note && !strcmp(site->stack_note, "unrecorded");
    for (size_t i = 0; i < site->step_count && !unrecorded; i++)
        print_frame(to, i, &site->steps[i]);
    print_stack_note(to, site);
}

/* Parts of the line below a stack. */
struct remarks {
    FILE *to;
    bool any;
};

static FILE *remark(struct remarks *r)
{
    fputs(r->any ? "; " : "    ", r->to);
    r->any = true;
    return r->to;
}

static void remark_since(struct remarks *r, const struct profile *profile,
                         const struct since *since)
{
    char first[32], last[32], reached[32];
    if (since->first_missed <= 0) return;
    FILE *to = remark(r);
    clock_text(since->first_missed, profile->time, first);
    clock_text(since->last_missed, profile->time, last);
    fprintf(to, "first missed %s", first);
    if (since->last_reached > 0)
        fprintf(to, ", last reached by %s",
                clock_text(since->last_reached, since->first_missed, reached));
    if (strcmp(first, last)) fprintf(to, "; latest of them %s", last);
}

static void print_forms(FILE *to, unsigned forms)
{
    static const char *const words[FORMS] = {
        [FORM_NARROW] = "by 32 bits of an address",
        [FORM_BEFORE] = "by an address up to 256 bytes before them",
        [FORM_PAST_END] = "by the address of their end",
        [FORM_MISALIGNED] = "by a pointer that is not aligned"};
    const char *before = "    reached ";
    for (int form = 0; form < FORMS; form++) {
        if (!(forms >> form & 1)) continue;
        fprintf(to, "%s%s", before, words[form]);
        before = ", or ";
    }
    fputs(" only\n", to);
}

static void print_rules(FILE *to, unsigned rules)
{
    const char *before = "    not reclaimed: ";
    for (int rule = 0; rule < ELIGIBLE_RULES; rule++) {
        if (!(rules >> rule & 1)) continue;
        fprintf(to, "%s%s", before, rule_texts[rule]);
        before = "; ";
    }
    fputc('\n', to);
}

/* Where the program proved that blocks were not lost. */
static void print_proofs(FILE *to, const struct profile *profile)
{
    for (size_t i = 0; i < profile->site_count; i++) {
        const struct site *site = &profile->sites[i];
        double objects = site->figures[MEASURE_PROOF].objects.value;
        if (!(objects > 0)) continue;
        fprintf(to, "Proof that %.0f object(s) of one place were not lost, the first by:\n", objects);
        print_frames(to, site);
        fputc('\n', to);
    }
}

static void print_remarks(FILE *to, const struct profile *profile, const struct leak *leak)
{
    struct remarks r = {.to = to};
    const struct site *site = leak->site;
    const struct figure *figure = figure_of(leak), *hangs = &site->figures[MEASURE_HANGING];
    if (leak->kind <= MEASURE_POSSIBLE) {
        remark_since(&r, profile, &site->since[leak->kind - MEASURE_DIRECT]);
        double asked = site->asked[leak->kind - MEASURE_DIRECT];
        if (asked > 0) fprintf(remark(&r), "asked for %.0f byte(s)", asked);
    }
    if (r.any) fputc('\n', to);
    r.any = false;
    if (leak->kind == MEASURE_DIRECT && hangs->objects.value > 0)
        fprintf(remark(&r), "%.0f byte(s) in %.0f object(s) hang on them\n", hangs->bytes.value,
                hangs->objects.value);
    if (leak->kind == MEASURE_POSSIBLE && site->forms) print_forms(to, site->forms);
    if (leak->kind <= MEASURE_INDIRECT && site->rules) print_rules(to, site->rules);
    if (isnan(figure->bytes.lo))
        fputs("    an estimate\n", to);
    else if (is_estimated(figure->bytes))
        fprintf(to, "    an estimate: 95%% %.0f-%.0f byte(s) in %.0f-%.0f object(s)\n",
                figure->bytes.lo, figure->bytes.hi, figure->objects.lo, figure->objects.hi);
}

static void print_leak(FILE *to, const struct profile *profile, const struct leak *leak)
{
    static const char *const heads[MEASURES] = {
        [MEASURE_DIRECT] = "Direct leak of",
        [MEASURE_INDIRECT] = "Indirect leak of",
        [MEASURE_POSSIBLE] = "Possibly lost:",
        [MEASURE_FALSE] = "Falsely called lost:",
        [MEASURE_RECLAIMED] = "Reclaimed:",
    };
    const struct figure *figure = figure_of(leak);
    fprintf(to, "%s %.0f byte(s) in %.0f object(s) allocated from:\n", heads[leak->kind],
            figure->bytes.value, figure->objects.value);
    print_frames(to, leak->site);
    print_remarks(to, profile, leak);
    fputc('\n', to);
}

static void print_leaks(FILE *to, const struct profile *profile, enum measure from,
                        enum measure last, size_t top)
{
    size_t count;
    struct leak *leaks = leaks_of(profile, from, last, &count);
    size_t shown = top && top < count ? top : count;
    if (shown < count) fprintf(to, "The %zu top leak(s):\n", shown);
    for (size_t i = 0; i < shown; i++) print_leak(to, profile, &leaks[i]);
    if (shown < count)
        fprintf(to, "Omitting %zu more leak(s). (--top 0 shows all)\n\n", count - shown);
    free(leaks);
}

/* -- the whole ----------------------------------------------------------------------------------
 */

static void print_suppressions(FILE *to, const struct suppressions *known)
{
    bool any = false;
    for (unsigned i = 0; known && i < suppressions_total(known); i++) {
        uint64_t blocks, bytes;
        const char *pattern = suppressions_pattern(known, i, &blocks, &bytes);
        if (!blocks) continue;
        if (!any)
            fputs("-----------------------------------------------------\nSuppressions used:\n"
                  "  count      bytes template\n",
                  to);
        any = true;
        char *clean = clean_text(pattern, strlen(pattern));
        fprintf(to, "%7" PRIu64 " %10" PRIu64 " %s\n", blocks, bytes, clean);
        free(clean);
    }
    if (any) fputs("-----------------------------------------------------\n\n", to);
}

static struct figure sum_of(const struct profile *profile, enum measure measure,
                            struct since *since)
{
    struct figure sum = {exactly(0), exactly(0)};
    for (size_t i = 0; i < profile->site_count; i++) {
        const struct site *site = &profile->sites[i];
        sum.objects.value += site->figures[measure].objects.value;
        sum.bytes.value += site->figures[measure].bytes.value;
        if (!since) continue;
        since_add(since, &site->since[0]);
        since_add(since, &site->since[1]);
    }
    return sum;
}

static const char *why_none(const struct profile *profile)
{
    if (!profile_collected(profile))
        return "Nobody has looked for lost blocks: gleaner run --leaks, or gleaner dump PID "
               "--leaks\n";
    if (head_number(profile, "totals.lost.objects") > 0)
        return "No block is lost beyond what is suppressed.\n";
    return head_text(profile, "collections.latest.why_not")
               ? "Whether any block is lost is not known: see the note above.\n"
               : "No block is lost.\n";
}

void leaks_write(FILE *to, const struct profile *profile, size_t top, bool asked)
{
    struct since since = {0};
    struct figure lost = sum_of(profile, MEASURE_LOST, &since);
    double pid = head_number(profile, "pid"), unrecorded = head_number(profile, "totals.unrecorded.objects"),
           unrecorded_bytes = head_number(profile, "totals.unrecorded.bytes");
    if (!(unrecorded > 0)) unrecorded = unrecorded_bytes = 0;
    bool any = lost.objects.value + unrecorded > 0;
    bool all = head_number(profile, "totals.lost.objects") > 0 || asked ||
               sum_of(profile, MEASURE_POSSIBLE, NULL).objects.value > 0 ||
               sum_of(profile, MEASURE_FALSE, NULL).objects.value > 0 ||
               sum_of(profile, MEASURE_RECLAIMED, NULL).objects.value > 0;
    if (!any && !all) return;
    fputc('\n', to);
    if (any) {
        fprintf(to,
                "=================================================================\n"
                "==%.0f==ERROR: Gleaner: detected memory leaks\n\n",
                isnan(pid) ? 0 : pid);
        print_leaks(to, profile, MEASURE_DIRECT, MEASURE_INDIRECT, top);
        if (unrecorded > 0)
            fprintf(to, "Lost, but there was no memory to record where from: %.0f byte(s) in %.0f object(s)\n\n", unrecorded_bytes,
                    unrecorded);
    }
    print_leaks(to, profile, MEASURE_POSSIBLE, MEASURE_POSSIBLE, top);
    print_leaks(to, profile, MEASURE_FALSE, MEASURE_FALSE, top);
    print_proofs(to, profile);
    print_leaks(to, profile, MEASURE_RECLAIMED, MEASURE_RECLAIMED, top);
    print_suppressions(to, profile->known);
    if (!any) {
        fputs(why_none(profile), to);
        return;
    }
    struct remarks r = {.to = to};
    remark_since(&r, profile, &since);
    if (r.any) fputc('\n', to);
    fprintf(to, "SUMMARY: Gleaner: %.0f byte(s) leaked in %.0f allocation(s).\n", lost.bytes.value + unrecorded_bytes,
            lost.objects.value + unrecorded);
}
