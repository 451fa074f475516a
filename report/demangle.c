/* demangle.c: readable names, by libiberty, which knows the Itanium C++ scheme and both of Rust's.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/demangle.h"

#include <libiberty/demangle.h>
#include <stdlib.h>
#include <string.h>

char *demangle(const char *symbol)
{
    enum { LONGEST = 16 << 10 };
    if (symbol[0] != '_' || !(symbol[1] == 'Z' || symbol[1] == 'R')) return NULL;
    if (strlen(symbol) > LONGEST) return NULL;
    /* Rust's old scheme is valid C++ with a hash as its last part, so it is asked first. */
    char *text = rust_demangle(symbol, DMGL_NO_OPTS);
    if (!text) text = cplus_demangle_v3(symbol, DMGL_PARAMS | DMGL_ANSI | DMGL_RET_DROP);
    return text;
}
