/* quarantine.c: see quarantine.h.  The block is claimed first (lost_claim), so that a free of the program at the same moment either has ended the
   record before, and keeps the block, or finds the claim, and leaves it alone.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/quarantine.h"
#include "heap/heap.h"
#include "heap/large.h"
#include "heap/large_table.h"
#include "heap/lost_hash.h"
#include "heap/lost_record.h"
#include "heap/reclaimed.h"
#include "heap/seal.h"
#include "heap/thread_heap.h"

bool quarantine_is_unchanged(uintptr_t block, size_t bytes, uint64_t hash)
{
    if (hash == 0 || bytes >= LOST_HASH_LOOK) return true;
    return lost_hash_of(NULL, block, bytes) == hash;
}

static void forget_entry(uint32_t tag, void *block)
{
    struct heap_thread_hook *hook = heap_tls.heap ? &heap_tls.heap->hook : NULL;
    uint32_t entry = tag_entry(tag);
    if (entry && heap_hooks->reclaimed) entry = heap_hooks->reclaimed(block, entry);
    if (entry && heap_hooks->freed) heap_hooks->freed(hook, block, entry, true);
}

static bool reuse_slot(uint32_t n, void *block, uint32_t place, size_t *given)
{
    struct lost_record *r = lost_record_at(n);
    bool medium = (uintptr_t)block - window_base >= WINDOW_MEDIUM_OFFSET;
    struct pool *p = pool_of(block, medium);
    _Atomic uint32_t *tags = atomic_load(&p->entries);
    if (!tags || !(*state_of(block, medium) & STATE_OLD) || !lost_claim(n)) return false;
    unsigned class = r->class;
    *given = class_size[class];
    atomic_store(&p->reclaimed, true);
    atomic_store(&reclaimed_any, true);
    /* A free that has taken the tag before finds the claim. */
    uint32_t tag = atomic_exchange(&tags[slot_in_pool(block, class, medium)], TAG_RECLAIMED | (place & TAG_NUMBER));
    forget_entry(tag & TAG_LOST ? tag : r->tag, block);
    seal_returned((uintptr_t)block, *given);
    slot_return(block, class);
    return true;
}

static bool reuse_large(uint32_t n, void *block, uint32_t place, size_t *given)
{
    uint32_t tag;
    if (!reclaimed_note_large(block, place)) return false;
    bool claimed = lost_claim(n);
    *given = claimed ? large_reclaim(block, &tag) : 0;
    if (*given == 0) {
        reclaimed_forget_large(block);
        return false;
    }
    heap_account(-(int64_t)*given);
    forget_entry(tag, block);
    return true;
}

bool quarantine_reuse(uint32_t n, size_t *given)
{
    uint64_t block = atomic_load(&lost_record_at(n)->block);
    if (block == 0 || block & LOST_MARKS) return false;
    uint32_t place = lost_trial_at(n)->place;
    return block - window_base >= WINDOW_LARGE_OFFSET ? reuse_large(n, (void *)block, place, given)
                                                      : reuse_slot(n, (void *)block, place, given);
}
