/* misaligned.c: in a packed structure, at an odd address (H48).  Possibly lost: it counts as live, but the marker does not follow it.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#define STATE GLEANER_POSSIBLY_LOST
#include "place.h"

static struct {
    char kind;
    void *volatile pointer;
    char pad[7];
} __attribute__((packed)) here;

static void put(void *block)
{
    here.pointer = block;
}

static void *take(void)
{
    void *block = here.pointer;
    here.pointer = NULL;
    return block;
}
