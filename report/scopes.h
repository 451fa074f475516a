/* scopes.h: which functions, inlined ones too, an address of a compilation unit lies in.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REPORT_SCOPES_H
#define GLEANER_REPORT_SCOPES_H

#include <elfutils/libdw.h>
#include <stddef.h>
#include <stdint.h>

/* The functions of the unit that was asked for last.  All zero at first; places are looked up in the
   order of their addresses, so a unit is seldom read twice. */
struct scopes {
    Dwarf_Off unit;
    struct scopes_function *functions; /* sorted by start */
    size_t count, room;
};

enum { SCOPES_DEPTH = 64 }; /* inlined calls in one another; deeper ones are left out */

/* The functions at `address` (as the unit counts it), innermost first: inlined subroutines, then the
   subprogram they are in.  Returns how many; 0 when none is known. */
size_t scopes_find(struct scopes *, Dwarf_Die *unit, Dwarf_Addr address,
                   Dwarf_Die chain[SCOPES_DEPTH]);

void scopes_free(struct scopes *);

#endif
