/* window.h: the one range of addresses in which all our memory lies.

   1. Data.  A window of 1 TiB at a random base holds, at fixed offsets, four areas:

        small   256 GiB   pools of 32 KiB for blocks up to 1 KiB
        medium  256 GiB   pools of 256 KiB for blocks up to 32 KiB
        large   448 GiB   extents, handed to jemalloc
        tables   64 GiB   state bytes, bitmaps, descriptors, and the metadata arena

      Nothing is reserved: pieces are mapped as they are needed, so RLIMIT_AS, strict overcommit and
      VSZ mean what they mean without us.
   2. Synchronisation.  The base is set once, by the first allocation, before any other thread can
      exist or by compare-and-swap; after that everything here is immutable.
   3. "Is this word a pointer into our heap?" is one subtraction and one comparison.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_WINDOW_H
#define GLEANER_WINDOW_H

#include "heap/base.h"

#define WINDOW_BYTES (1024 * GIB)
#define WINDOW_SMALL_OFFSET ((size_t)0)
#define WINDOW_SMALL_BYTES (256 * GIB)
#define WINDOW_MEDIUM_OFFSET (256 * GIB)
#define WINDOW_MEDIUM_BYTES (256 * GIB)
#define WINDOW_LARGE_OFFSET (512 * GIB)
#define WINDOW_LARGE_BYTES (448 * GIB)
#define WINDOW_TABLES_OFFSET (960 * GIB)
#define WINDOW_TABLES_BYTES (64 * GIB)

/* Within the tables (offsets from the window's base).  Who maps them: region.c the first two,
   large.c the third, meta.c the last. */
#define WINDOW_SMALL_TABLES_OFFSET WINDOW_TABLES_OFFSET         /* 20 GiB */
#define WINDOW_MEDIUM_TABLES_OFFSET (WINDOW_TABLES_OFFSET + 20 * GIB) /* 4 GiB */
#define WINDOW_LARGE_TABLES_OFFSET (WINDOW_TABLES_OFFSET + 24 * GIB)  /* 8 GiB */
#define WINDOW_META_OFFSET (WINDOW_TABLES_OFFSET + 32 * GIB)          /* 32 GiB */
#define WINDOW_META_BYTES (32 * GIB)

/* The window's lowest address, 0 before window_start. A multiple of 64 MiB. */
HIDDEN extern uintptr_t window_base;

/* Chooses the base; idempotent, any thread. */
void window_start(void);

/* May the heap have mapped any of [from, to), a range within the window?  A program's mapping may lie there, too: some ask for addresses
   at random (V8).  NULL: not known, all of it. */
HIDDEN extern bool (*window_is_used)(uintptr_t from, uintptr_t to);

/* Are all pages of a mapping in the window, private of a memfd, ours (seal.h)?  NULL: none ever. */
HIDDEN extern bool (*window_is_sealed)(uintptr_t from, uintptr_t to);

static inline bool window_holds(const void *p) /* false before window_start */
{
    return (uintptr_t)p - window_base < WINDOW_BYTES && window_base != 0;
}

#endif
