/* symtab.c: the functions, or variables, of an ELF file's symbol tables, sorted.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/symtab.h"
#include "report/basics.h"

#include <stdlib.h>

struct symtab_entry {
    uint64_t address, size;
    const char *name; /* libdwfl's */
    int rank;         /* of several names for one function the highest is shown */
};

/* By address; at equal addresses the one to show last, as the search comes from the end. */
static int compare_entries(const void *a, const void *b)
{
    const struct symtab_entry *left = a, *right = b;
    if (left->address != right->address) return left->address < right->address ? -1 : 1;
    return left->rank - right->rank;
}

static int rank_of(const GElf_Sym *symbol)
{
    int binding = GELF_ST_BIND(symbol->st_info);
    int rank = binding == STB_GLOBAL ? 2 : binding == STB_WEAK ? 1 : 0;
    return rank + (symbol->st_size ? 4 : 0);
}

/* Mapping symbols of aarch64 ($x, $d) are no names; nor is a variable without a size one. */
static bool is_wanted(const GElf_Sym *symbol, const char *name, GElf_Word section, enum symtab_kind kind)
{
    int type = GELF_ST_TYPE(symbol->st_info);
    if (!name || !*name || *name == '$' || section == SHN_UNDEF || section == SHN_ABS) return false;
    if (kind == SYMTAB_CODE) return type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE;
    return symbol->st_size > 0 && (kind == SYMTAB_DATA ? type == STT_OBJECT || type == STT_COMMON : type == STT_TLS);
}

void symtab_read(struct symtab *table, Dwfl_Module *module, enum symtab_kind kind)
{
    int count = dwfl_module_getsymtab(module);
    for (int i = 1; i < count; i++) {
        GElf_Sym symbol;
        GElf_Addr address;
        GElf_Word section;
        const char *name =
            dwfl_module_getsym_info(module, i, &symbol, &address, &section, NULL, NULL);
        if (!is_wanted(&symbol, name, section, kind)) continue;
        table->entries =
            need_more(table->entries, table->count, &table->room, sizeof *table->entries);
        table->entries[table->count++] =
            (struct symtab_entry){kind == SYMTAB_TLS ? symbol.st_value : address, symbol.st_size, name,
                                  rank_of(&symbol)};
    }
    if (table->count) qsort(table->entries, table->count, sizeof *table->entries, compare_entries);
}

static size_t first_above(const struct symtab *table, uint64_t address)
{
    size_t low = 0, high = table->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table->entries[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const char *symtab_find(const struct symtab *table, uint64_t address)
{
    enum { NESTED = 16 }; /* labels inside a function, aliases of shorter size */
    size_t low = first_above(table, address);
    const char *label = NULL;
    for (size_t i = low; i-- > 0 && low - i <= NESTED;) {
        const struct symtab_entry *entry = &table->entries[i];
        if (entry->size && address - entry->address < entry->size) return entry->name;
        if (!entry->size && !label && i + 1 == low) label = entry->name;
    }
    return label;
}

const char *symtab_find_data(const struct symtab *table, uint64_t address, uint64_t *start, uint64_t *size)
{
    enum { ALIASES = 16 };
    size_t low = first_above(table, address);
    for (size_t i = low; i-- > 0 && low - i <= ALIASES;) {
        const struct symtab_entry *entry = &table->entries[i];
        if (address - entry->address >= entry->size) continue;
        *start = entry->address;
        *size = entry->size;
        return entry->name;
    }
    return NULL;
}

void symtab_free(struct symtab *table)
{
    free(table->entries);
    *table = (struct symtab){0};
}
