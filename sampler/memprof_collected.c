/* memprof_collected.c: what a collection means for tracked blocks: those that it found are old, and of some it says that they are lost.

   It looks at every entry once.  The heap's own bits say which blocks were there at the cut: a block allocated since has none.  An entry that
   ends, and perhaps stands for another block, while it is looked at has another state by then, and memprof_happened fails.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/collect.h"
#include "heap/lost.h"
#include "sampler/memprof_profile.h"

static bool is_lost(const void *block)
{
    struct lost_view v;
    return lost_find(block, &v) && v.kind != LOST_POSSIBLE;
}

/* A collection has reached it again: it may be lost once more. */
static void found_again(struct memprof_entry *e, uint64_t s)
{
    atomic_compare_exchange_strong(&e->state, &s, s & ~(uint64_t)(MEMPROF_LOST | MEMPROF_TOLD_LOST));
}

static void look(uint32_t number, struct memprof_entry *e, uint64_t cut, bool complete_major)
{
    uint64_t s = atomic_load_explicit(&e->state, memory_order_acquire);
    if (!(s & MEMPROF_USED) || (s & (MEMPROF_ENDED | MEMPROF_SILENT))) return;
    enum memprof_kind kind = memprof_kind(e);
    void *block = memprof_block(e);
    if (!(s & (MEMPROF_WAS_OLD | MEMPROF_PROMOTED)) && kind != MEMPROF_WEAK &&
        (kind == MEMPROF_PIECE ? e->time < cut : heap_is_old(block))) {
        if (!memprof_happened(number, s, MEMPROF_PROMOTED)) return;
        s = atomic_load(&e->state);
    }
    if (!complete_major || kind == MEMPROF_PIECE) return;
    bool lost = is_lost(block);
    if (lost && !(s & MEMPROF_LOST)) memprof_happened(number, s, MEMPROF_LOST);
    else if (!lost && (s & MEMPROF_LOST) && kind != MEMPROF_WEAK) found_again(e, s);
}

void memprof_collected(uint64_t cut, bool complete_major)
{
    for (uint32_t n = MEMPROF_FIRST, end = memprof_end(); n < end; n++) {
        struct memprof_entry *e = memprof_at(n);
        if (e) look(n, e, cut, complete_major);
    }
}
