/* string_table.h: a table that gives equal strings equal small numbers, in order of arrival from 0.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REPORT_STRING_TABLE_H
#define GLEANER_REPORT_STRING_TABLE_H

#include "report/arena.h"

#include <stddef.h>
#include <stdint.h>

struct strings {
    struct arena arena; /* of the texts */
    char **texts;       /* by number */
    size_t count, room;
    uint32_t *slots; /* number + 1 */
    size_t mask;     /* slots - 1; 0 before the first */
};

/* The number of `text`; `new` (may be NULL) is set to whether it was not there before. */
size_t strings_number(struct strings *, const char *text, _Bool *new);

/* Whether `text` has a number. */
_Bool strings_has(const struct strings *, const char *text);

void strings_free(struct strings *);

#endif
