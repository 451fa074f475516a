/* lifetime.h: what a profile says of how long the blocks of a call stack lived, and what follows from it.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REPORT_LIFETIME_H
#define GLEANER_REPORT_LIFETIME_H

#include "report/file.h"
#include "report/model.h"
#include "report/survival.h"

/* Of a site's blocks, all sizes together.  Weights by age are bytes. */
struct lifetime {
    struct figure young, old; /* died so: before they had been there at a collection, and after */
    struct figure elsewhere;  /* of all that died: freed by another thread than the one that allocated them */
    struct figure live_old;   /* live, and was there at a collection */
    double died_time[LIFETIME_TIMES], live_time[LIFETIME_TIMES]; /* only blocks born in the observed time */
    double died_span[LIFETIME_SPANS], live_span[LIFETIME_SPANS];
    double points, blocks; /* sample points, and blocks, behind all of these */
};

/* Of the whole profile; NULL where it says nothing of lifetimes. */
struct lifetimes {
    double tick, unit;                   /* seconds, bytes of a step of age 1 */
    double observed_time, observed_span; /* in ticks, units: since the start, or the fork */
    double dropped;                      /* blocks whose age was not kept: a table was full */
    const char **comments;               /* as the file had them, "#gleaner-lifetimes:…" */
    size_t comment_count;
};

/* Reads the comments of the profile ("gleaner-lifetimes:" follows a '#'), after its samples. False with `problem` when one of them is
   damaged. What names no sample, or one of several, is left out: other programs may have joined profiles. */
bool lifetime_read(struct profile *, const char *const *comments, size_t count,
                   char problem[PROBLEM_BYTES]);

/* By part of the profile, the sample points of live blocks since whose birth the process has allocated at most `units`, and of some since
   whose birth it was less than twice that (a step of ages counts as a whole); NAN where that is not known.  NULL where it is of none.  To be
   freed. */
double *lifetime_live_younger(const struct profile *, double units);

/* Of all that was seen (died, or lives): bytes. */
double lifetime_total(const struct site *);

/* The curves; false where there are none. */
bool lifetime_by_time(const struct profile *, const struct site *, struct survival *);
bool lifetime_by_span(const struct profile *, const struct site *, struct survival *);

/* Does anything say which blocks are old? False: there was no collection yet. */
bool lifetime_knows_old(const struct profile *);

enum verdict { VERDICT_NONE, VERDICT_GROWING, VERDICT_LOST, VERDICT_STEADY, VERDICT_SHORT, VERDICTS };
extern const char *const verdict_names[VERDICTS]; /* "-", "growing" … */

/* Growth over the later half of the observed time: bytes that came and live, and bytes that, by the ages at which the site's blocks die, went of what was there
   before.  See verdict.c. */
struct lifetime_growth {
    double came, went, noise; /* noise: one standard deviation of came - went */
    double before;            /* live, and born in the earlier half */
    bool known;
};
struct lifetime_growth lifetime_growth(const struct profile *, const struct site *);

enum verdict lifetime_verdict(const struct profile *, const struct site *);

#endif
