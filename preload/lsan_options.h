/* lsan_options.h: what is taken of LeakSanitizer's run-time flags, where the program or its harness sets them: the environment
   variable LSAN_OPTIONS, and __lsan_default_options(), which it overrides.  Flags that concern its machinery mean
   nothing here and are passed over in silence.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_LSAN_OPTIONS_H
#define GLEANER_LSAN_OPTIONS_H

#include "preload/config.h"

struct lsan_options {
    bool detect_leaks;              /* 0: the __lsan calls that check do nothing */
    bool print_suppressions;        /* the table of those that matched */
    bool report_objects;            /* addresses of the blocks */
    bool has_exitcode;              /* `exitcode` was given */
    int exitcode;                   /* 0 to 255; 0: a leak does not end the program */
    uint32_t max_leaks;             /* call stacks shown; 0: all */
    char suppressions[CONFIG_PATH]; /* a file; empty: none */
};

void lsan_options_default(struct lsan_options *to);

/* Reads `bytes` of `name=value` items, separated by blanks, commas, colons or ends of lines; a value may stand in ' or ".  A bad
   value of a flag above is named to `complain` (one line each, at most 9 a text; may be NULL) and skipped.  Reads no
   further than `bytes`; stops at a zero byte. `where` names the text. */
void lsan_options_parse(struct lsan_options *to, const char *text, size_t bytes, const char *where,
                        void (*complain)(const char *line));

#endif
