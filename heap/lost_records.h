/* lost_records.h: the table of lost blocks: what is kept of each, and how it is found by address.

   1. Data.  Records of 64 bytes in chunks that are never given back, named by a number from 1.  An index by address: open addressing with record
      numbers in it.  Where lost blocks are reclaimed each record has a trial beside it (eligible.h).
   2. Synchronisation.  One thread makes records and enters them (the holder of the collection gate); any thread looks up, nobody
      removes: a record that ended has block 0, and the number in the index leads to nothing; the index is made anew, beside the old one, when it is
      half full.  Who swaps `block` for something else has ended the record.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_LOST_RECORDS_H
#define GLEANER_LOST_RECORDS_H

#include "heap/base.h"

struct lost_record {
    _Atomic uint64_t block; /* 0: none; with a mark: nobody's any more, but for a free that is under way */
    uint64_t hash, given, hangs_bytes;
    uint32_t tag;
    uint32_t last_reached, first_missed; /* ticks: lost_tick */
    uint32_t first_number, seen;         /* collections */
    uint32_t misses;
    uint32_t link; /* of a head, how many hang on it; of a free record, the next */
    uint8_t kind, why, class;
};
enum lost_mark { /* blocks lie at multiples of 16 */
    LOST_CLAIMED = 1, /* it is being reclaimed, or was */
    LOST_LEFT = 2,    /* it was freed before a collection came by, or that free is still under way */
    LOST_MARKS = 3
};

enum lost_stage {
    LOST_ON_TRIAL,   /* not all rules are met */
    LOST_CONDEMNED,  /* all rules that concern the block itself */
    LOST_QUARANTINED /* it waits for one more collection */
};

/* What reclaim knows of a lost block. */
struct lost_trial {
    uint32_t place;        /* where it was allocated: reclaim_place.h; 0: unknown */
    uint32_t stacks;       /* hash of the threads' stacks at the latest confirmation, */
    uint32_t confirmed_at; /* and when (lost_tick) */
    uint8_t confirmed;     /* confirmations, 255 at most */
    uint8_t stage;         /* enum lost_stage */
    uint8_t rule;          /* enum eligible_rule: why it was not reclaimed by the latest collection */
    bool library : 1;      /* allocated by the loader or libc */
    bool sealed : 1;       /* pages of it were (seal.h), in its quarantine; */
    bool sealed_whole : 1; /* all that it had; */
    bool changed : 1;      /* and it has others now that are not empty */
};

/* Numbers are below this. */
uint32_t lost_records_end(void);

/* NULL for a number that is none. */
struct lost_record *lost_record_at(uint32_t number);

/* Its trial; NULL unless lost_records_with_trials was called. */
struct lost_trial *lost_trial_at(uint32_t number);

/* From start-up: records have trials. */
void lost_records_with_trials(void);

/* The number of the record that a block has with this mark, 0: without any; 0: none. */
uint32_t lost_record_find(uintptr_t block, unsigned mark);

/* A new record, not entered yet; 0 without memory.  And into the index, once its block is set. */
uint32_t lost_record_new(void);
void lost_record_enter(uint32_t number);

/* The ended records can be used again: once all were forgotten, each that is none any more is given. */
void lost_records_forget_free(void);
void lost_record_free(uint32_t number);

/* Times of records, in units of 2^24 ns (17 ms: 32 bits last two years) from the first one that is asked for.  0 for earlier ones. */
uint32_t lost_tick(uint64_t nanoseconds);
uint64_t lost_time(uint32_t tick);
void lost_first_time(uint64_t nanoseconds);

#endif
