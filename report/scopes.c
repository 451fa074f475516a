/* scopes.c: which functions an address of a compilation unit lies in.

   libdw's dwarf_getscopes walks the whole unit for each address; for programs that are one unit (sqlite)
   and thousands of addresses that takes minutes.  So a unit's functions are listed and sorted once,
   and only the one that holds the address is walked.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/scopes.h"
#include "report/basics.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

struct scopes_function {
    uint64_t start, end;
    Dwarf_Die die;
};

enum { NESTING = 64 }; /* namespaces and classes in one another */

static void add_function(struct scopes *scopes, Dwarf_Die *die)
{
    Dwarf_Addr base, start, end;
    for (ptrdiff_t at = 0; (at = dwarf_ranges(die, at, &base, &start, &end)) > 0;) {
        if (start >= end) continue;
        scopes->functions =
            need_more(scopes->functions, scopes->count, &scopes->room, sizeof *scopes->functions);
        scopes->functions[scopes->count++] = (struct scopes_function){start, end, *die};
    }
}

/* Functions are defined in the unit itself, and in namespaces, classes and (Fortran, Rust) modules. */
static void list_functions(struct scopes *scopes, Dwarf_Die *parent, int depth)
{
    Dwarf_Die die;
    if (depth > NESTING || dwarf_child(parent, &die)) return;
    do {
        switch (dwarf_tag(&die)) {
        case DW_TAG_subprogram:
            add_function(scopes, &die);
            break;
        case DW_TAG_namespace:
        case DW_TAG_module:
        case DW_TAG_class_type:
        case DW_TAG_structure_type:
        case DW_TAG_union_type:
            list_functions(scopes, &die, depth + 1);
            break;
        default:
            break;
        }
    } while (!dwarf_siblingof(&die, &die));
}

static int compare_functions(const void *a, const void *b)
{
    const struct scopes_function *left = a, *right = b;
    return (left->start > right->start) - (left->start < right->start);
}

static void read_unit(struct scopes *scopes, Dwarf_Die *unit)
{
    Dwarf_Off offset = dwarf_dieoffset(unit);
    if (scopes->unit == offset) return;
    scopes->unit = offset;
    scopes->count = 0;
    list_functions(scopes, unit, 0);
    if (scopes->count)
        qsort(scopes->functions, scopes->count, sizeof *scopes->functions, compare_functions);
}

static Dwarf_Die *function_at(const struct scopes *scopes, Dwarf_Addr address)
{
    size_t low = 0, high = scopes->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (scopes->functions[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low || address >= scopes->functions[low - 1].end) return NULL;
    return &scopes->functions[low - 1].die;
}

static bool holds_code(int tag)
{
    return tag == DW_TAG_inlined_subroutine || tag == DW_TAG_lexical_block ||
           tag == DW_TAG_try_block || tag == DW_TAG_catch_block;
}

/* The child of *die that holds the address becomes *die. */
static bool descend(Dwarf_Die *die, Dwarf_Addr address)
{
    Dwarf_Die child;
    if (dwarf_child(die, &child)) return false;
    do {
        if (!holds_code(dwarf_tag(&child)) || dwarf_haspc(&child, address) <= 0) continue;
        *die = child;
        return true;
    } while (!dwarf_siblingof(&child, &child));
    return false;
}

size_t scopes_find(struct scopes *scopes, Dwarf_Die *unit, Dwarf_Addr address,
                   Dwarf_Die chain[SCOPES_DEPTH])
{
    read_unit(scopes, unit);
    Dwarf_Die *function = function_at(scopes, address);
    if (!function) return 0;
    size_t count = 0;
    Dwarf_Die die = *function;
    chain[count++] = die;
    /* Blocks without a call in them count too, so that damaged information cannot go round for ever. */
    for (int steps = 0; steps < 4 * SCOPES_DEPTH && descend(&die, address); steps++)
        if (dwarf_tag(&die) == DW_TAG_inlined_subroutine && count < SCOPES_DEPTH)
            chain[count++] = die;
    for (size_t i = 0; i < count / 2; i++) { /* innermost first */
        Dwarf_Die swapped = chain[i];
        chain[i] = chain[count - 1 - i];
        chain[count - 1 - i] = swapped;
    }
    return count;
}

void scopes_free(struct scopes *scopes)
{
    free(scopes->functions);
    *scopes = (struct scopes){0};
}
