/* lost.h: the blocks that complete collections did not reach: a record each, from the collection that missed them first
   until the program frees them or a collection reaches them again.

   1. Data.  Records with an index by address (lost_records.h).  A lost block's state byte is STATE_TRACKED and its tag has TAG_LOST,
      so that a free of it takes the slow path, finds the record, and counts the proof.
   2. Synchronisation.  Records are made by the holder of the collection gate; a free in any thread ends one by
      compare-and-swap of its address.  A snapshot child reads and changes its own copy.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_LOST_H
#define GLEANER_LOST_H

#include "heap/base.h"
#include "heap/hooks.h"

enum lost_kind {
    LOST_DIRECT,
    LOST_INDIRECT,
    LOST_POSSIBLE /* exotic: explained by a form that the marker does not follow (vet.h) */
};

enum lost_proof { /* how a block that was called lost turned out not to be */
    PROOF_FREED,
    PROOF_RESIZED,
    PROOF_WRITTEN,
    PROOF_READ,    /* or written, of a block in quarantine whose pages were sealed (seal.h) */
    PROOF_REACHED, /* a later collection reached it: counted apart, since a stale word can do it, too */
    PROOFS
};

struct lost_view {
    void *block;
    size_t given;
    uint32_t tag;            /* of the block; tag.h */
    enum lost_kind kind;
    void *head;              /* of an indirectly lost block, the directly lost one it counts to; its own address for a direct one */
    uint32_t hangs;          /* of a head: blocks that hang on it, and their bytes */
    uint64_t hangs_bytes;
    uint64_t last_reached;   /* nanoseconds since 1970: of the last complete collection before that missed it not (or of the process's start), */
    uint64_t first_missed;   /* and of the first that did */
    uint32_t first_number;   /* number of that collection */
    uint32_t misses;         /* complete major collections in a row that did not reach it */
    uint8_t why;             /* enum vet_why of a possible one */
    uint8_t rule;            /* enum eligible_rule: where lost blocks are reclaimed, why this one was not, last time */
    bool quarantined;        /* it is reclaimed next time, if nothing speaks for it until then */
};

/* Calls `each` for every lost block. Any thread and a snapshot child; no lock. */
void lost_each(void (*each)(const struct lost_view *, void *user), void *user);

/* Exact totals of now: blocks and bytes given.  What the latest complete collection found lost and had no memory to record is in
   `unrecorded` alone. */
struct lost_totals {
    uint64_t lost, lost_bytes;         /* direct and indirect */
    uint64_t direct, direct_bytes;
    uint64_t indirect, indirect_bytes;
    uint64_t possible, possible_bytes; /* not in `lost` */
    uint64_t quarantined, quarantined_bytes; /* part of `lost` */
    uint64_t unrecorded, unrecorded_bytes;
    uint64_t proofs[PROOFS];              /* enum lost_proof: how often, in blocks */
    uint64_t proof_bytes[PROOFS];
};
void lost_totals(struct lost_totals *);

/* Blocks that were called lost and that the program has used since, in whichever way; and their bytes. */
static inline uint64_t lost_used(const struct lost_totals *t)
{
    return t->proofs[PROOF_FREED] + t->proofs[PROOF_RESIZED] + t->proofs[PROOF_WRITTEN] + t->proofs[PROOF_READ];
}
static inline uint64_t lost_used_bytes(const struct lost_totals *t)
{
    return t->proof_bytes[PROOF_FREED] + t->proof_bytes[PROOF_RESIZED] + t->proof_bytes[PROOF_WRITTEN] + t->proof_bytes[PROOF_READ];
}
_Static_assert(PROOFS == 5, "the four of use, and PROOF_REACHED, which a stale word can do, too");

/* How many blocks of each size class are lost (HEAP_CLASS_LARGE: large ones). */
void lost_of_classes(uint64_t to[HEAP_CLASSES]);

/* The program has freed or resized a block whose tag says that it is lost: counts the proof and ends the record.  False: it was
   reclaimed in this moment, and is not the program's any more (a slot is then not to be freed).  Any thread; lock-free. */
bool lost_proved(void *block, uint32_t tag, enum lost_proof);

/* Is a live block lost, and how? False if not (or not ours). */
bool lost_find(const void *block, struct lost_view *);

#endif
