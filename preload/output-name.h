/* output-name.h: the names of profile files.

   A pattern's directives are core(5)'s: %p process, %e executable, %t seconds since 1970, %n number
   of this profile in its process (from 1), %h host, %% itself.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_OUTPUT_NAME_H
#define GLEANER_OUTPUT_NAME_H

#include "heap/base.h"

/* Facts that a name is made of. */
struct output_facts {
    int process;
    bool first;
    unsigned number;
    uint64_t seconds;
    const char *executable; /* without its folder */
    const char *host;
};

/* Expands a pattern; characters of %e and %h that cannot stand in a file name become `_`. Returns
   the length as snprintf does; `to` is always terminated. */
size_t output_name(char *to, size_t bytes, const char *pattern, const struct output_facts *facts);

#endif
