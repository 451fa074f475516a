/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/meta.h"
#include "heap/os.h"
#include "heap/window.h"

#define CHUNK (256 * KIB)

static _Atomic uint64_t next_offset;     /* first byte of the meta area that nobody has claimed */
static _Atomic uintptr_t current;        /* the chunk that small claims are cut from */
static _Atomic size_t mapped;

struct chunk {
    _Atomic size_t used;
};

/* Claims addresses, then maps them: two threads never map the same piece.  A piece that somebody
   else occupies is skipped. */
static void *map_piece(size_t bytes)
{
    window_start();
    for (;;) {
        uint64_t at = atomic_fetch_add(&next_offset, bytes);
        if (at + bytes > WINDOW_META_BYTES) return NULL;
        void *p = (void *)(window_base + WINDOW_META_OFFSET + at);
        bool occupied;
        if (os_map_at(p, bytes, &occupied)) {
            atomic_fetch_add(&mapped, bytes);
            return p;
        }
        if (!occupied) return NULL;
    }
}

void *meta_alloc(size_t bytes)
{
    bytes = round_up(bytes, 64);
    if (bytes > CHUNK / 4) return map_piece(round_up(bytes, OS_PAGE));
    for (;;) {
        uintptr_t c = atomic_load_explicit(&current, memory_order_acquire);
        if (c) {
            size_t at = atomic_fetch_add(&((struct chunk *)c)->used, bytes);
            if (at + bytes <= CHUNK) return (void *)(c + at);
        }
        struct chunk *fresh = map_piece(CHUNK);
        if (!fresh) return NULL;
        atomic_store_explicit(&fresh->used, 64, memory_order_relaxed);
        /* If another thread was faster, this chunk's addresses stay unused: no page was touched
           but the first. */
        atomic_compare_exchange_strong(&current, &c, (uintptr_t)fresh);
    }
}

bool meta_reaches(uintptr_t from, uintptr_t to)
{
    uintptr_t begin = window_base + WINDOW_META_OFFSET;
    return from < begin + atomic_load(&next_offset) && begin < to;
}

size_t meta_bytes(void) { return atomic_load(&mapped); }

void meta_fork_child(void) { atomic_store(&current, 0); }
