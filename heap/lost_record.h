/* lost_record.h: what the collector tells lost.c: a verdict, and its application.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_LOST_RECORD_H
#define GLEANER_LOST_RECORD_H

#include "heap/lost.h"

/* One block that a collection did not reach. */
struct verdict_block {
    uint64_t block; /* address; above bit 48: kind | why << 4 | VERDICT_… */
    uint64_t hash;  /* of its contents at the cut */
    uint64_t hangs_bytes;
    uint32_t head;  /* index of its head in the list */
    uint32_t hangs;
    uint32_t island, island_blocks; /* islands.h: its number, and its blocks, of which the list may lack some */
};
#define VERDICT_KIND(b) ((unsigned)((b)->block >> 48) & 0xf)
#define VERDICT_WHY(b) ((unsigned)((b)->block >> 52) & 0xf)
#define VERDICT_WRITTEN ((uint64_t)1 << 56) /* known as lost already, and its contents have changed since */
#define VERDICT_FREED ((uint64_t)1 << 57)   /* something in freed memory or a dead stack points to it */
#define VERDICT_ADDRESS(b) ((b)->block & 0x0000ffffffffffff)

/* What a collection found.  A snapshot child writes it to memory that it shares with its parent. */
struct verdict {
    _Atomic uint32_t done; /* 1: everything below is there.  A futex, also between processes. */
    bool complete;
    const char *why_not;   /* a string of the library's */
    uint64_t lost, lost_bytes, possible, possible_bytes; /* exact, also where the list had no room */
    uint64_t roots_ns, mark_ns, sweep_ns, root_bytes;
    uint64_t marked, marked_bytes;
    uint64_t truncated;    /* blocks that the list had no room for; of those that are lost, and had no record before: */
    uint64_t unlisted, unlisted_bytes;
    bool islands;          /* were looked for */
    bool rings;            /* io_uring's or kernel AIO's are mapped, which hold pointers where nobody sees them */
    uint32_t stacks;       /* hash of where the threads were */
    uint32_t sharer;       /* another process that has the memory, 0: none.  One that is seen again ends reclaim */
    bool denied;           /* a snapshot's child may not look for such reasons: nothing is reclaimed this time */
    const char *refused;   /* why nothing may be reclaimed in this process; a string of the library's */
    uint32_t unfrozen;     /* ranges that a fork does not copy, and */
    struct {
        uintptr_t from, to;
    } unfrozen_range[16];
    size_t room, count;
    struct verdict_block block[];
};

/* Makes, confirms and ends records by the verdict of a complete major collection.  `time` and `number` are that
   collection's, `before` the time of the complete one before it.  The holder of the gate, or a snapshot child.  What was allocated or
   freed since the cut is left alone.  Returns the blocks that are newly lost. */
uint64_t lost_apply(const struct verdict *, uint64_t time, uint64_t before, uint32_t number, uint64_t *new_bytes);

/* For tests: called at each step by which lost_apply makes a block lost, between any two of which the program may free it.
   LOST_TAKEN, LOST_FOUND: a free or resize has taken the block's tag, and has looked for the record, which a collection may
   now be faster to end or to claim. */
enum lost_step { LOST_LOOKED_AT, LOST_ENTERED, LOST_TAGGED /* not of large blocks */, LOST_MADE, LOST_STEPS, LOST_TAKEN = LOST_STEPS, LOST_FOUND };
HIDDEN extern void (*lost_step)(enum lost_step);

/* Reclaim takes a lost block: true for who is first, be it this or a free of the program.  Its record stays until the next
   collection, so that a free that is under way finds it.  The holder of the gate. */
bool lost_claim(uint32_t number);

/* Somebody has used a lost block, as its contents or pages show: it will not be called lost again.  The holder of the gate. */
void lost_disprove(uint32_t number, enum lost_proof);

/* The hash of a lost block's contents when it was first missed; false if it is not known as lost. */
bool lost_hash(uintptr_t block, uint64_t *hash);

/* After fork, in the child: the proofs start from zero. */
void lost_fork_child(void);

#endif
