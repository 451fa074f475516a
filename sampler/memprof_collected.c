/* memprof_collected.c: what a collection means for tracked blocks: those that it found are old, and of some it says that they
   are lost.
It looks at every entry once.  The heap's own bits say which blocks were there at the cut: a block allocated since has none.
An entry that ends, and perhaps stands for another block, while it is looked at has another state by then, and
memprof_happened fails.
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

static void judge(uint32_t number, struct memprof_entry *e, uint64_t s, bool old, bool lost)
{
    bool weak = memprof_kind(e) == MEMPROF_WEAK;
    if (old && !weak && !(s & (MEMPROF_WAS_OLD | MEMPROF_PROMOTED))) {
        if (!memprof_happened(number, s, MEMPROF_PROMOTED)) return;
        s = atomic_load(&e->state);
    }
    if (lost && !(s & MEMPROF_LOST)) memprof_happened(number, s, MEMPROF_LOST);
    else if (!lost && (s & MEMPROF_LOST) && !weak) found_again(e, s);
}

static bool wanted(const struct memprof_entry *e, uint64_t *state)
{
    uint64_t s = *state = e ? atomic_load_explicit(&e->state, memory_order_acquire) : 0;
    return (s & MEMPROF_USED) && !(s & (MEMPROF_ENDED | MEMPROF_SILENT));
}

static void look_at_piece(uint32_t number, bool old, bool lost)
{
    struct memprof_entry *e = memprof_at(number);
    uint64_t s;
    if (wanted(e, &s) && memprof_kind(e) == MEMPROF_PIECE) judge(number, e, s, old, lost);
}

void memprof_collected(void)
{
    uint64_t s;
    for (uint32_t n = MEMPROF_FIRST, end = memprof_end(); n < end; n++) {
        struct memprof_entry *e = memprof_at(n);
        if (!wanted(e, &s) || memprof_kind(e) == MEMPROF_PIECE) continue;
        void *block = memprof_block(e);
        judge(n, e, s, heap_is_old(block), is_lost(block));
    }
    memprof_each_piece(look_at_piece);
}
