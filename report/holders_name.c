/* holders_name.c: which variables the words are in that hold blocks: by the symbol tables of the modules' files.

   One module at a time is open.  Thread-local variables are known of the main program alone: where the memory of the others lies, beside
   a thread pointer, only the loader knows.  There the program's is the first (U. Drepper, "ELF Handling For Thread-Local Storage",
   3.4.1 and 3.4.2: below the thread pointer on x86-64, from 16 bytes behind it on on aarch64).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/basics.h"
#include "report/demangle.h"
#include "report/holders.h"
#include "report/object.h"
#include "report/symtab.h"

#include <stdlib.h>
#include <string.h>

struct naming {
    struct profile *profile;
    struct symtab table;
    uint64_t tls_below, tls_behind; /* of the main program: distance of its memory from the thread pointer; 0, 0: it has none */
    struct variable *seen;          /* those that have a name already, by start */
    size_t seen_count, seen_room;
};

static const char *keep_name(struct arena *arena, const char *name)
{
    char *readable = demangle(name);
    const char *from = readable ? readable : name;
    size_t length = strlen(from);
    char *clean = clean_text(from, length), *kept = arena_need(arena, length + 1, 1);
    memcpy(kept, clean, length);
    free(clean);
    free(readable);
    return kept;
}

static void name_unit(struct naming *n, struct unit *unit, uint64_t base)
{
    uint64_t start, size;
    const char *name = symtab_find_data(&n->table, unit->at - base, &start, &size);
    if (!name || unit->at - base - start + unit->bytes > size) return;
    /* Units come by ascending address, so that a variable of many of them comes in a row. */
    struct variable *last = n->seen_count ? &n->seen[n->seen_count - 1] : NULL;
    if (!last || last->start != start + base || last->bytes != size) {
        n->seen = need_more(n->seen, n->seen_count, &n->seen_room, sizeof *n->seen);
        last = &n->seen[n->seen_count++];
        *last = (struct variable){keep_name(&n->profile->arena, name), start + base, size};
    }
    unit->variable = *last;
}

static void each_unit(struct naming *n, const struct area *area, uint64_t base)
{
    struct holders *h = n->profile->holders;
    for (size_t i = 0; i < h->unit_count; i++)
        if (h->units[i].area == area) name_unit(n, &h->units[i], base);
    for (size_t i = 0; i < h->held_count; i++)
        for (size_t j = 0; j < h->held[i].way_count; j++)
            if (h->held[i].ways[j].root.area == area) name_unit(n, &h->held[i].ways[j].root, base);
}

static void find_tls(struct naming *n, Dwfl_Module *module)
{
    GElf_Addr bias;
    GElf_Ehdr header;
    Elf *elf = dwfl_module_getelf(module, &bias);
    size_t count;
    if (!elf || !gelf_getehdr(elf, &header) || elf_getphdrnum(elf, &count)) return;
    for (size_t i = 0; i < count; i++) {
        GElf_Phdr segment;
        if (!gelf_getphdr(elf, (int)i, &segment) || segment.p_type != PT_TLS) continue;
        uint64_t align = segment.p_align ? segment.p_align : 1;
        if (align & (align - 1) || align > 1 << 20) return;
        if (header.e_machine == EM_AARCH64)
            n->tls_behind = (16 + align - 1) & ~(align - 1);
        else
            n->tls_below = (segment.p_memsz + align - 1) & ~(align - 1);
    }
}

static bool open_symbols(struct naming *n, const struct module *module, const char *root, enum symtab_kind kind,
                         struct object *object)
{
    if (object_open(module, root, object) != OBJECT_OPEN) return false;
    symtab_read(&n->table, object->module, kind);
    return true;
}

static void name_thread_local(struct naming *n, const char *root)
{
    struct holders *h = n->profile->holders;
    struct object object;
    bool wanted = false;
    for (size_t i = 0; i < h->area_count; i++) wanted |= h->areas[i].kind == AREA_TLS;
    if (!wanted || !n->profile->module_count) return;
    if (open_symbols(n, &n->profile->modules[0], root, SYMTAB_TLS, &object)) {
        find_tls(n, object.module);
        for (size_t i = 0; i < h->area_count && (n->tls_below || n->tls_behind); i++) {
            n->seen_count = 0;
            if (h->areas[i].kind == AREA_TLS) each_unit(n, &h->areas[i], h->areas[i].tp - n->tls_below + n->tls_behind);
        }
        symtab_free(&n->table);
        object_close(&object);
    }
}

void holders_name(struct profile *profile, const char *root)
{
    struct holders *h = profile->holders;
    struct naming n = {.profile = profile};
    if (!h) return;
    for (size_t i = 0; i < h->area_count; i++) {
        struct object object;
        if (h->areas[i].kind != AREA_MODULE || !open_symbols(&n, h->areas[i].module, root, SYMTAB_DATA, &object)) continue;
        n.seen_count = 0;
        each_unit(&n, &h->areas[i], h->areas[i].bias);
        symtab_free(&n.table);
        object_close(&object);
    }
    name_thread_local(&n, root);
    free(n.seen);
}
