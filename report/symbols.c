/* symbols.c: names for the places of a profile, by libdw.

   One module at a time is open, so that memory stays that of the largest.  A place's compilation
   unit is found by .debug_aranges or, where the compiler wrote none (clang, rustc), in a table of
   the units' own ranges. SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/symbols.h"
#include "report/basics.h"
#include "report/demangle.h"
#include "report/object.h"
#include "report/progress.h"
#include "report/scopes.h"
#include "report/symtab.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct unit_range {
    uint64_t start, end;
    Dwarf_Die unit;
};

struct resolver {
    struct arena *arena;
    struct object object;
    struct scopes scopes;
    bool symtab_read;
    struct symtab symtab;
    bool ranges_made;
    struct unit_range *ranges; /* sorted by start */
    size_t range_count, range_room;
};

static const char *keep_text(struct arena *arena, const char *text)
{
    size_t length = strlen(text);
    char *clean = clean_text(text, length);
    char *kept = arena_need(arena, length + 1, 1);
    memcpy(kept, clean, length);
    free(clean);
    return kept;
}

static const char *keep_name(struct arena *arena, const char *name)
{
    char *readable = demangle(name);
    const char *kept = keep_text(arena, readable ? readable : name);
    free(readable);
    return kept;
}

/* -- compilation units --------------------------------------------------------------------------
 */

static int compare_ranges(const void *a, const void *b)
{
    const struct unit_range *left = a, *right = b;
    return (left->start > right->start) - (left->start < right->start);
}

static void make_ranges(struct resolver *resolver)
{
    resolver->ranges_made = true;
    Dwarf_Addr bias;
    for (Dwarf_Die *unit = NULL;
         (unit = dwfl_module_nextcu(resolver->object.module, unit, &bias)) != NULL;) {
        Dwarf_Addr base, start, end;
        for (ptrdiff_t at = 0; (at = dwarf_ranges(unit, at, &base, &start, &end)) > 0;) {
            resolver->ranges = need_more(resolver->ranges, resolver->range_count,
                                         &resolver->range_room, sizeof *resolver->ranges);
            resolver->ranges[resolver->range_count++] = (struct unit_range){start, end, *unit};
        }
    }
    if (resolver->range_count)
        qsort(resolver->ranges, resolver->range_count, sizeof *resolver->ranges, compare_ranges);
}

/* The unit that holds `address`, and what to subtract from it for the unit's own numbers. */
static Dwarf_Die *unit_of(struct resolver *resolver, uint64_t address, Dwarf_Addr *bias)
{
    Dwarf_Die *unit = dwfl_module_addrdie(resolver->object.module, address, bias);
    if (unit) return unit;
    if (!dwfl_module_getdwarf(resolver->object.module, bias)) return NULL;
    if (!resolver->ranges_made) make_ranges(resolver);
    uint64_t own = address - *bias;
    size_t low = 0, high = resolver->range_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (resolver->ranges[middle].start <= own)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low || own >= resolver->ranges[low - 1].end) return NULL;
    return &resolver->ranges[low - 1].unit;
}

/* -- one place ----------------------------------------------------------------------------------
 */

static const char *name_of_die(struct arena *arena, Dwarf_Die *die)
{
    static const unsigned attributes[] = {DW_AT_linkage_name, DW_AT_MIPS_linkage_name, DW_AT_name};
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
        Dwarf_Attribute attribute;
        const char *name = dwarf_formstring(dwarf_attr_integrate(die, attributes[i], &attribute));
        if (name && *name) return keep_name(arena, name);
    }
    return NULL;
}

/* Where the inlined function `die` was called: file and line. */
static void call_site(struct arena *arena, Dwarf_Die *unit, Dwarf_Die *die, struct frame *to)
{
    Dwarf_Attribute attribute;
    Dwarf_Word file, line;
    if (!dwarf_formudata(dwarf_attr(die, DW_AT_call_line, &attribute), &line))
        to->line = (int64_t)line;
    Dwarf_Files *files;
    size_t count;
    if (!dwarf_formudata(dwarf_attr(die, DW_AT_call_file, &attribute), &file) &&
        !dwarf_getsrcfiles(unit, &files, &count) && file < count) {
        const char *name = dwarf_filesrc(files, file, NULL, NULL);
        if (name) to->file = keep_text(arena, name);
    }
}

