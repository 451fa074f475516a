/* ignore.c: blocks that the program does not want to hear of.  An ignored block is tagged so (tag.h) and its pool flagged, so that a
   collection finds them without a list that would grow.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/heap.h"
#include "heap/large_table.h"
#include "heap/tag.h"
#include "heap/thread_heap.h"

static bool ignore_slot(const void *block, bool medium)
{
    int8_t *state = state_of(block, medium);
    struct pool *p = pool_of(block, medium);
    int8_t was = __atomic_load_n(state, __ATOMIC_ACQUIRE);
    if (!state_is_live(was)) return false;
    unsigned slot = slot_of(p, block);
    if (!pool_tag(p, slot) && !pool_set_tag(p, slot, TAG_IGNORED)) return false;
    atomic_fetch_or(&atomic_load(&p->entries)[slot], TAG_IGNORED);
    atomic_store(&p->ignored, true);
    do
        if (!state_is_live(was)) return false;
    while (!__atomic_compare_exchange_n(state, &was, (int8_t)(was | STATE_TRACKED), false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE));
    return true;
}

bool heap_ignore(const void *block)
{
    if (!heap_owns(block)) return false;
    uintptr_t small = (uintptr_t)block - pool_tables.small_base, medium = (uintptr_t)block - pool_tables.medium_base;
    if (small < WINDOW_SMALL_BYTES) return ignore_slot(block, false);
    if (medium < WINDOW_MEDIUM_BYTES) return ignore_slot(block, true);
    struct large_record *r = large_record_at(block);
    return r && large_tag_or(r, TAG_IGNORED, 0);
}

static bool slot_is_ignored(const void *block, bool medium)
{
    struct pool *p = pool_of(block, medium);
    return *state_of(block, medium) < 0 && pool_tag(p, slot_of(p, block)) & TAG_IGNORED;
}

bool heap_is_ignored(const void *block)
{
    if (!heap_owns(block)) return false;
    uintptr_t small = (uintptr_t)block - pool_tables.small_base, medium = (uintptr_t)block - pool_tables.medium_base;
    if (small < WINDOW_SMALL_BYTES) return slot_is_ignored(block, false);
    if (medium < WINDOW_MEDIUM_BYTES) return slot_is_ignored(block, true);
    struct large_record *r = large_record_at(block);
    return r && atomic_load(&r->entry) & TAG_IGNORED;
}

void heap_ignore_begin(void)
{
    struct thread_heap *h = thread_heap_get();
    heap_tls.attention += 2;
    if (heap_tls.attention >= 4 || !h) return;
    for (unsigned c = 1; c <= POOL_CLASSES; c++) {
        struct bin *b = h->bin[c];
        if (b->class == 0 || b->left == 0) continue;
        b->counted += (uint64_t)(b->left_start - b->left);
        b->follow += b->left;
        b->left = b->left_start = 0;
    }
}

/* Each bin takes up where it was at its next block. */
void heap_ignore_end(void)
{
    if (heap_tls.attention > ATTENTION_WATCH) heap_tls.attention -= 2;
}
