/* symtab.h: the functions, or variables, of an ELF file's symbol tables, sorted, for look-up by address.
   (libdwfl's own look-up walks the whole table for each address.) SPDX-License-Identifier:
   LGPL-2.1-or-later */
#ifndef GLEANER_REPORT_SYMTAB_H
#define GLEANER_REPORT_SYMTAB_H

#include <elfutils/libdwfl.h>
#include <stddef.h>
#include <stdint.h>

struct symtab {
    struct symtab_entry *entries;
    size_t count, room;
};

enum symtab_kind {
    SYMTAB_CODE,
    SYMTAB_DATA,
    SYMTAB_TLS /* by offset in the thread-local memory of the module */
};

/* .symtab of the file or its debug file, else .dynsym. To be freed by symtab_free, before the
 * module. */
void symtab_read(struct symtab *, Dwfl_Module *, enum symtab_kind);

/* The function that holds the address, or the nearest label before it where the file gives no
   sizes; NULL when there is none. */
const char *symtab_find(const struct symtab *, uint64_t address);

/* The variable that holds the address, its start and size; NULL when there is none. */
const char *symtab_find_data(const struct symtab *, uint64_t address, uint64_t *start, uint64_t *size);

void symtab_free(struct symtab *);

#endif
