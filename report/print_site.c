/* print_site.c: the parts that the text reports share.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/print_site.h"
#include "report/basics.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

void print_estimate(FILE *to, struct estimate estimate, const char *unit, bool sign)
{
    bool unknown = isnan(estimate.lo);
    const char *plus = sign && estimate.value > 0 ? "+" : "";
    fprintf(to, "%s%s%.0f %s", unknown ? "about " : "", plus, estimate.value, unit);
    if (!unknown && is_estimated(estimate))
        fprintf(to, sign ? " (95%% %+.0f to %+.0f)" : " (95%% %.0f-%.0f)", estimate.lo,
                estimate.hi);
}

static void print_step(FILE *to, size_t number, const struct step *step)
{
    const struct place *place = step->place;
    const struct frame *frame = step->frame;
    fprintf(to, "    #%zu 0x%" PRIx64, number, place->address);
    if (frame && frame->function) fprintf(to, " in %s", frame->function);
    if (frame && frame->file) fprintf(to, " %s", frame->file);
    if (frame && frame->file && frame->line) fprintf(to, ":%" PRId64, frame->line);
    if (place->module && frame && frame->file)
        fprintf(to, " (%s)", place->module->name);
    else if (place->module)
        fprintf(to, " (%s+0x%" PRIx64 ")", place->module->name, place_offset(place));
    else if (!frame)
        fputs(" (in no module)", to);
    fputc('\n', to);
}

void print_stack_note(FILE *to, const struct site *site)
{
    static const struct {
        const char *note, *text;
    } notes[] = {
        {"dropped", "(their call stacks were not kept: a table was full)"},
        {"early", "(allocated before the start: no callers)"},
        {"caller", "(these blocks were not sampled: only the caller of malloc is known)"},
        {"unrecorded", "(no site recorded)"},
    };
    for (size_t i = 0; site->stack_note && i < sizeof notes / sizeof *notes; i++) {
        if (strcmp(site->stack_note, notes[i].note)) continue;
        fprintf(to, "    %s\n", notes[i].text);
        return;
    }
    if (!site->step_count) fputs("    (no call stack)\n", to);
}

void print_stack(FILE *to, const struct site *site)
{
    for (size_t i = 0; i < site->step_count; i++) print_step(to, i, &site->steps[i]);
    print_stack_note(to, site);
}

void step_name(const struct step *step, char *to, size_t bytes)
{
    const struct place *place = step->place;
    if (step->frame && step->frame->function)
        snprintf(to, bytes, "%s", step->frame->function);
    else if (place->module)
        snprintf(to, bytes, "%s+0x%" PRIx64, place->module->name, place_offset(place));
    else
        snprintf(to, bytes, "0x%" PRIx64, place->address);
}

char *time_text(int64_t nanoseconds, char *to)
{
    time_t seconds = (time_t)(nanoseconds / 1000000000);
    struct tm parts;
    if (nanoseconds <= 0 || !localtime_r(&seconds, &parts) ||
        !strftime(to, 32, "%Y-%m-%d %H:%M:%S", &parts))
        snprintf(to, 32, "an unknown time");
    return to;
}

char *clock_text(int64_t nanoseconds, int64_t beside, char *to)
{
    time_t seconds = (time_t)(nanoseconds / 1000000000), other = (time_t)(beside / 1000000000);
    struct tm parts, others;
    time_text(nanoseconds, to);
    if (nanoseconds > 0 && beside > 0 && localtime_r(&seconds, &parts) &&
        localtime_r(&other, &others) && parts.tm_year == others.tm_year &&
        parts.tm_yday == others.tm_yday)
        strftime(to, 32, "%H:%M:%S", &parts);
    return to;
}

char *command_text(const struct profile *profile)
{
    const char *command = head_text(profile, "command");
    if (!command && profile->module_count) command = profile->modules[0].file;
    if (!command || !*command) command = "an unnamed program";
    return clean_text(command, strlen(command));
}
