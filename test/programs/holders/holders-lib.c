/* holders-lib.c: a library that keeps blocks, for holders.c.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stddef.h>

static void *volatile kept_by_library; /* .bss */
static struct {
    long number;
    void *volatile kept;
} library_table = {.number = 5}; /* .data */

void library_keep(void *block)
{
    kept_by_library = block;
}

void library_keep_in_table(void *block)
{
    library_table.kept = block;
}