static void first_line(struct resolver *resolver, Dwarf_Die *unit, Dwarf_Addr own, struct frame *to)
{
    Dwarf_Line *line = dwarf_getsrc_die(unit, own);
    int number;
    const char *file = line ? dwarf_linesrc(line, NULL, NULL) : NULL;
    if (file) to->file = keep_text(resolver->arena, file);
    if (line && !dwarf_lineno(line, &number)) to->line = number;
}

/* The chain of inlined calls at an address, innermost first.  False when DWARF does not know it. */
static bool frames_by_dwarf(struct resolver *resolver, struct place *place, uint64_t address)
{
    Dwarf_Addr bias;
    Dwarf_Die chain[SCOPES_DEPTH], *unit = unit_of(resolver, address, &bias);
    size_t count = unit ? scopes_find(&resolver->scopes, unit, address - bias, chain) : 0;
    if (!count) return false;
    place->frames = arena_need(resolver->arena, count, sizeof *place->frames);
    place->frame_count = count;
    first_line(resolver, unit, address - bias, &place->frames[0]);
    for (size_t i = 0; i < count; i++) {
        place->frames[i].function = name_of_die(resolver->arena, &chain[i]);
        if (i + 1 < count) call_site(resolver->arena, unit, &chain[i], &place->frames[i + 1]);
    }
    return true;
}

static void name_by_symbol(struct resolver *resolver, struct place *place, uint64_t address)
{
    if (!resolver->symtab_read) symtab_read(&resolver->symtab, resolver->object.module, SYMTAB_CODE);
    resolver->symtab_read = true;
    const char *name = symtab_find(&resolver->symtab, address);
    if (!name) return;
    if (!place->frame_count) {
        place->frames = arena_need(resolver->arena, 1, sizeof *place->frames);
        place->frame_count = 1;
    }
    place->frames[place->frame_count - 1].function = keep_name(resolver->arena, name);
}

static void resolve_place(struct resolver *resolver, struct place *place)
{
    uint64_t address;
    if (!object_address(&resolver->object, place, &address)) return;
    bool by_dwarf = frames_by_dwarf(resolver, place, address);
    if (!by_dwarf || !place->frames[place->frame_count - 1].function)
        name_by_symbol(resolver, place, address);
}

/* -- the profile --------------------------------------------------------------------------------
 */

static void demangle_given(struct arena *arena, struct place *place)
{
    for (size_t i = 0; i < place->frame_count; i++) {
        const char *name = place->frames[i].function;
        if (name && name[0] == '_') place->frames[i].function = keep_name(arena, name);
    }
}

static int compare_by_module(const void *a, const void *b)
{
    const struct place *left = *(struct place *const *)a, *right = *(struct place *const *)b;
    if (left->module != right->module) return left->module < right->module ? -1 : 1;
    return (left->address > right->address) - (left->address < right->address);
}

static void say_missing(const struct module *module, enum object_state state, unsigned *said)
{
    enum { MOST = 8 };
    if (state == OBJECT_NONE || ++*said > MOST) return;
    if (*said == MOST)
        say("more modules were not found or are of another build");
    else if (state == OBJECT_OTHER_BUILD)
        say("%s is not the build that was profiled (build id %.12s…): its addresses stay without "
            "names",
            module->file, module->build_id);
    else
        say("%s was not found here: its addresses stay without names", module->file);
}

void symbols_resolve(struct profile *profile, const char *root)
{
    struct place **wanted = need_array(profile->place_count, sizeof *wanted);
    size_t count = 0;
    for (size_t i = 0; i < profile->place_count; i++) {
        struct place *place = &profile->places[i];
        if (place->frame_count)
            demangle_given(&profile->arena, place);
        else if (place->module)
            wanted[count++] = place;
    }
    qsort(wanted, count, sizeof *wanted, compare_by_module);
    if (isatty(STDERR_FILENO))
        setenv("DEBUGINFOD_PROGRESS", "1", 0); /* its downloads can be long */
    progress_begin("naming addresses", count);
    unsigned said = 0;
    for (size_t i = 0; i < count;) {
        const struct module *module = wanted[i]->module;
        struct resolver resolver = {.arena = &profile->arena};
        progress_at(i, module->name);
        enum object_state state = object_open(module, root, &resolver.object);
        if (state != OBJECT_OPEN) say_missing(module, state, &said);
        for (; i < count && wanted[i]->module == module; i++) {
            if (state != OBJECT_OPEN) continue;
            progress_at(i, module->name);
            resolve_place(&resolver, wanted[i]);
        }
        free(resolver.ranges);
        symtab_free(&resolver.symtab);
        scopes_free(&resolver.scopes);
        object_close(&resolver.object);
    }
    progress_end();
    free(wanted);
}
