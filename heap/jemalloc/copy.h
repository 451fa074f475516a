/* copy.h: what our copy of jemalloc offers (5.3; jemalloc.3 describes the calls).  All but the
   thread calls are mallocx and friends under a prefix.
   SPDX-License-Identifier: LGPL-2.1-or-later
 */
#ifndef GLEANER_JEMALLOC_COPY_H
#define GLEANER_JEMALLOC_COPY_H

#include "heap/base.h"

void *gleaner_je_mallocx(size_t size, int flags);
void gleaner_je_dallocx(void *block, int flags);
size_t gleaner_je_xallocx(void *block, size_t size, size_t extra, int flags);
int gleaner_je_mallctl(const char *name, void *old, size_t *old_bytes, void *new, size_t new_bytes);

/* jemalloc.h's macros, which are part of its ABI. */
#define JE_LG_ALIGN(lg) ((int)(lg))
#define JE_ZERO ((int)0x40)
#define JE_TCACHE_NONE ((int)((1u) << 8)) /* (-1) + 2, at bit 8 */
#define JE_ARENA(a) ((int)((a) + 1u) << 20)

extern bool gleaner_je_opt_cache_oblivious; /* src/jemalloc.c; read once at its start */

/* Its thread data, and two functions on it (src/tsd.c), used to keep it from registering threads.
 */
extern THREAD_LOCAL unsigned char gleaner_je_tsd_tls[];
void *gleaner_je_tsd_fetch_slow(void *tsd, bool minimal);
void gleaner_je_tsd_state_set(void *tsd, uint8_t state);

typedef struct je_hooks je_hooks; /* extent_hooks_t */
struct je_hooks {
    void *(*alloc)(je_hooks *, void *address, size_t, size_t alignment, bool *zero, bool *commit,
                   unsigned arena);
    bool (*dalloc)(je_hooks *, void *, size_t, bool committed, unsigned arena);
    void (*destroy)(je_hooks *, void *, size_t, bool committed, unsigned arena);
    bool (*commit)(je_hooks *, void *, size_t, size_t offset, size_t length, unsigned arena);
    bool (*decommit)(je_hooks *, void *, size_t, size_t offset, size_t length, unsigned arena);
    bool (*purge_lazy)(je_hooks *, void *, size_t, size_t offset, size_t length, unsigned arena);
    bool (*purge_forced)(je_hooks *, void *, size_t, size_t offset, size_t length, unsigned arena);
    bool (*split)(je_hooks *, void *, size_t, size_t a, size_t b, bool committed, unsigned arena);
    bool (*merge)(je_hooks *, void *, size_t, void *, size_t, bool committed, unsigned arena);
};

#endif
