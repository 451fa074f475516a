/* old-deaths.c: a service that watches its own heap: it prints every sampled block that dies old, with the function that
   allocated it and the age that it reached.  Sessions live from "open NAME" to "close NAME"; every other line is answered
   with a block that dies at once.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gleaner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct session {
    struct session *next;
    char name[24], history[1000];
};

static struct session *sessions;

void open_session(const char *name)
{
    struct session *s = calloc(1, sizeof *s);
    if (!s) abort();
    snprintf(s->name, sizeof s->name, "%s", name);
    s->next = sessions;
    sessions = s;
}

void close_session(const char *name)
{
    for (struct session **at = &sessions; *at; at = &(*at)->next)
        if (strcmp((*at)->name, name) == 0) {
            struct session *s = *at;
            *at = s->next;
            free(s);
            return;
        }
}

void answer(const char *question)
{
    char *text = malloc(300);
    if (!text) abort();
    snprintf(text, 300, "%s? Ask again.", question);
    puts(text);
    free(text);
}

/* ---- the tracker ---- */

static void print_death(const struct gleaner_sample *s, void *data, void *user)
{
    char function[100] = "?";
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    double age = (double)now.tv_sec + (double)now.tv_nsec / 1e9 - (double)s->time / 1e9;
    if (s->n_frames > 0) gleaner_stack_name(s->frames[0], function, sizeof function);
    printf("an old block of %zu bytes died after %.2f s, allocated in %s\n", s->given, age, function);
}

int main(void)
{
    if (!gleaner_memprof_start) {
        fprintf(stderr, "old-deaths: start it with gleaner run\n");
        return 1;
    }
    const struct gleaner_memprof_options options = {.lambda = 1, .depth = 8, .tracker = {.dealloc_old = print_death}};
    if (gleaner_memprof_start(&options, NULL) != 0) return 1;
    char line[256], name[256];
    for (unsigned n = 1; fgets(line, sizeof line, stdin); n++) {
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "open %255s", name) == 1) open_session(name);
        else if (sscanf(line, "close %255s", name) == 1) close_session(name);
        else answer(line);
        if (n % 100 == 0) gleaner_collect(GLEANER_MINOR); /* what lives by now is old */
    }
    gleaner_memprof_stop();
    return 0;
}
