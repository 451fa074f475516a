/* symtab.h: the functions of an ELF file's symbol tables, sorted, for look-up by address.
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

/* .symtab of the file or its debug file, else .dynsym. To be freed by symtab_free, before the
 * module. */
void symtab_read(struct symtab *, Dwfl_Module *);

/* The function that holds the address, or the nearest label before it where the file gives no
   sizes; NULL when there is none. */
const char *symtab_find(const struct symtab *, uint64_t address);

void symtab_free(struct symtab *);

#endif
