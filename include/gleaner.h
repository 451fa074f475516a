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

/* Collections: which blocks does nothing reach any more? */

enum gleaner_collection { GLEANER_MINOR, GLEANER_MAJOR };

/* Runs a collection now and waits for what it finds.  0; EAGAIN: a thread could not be stopped, or something not be
   looked at, so that nothing may be called lost by it; ENOTSUP: collections cannot run here; ENOMEM.  Any
   thread. */
GLEANER_API extern int gleaner_collect(enum gleaner_collection kind);

/* Blocks, and bytes given to them. */
struct gleaner_count {
    size_t blocks, bytes;
};

struct gleaner_leaks {
    struct gleaner_count lost;       /* nothing reaches them: direct and indirect */
    struct gleaner_count direct;     /* of them, those that no other lost block reaches */
    struct gleaner_count indirect;
    struct gleaner_count possible;   /* reached by an unusual form of pointer only; not in `lost` */
    struct gleaner_count false_lost; /* called lost once, and freed, resized or written by the program since */
};

/* A moment, for leak checks that look only at what was lost since: a complete major collection, after which whatever is lost
   by now is known and will not be counted.  Which moment a block was *allocated* at is not kept, so one that is older
   counts, too, if its last pointer went since.  0, the process's start, where the collection was not possible. */
GLEANER_API extern unsigned long gleaner_mark(void);

/* A complete major collection, and what is lost now and was not at `mark` (0: all).  As gleaner_collect; `leaks` is zeroed where that is not 0.
   No suppression is applied. */
GLEANER_API extern int gleaner_leak_check(unsigned long mark, struct gleaner_leaks *leaks);

/* What is known of a block (its first address). */
enum gleaner_state {
    GLEANER_NO_BLOCK,
    GLEANER_YOUNG, /* allocated since the last collection */
    GLEANER_OLD,
    GLEANER_LOST,
    GLEANER_POSSIBLY_LOST,
    GLEANER_IGNORED /* by gleaner_ignore or __lsan_ignore_object, or allocated between __lsan_disable and __lsan_enable */
};
GLEANER_API extern enum gleaner_state gleaner_state(const void *block);

/* Memory that the program wants looked at for pointers (what it maps or allocates itself is looked at anyway), and the
   opposite, with the same range.  0, ENOMEM, EINVAL. */
GLEANER_API extern int gleaner_add_root(const void *from, size_t bytes);
GLEANER_API extern int gleaner_remove_root(const void *from, size_t bytes);

/* The block, and what it reaches, is never called lost.  0; EINVAL if no block starts there. */
GLEANER_API extern int gleaner_ignore(const void *block);

struct gleaner_statistics {
    size_t minor, major, incomplete; /* collections */
    size_t live, live_bytes;         /* now */
    size_t young, young_bytes;       /* allocated between the latest two collections, and live at the latest */
    double pause_ms_max, pause_ms_median;
};
GLEANER_API extern void gleaner_statistics(struct gleaner_statistics *);

#ifdef __cplusplus
}
#endif

#endif
