/* print_site.h: the parts that the text reports share: figures with intervals, stacks, times.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REPORT_PRINT_SITE_H
#define GLEANER_REPORT_PRINT_SITE_H

#include "report/model.h"

#include <stdio.h>

/* "1234 bytes", or "1234 bytes (95% 1000-1500)"; "about 1234 bytes" when no interval is known.
   `sign`: "+1234 bytes" for what grew. */
void print_estimate(FILE *, struct estimate, const char *unit, bool sign);

/* One line a step, as sanitizers print them: "    #0 0x… in function file:line (module)". */
void print_stack(FILE *, const struct site *);

/* What is to be said of a stack that is not a usual one, in a line of its own; nothing of others. */
void print_stack_note(FILE *, const struct site *);

/* "function", or "module+0x12", or "0x12": the name of a step where there is room for one word. */
void step_name(const struct step *, char *to, size_t bytes);

/* The first lines of every text report: which program, when, how it was sampled. */
void print_header(FILE *, const struct profile *);

/* The command as the profile has it, safe to print; to be freed. */
char *command_text(const struct profile *);

/* Local time, "2026-11-30 11:12:01"; `to` has at least 32 bytes; returns it. */
char *time_text(int64_t nanoseconds, char *to);

/* The same without the date on the day on which `beside` lies. */
char *clock_text(int64_t nanoseconds, int64_t beside, char *to);

#endif
