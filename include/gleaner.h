/* gleaner.h: what a program may ask of Gleaner.  Optional: the library works under programs that
   know nothing of it.
   Every function is weak: a program links and runs without the library, and tells by
   `if (gleaner_version)` whether it is there.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_H
#define GLEANER_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef GLEANER_API
#define GLEANER_API __attribute__((weak))
#endif

/* The library's version, "0.1.0". */
GLEANER_API extern const char *gleaner_version(void);

/* Writes a profile of this process, to `path` or where the `output` key says if that is NULL.  By
   way of a temporary file beside it: the file is whole or as before.  0, or an errno value.  Any
   thread. */
GLEANER_API extern int gleaner_dump(const char *path);

/* Bytes and blocks that are allocated now; either pointer may be NULL. */
GLEANER_API extern void gleaner_live(size_t *bytes, size_t *blocks);

#ifdef __cplusplus
}
#endif

#endif
