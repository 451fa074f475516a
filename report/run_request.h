/* run_request.h: what `gleaner run` was asked for.  What is wrong with an option ends the command (usage_error).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REPORT_RUN_REQUEST_H
#define GLEANER_REPORT_RUN_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

struct request {
    const char *output;
    char *conf;  /* of our options, in order, each with a leading comma */
    bool sample; /* -s was given */
    bool leaks_exit, leaks_every, leaks_off;
    bool reclaim;
    int fail; /* the status where blocks were lost; -1: the program's own */
    const char **suppressions;
    size_t suppression_count, suppression_room;
};

/* Adds an item of the library's configuration; `value` NULL: `key` is all of it. */
void request_conf(struct request *, const char *key, const char *value);

/* The options: -s, -l (NULL: without a value), --fail (NULL too), -c, and --suppressions, whose file the library
   gets, too, for what it prints itself. */
void request_sample(struct request *, const char *text);
void request_leaks(struct request *, const char *when);
void request_reclaim(struct request *);
void request_fail(struct request *, const char *code);
void request_any(struct request *, const char *item);
void request_suppressions(struct request *, const char *file);

/* After the options: what they imply comes before them, so that they, and -c, can still say otherwise. */
void request_implied(struct request *);

/* Can a value be written in the configuration? */
bool conf_takes(const char *value);

#endif
