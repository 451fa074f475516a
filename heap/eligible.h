/* eligible.h: the rules that a lost block must meet before it is quarantined, and which of them keeps it.

   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_ELIGIBLE_H
#define GLEANER_ELIGIBLE_H

#include "heap/base.h"

enum eligible_rule {
    ELIGIBLE,
    RULE_EXOTIC,        /* an unusual form of pointer explains it: possibly lost only */
    RULE_FREED_MEMORY,  /* something in freed memory or a dead stack points to it */
    RULE_CONTENTS,      /* they have changed, or cannot be looked at */
    RULE_CONFIRMATIONS, /* not enough complete major collections have missed it */
    RULE_AGE,           /* lost for too short a time */
    RULE_START,         /* so is the process */
    RULE_NO_PLACE,      /* it is not known who allocated it */
    RULE_LIBRARY,       /* the loader or libc did, or a library that is known to hide pointers */
    RULE_VETOED,        /* a block of its place was proven not to be lost */
    RULE_TRIAL,         /* its place has not condemned enough blocks before, or not for long enough */
    RULE_GROUP,         /* one that is connected with it is not eligible */
    RULE_BUDGET,        /* enough was quarantined by this collection */
    RULE_OFF,           /* reclaim has ended */
    ELIGIBLE_RULES
};

/* A word for each, as profiles have it. */
extern const char *const eligible_names[ELIGIBLE_RULES];

struct lost_record;
struct lost_trial;
struct verdict_block;
struct reclaim_options;

/* What a collection knows. */
struct eligible_now {
    const struct reclaim_options *options;
    uint32_t tick;      /* lost_tick of its cut */
    uint32_t number, stacks;
    bool too_early;     /* the process is younger than the delay */
};

/* Counts a confirmation where the collection is one, and returns the first rule that keeps the block, those of its group and of the budget
   aside.  `condemned`: all rules that concern the block itself are met, so that it counts for its place's trial. */
enum eligible_rule eligible(const struct eligible_now *, const struct lost_record *, struct lost_trial *,
                            const struct verdict_block *, bool *condemned);

#endif
