/* model.h: what the command knows of a profile: modules, places, call stacks with their figures,
   and the exact totals that came with them.  Readers fill it, symbols.c names its places, writers
   print it.

   A `place` is one address of code (pprof's location); a `frame` is one function at it, more than
   one where calls were inlined.  A `site` is one call stack with everything that was allocated
   there. SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REPORT_MODEL_H
#define GLEANER_REPORT_MODEL_H

#include "heap/eligible.h"
#include "report/arena.h"
#include "sampler/estimate.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum measure {
    MEASURE_ALLOC,
    MEASURE_LIVE,
    MEASURE_PEAK,
    MEASURE_LOST,     /* the next two together */
    MEASURE_DIRECT,   /* lost, and no other lost block reaches it */
    MEASURE_INDIRECT, /* lost, and another lost block does */
    MEASURE_POSSIBLE, /* reached by unusual forms of pointers only; not in `lost` */
    MEASURE_HANGING,  /* what hangs on the directly lost blocks, wherever it was allocated */
    MEASURE_FALSE,    /* was called lost, and proven not to be */
    MEASURE_RECLAIMED,
    MEASURE_PROOF,    /* the calls that proved it: how often that was so of the blocks' place */
    MEASURES,
    MEASURES_SHOWN = MEASURE_LOST + 1,  /* the first are what --show takes, */
    MEASURES_SAMPLED = MEASURE_PEAK + 1 /* and estimated from sample points */
};

/* "alloc", "live", "peak", "lost": as --show spells them. */
extern const char *const measure_names[MEASURES_SHOWN];

/* A figure with its 95 % interval (sampler/estimate.h).  Exact: lo == value == hi.  An interval
   that cannot be known is two NANs. */
struct figure {
    struct estimate objects, bytes;
};

struct module {
    uint64_t start, limit; /* where it was mapped */
    uint64_t offset;       /* of `start` in the file */
    const char *file;      /* "" when unknown */
    const char *name;      /* the file's last component */
    const char *build_id;  /* lower case hexadecimal, "" when it has none */
    bool named;            /* the file already carries function names for it */
};

struct frame {
    const char *function; /* NULL: not known */
    const char *file;     /* NULL: not known */
    int64_t line;         /* 0: not known */
};

struct place {
    uint64_t address; /* of the call, not of its return; 0 in profiles that have only names */
    const struct module *module; /* NULL: in no mapping */
    struct frame *frames;        /* the innermost inlined function first */
    size_t frame_count;          /* 0 before symbolisation */
};

/* One line of a printed stack. `frame` is NULL for a place without a name. */
struct step {
    const struct place *place;
    const struct frame *frame;
};

/* When blocks were lost: nanoseconds since 1970, 0: not known.  All were reached by `last_reached`, the latest collection
   before the first of them was missed, or the process's start.  Of their first misses the earliest and the latest;
   and how many collections in a row missed the one that was missed most often. */
struct since {
    int64_t last_reached, first_missed, last_missed, misses;
};

struct site {
    size_t number;        /* in the order of the file, from 0: what a part's `site` means */
    struct place **stack; /* the leaf first */
    size_t depth;
    struct step *steps; /* filled by model_unfold */
    size_t step_count;
    const char *source; /* malloc, realloc …; NULL when unknown, "mixed" when several */
    /* "early": one frame only, from before the start; "dropped"; "caller": malloc's caller only; "unrecorded": not even
       that; or NULL */
    const char *stack_note;
    struct figure figures[MEASURES];
    struct since since[3];       /* of what is directly, indirectly and possibly lost */
    unsigned rules;              /* as in lost_row, of all that is lost here */
    unsigned forms;              /* as in lost_row, of all that is possibly lost here */
    double asked[3];             /* bytes asked for by the same blocks; NAN: not known */
    struct lifetime *lifetime;   /* lifetime.h; NULL: not known */
    const struct figure *before; /* in a difference: the figures of the older profile, else NULL */
    const struct figure *after;  /* and of the newer one */
};

/* Forms of pointers that a collection does not follow. */
enum { FORM_NARROW, FORM_BEFORE, FORM_PAST_END, FORM_MISALIGNED, FORMS };
extern const char *const form_names[FORMS]; /* as in the file */

/* Why lost blocks were not reclaimed. */
extern const char *const rule_texts[ELIGIBLE_RULES]; /* for people; eligible_names, as in the file */

/* What a sample says of lost blocks. */
struct lost_row {
    enum measure kind; /* direct, indirect, possible, false; lost where the file does not say how */
    struct figure figure;
    struct since since;
    int64_t asked, hangs_objects, hangs_bytes; /* 0: not known, or none */
    unsigned forms; /* of possibly lost blocks, in which something points to them: bits 1 << FORM_… */
    unsigned rules; /* bits 1 << enum eligible_rule */
    uint64_t number, head; /* an indirect row hangs on the direct one with the number `head`; 0: none */
    bool suppressed;
};

/* One sample as the file had it: a site's blocks of one size.  Kept so that writing pprof loses
 * nothing. */
struct part {
    struct place **stack; /* the site's */
    size_t depth;
    size_t site;                       /* number of it */
    int64_t values[MEASURES_SHOWN][2]; /* objects, bytes */
    int64_t size;                      /* bytes of each block, 0 when not known */
    int64_t points[MEASURES_SAMPLED];  /* sample points, -1 when not known */
    const char *source, *stack_note;
    uint64_t number; /* by which other parts of the file name it; 0: none */
    struct lost_row *lost; /* NULL where it says nothing of lost blocks */
};

struct profile {
    struct arena arena; /* owns everything below but `head` */
    const char *path;   /* as the user named it, for messages */
    bool ours;          /* written by Gleaner */
    bool exact;         /* every block was sampled */
    bool has[MEASURES];
    bool relative; /* a difference of two profiles */
    struct lifetimes *lifetimes; /* lifetime.h; NULL: none, and in a difference */
    struct holders *holders; /* who holds its blocks; NULL: it does not say (holders.h) */
    struct suppressions *known; /* that were applied, with their counts; NULL: none (suppress.h) */
    json_t *head;  /* exact totals, classes, memory …; an empty object for other producers */
    int64_t time, duration;  /* nanoseconds since 1970; nanoseconds; 0 when unknown */
    int64_t period;          /* mean bytes between samples, 0 when unknown */
    const char *drop, *keep; /* regular expressions, NULL when there are none */
    struct module *modules;
    size_t module_count;
    struct place *places;
    size_t place_count;
    struct site *sites;
    size_t site_count;
    struct part *parts; /* NULL in a difference */
    size_t part_count;
};

void profile_free(struct profile *);

/* An exact figure. */
struct estimate exactly(double value);
/* Whether an interval is known and wider than nothing. */
bool is_estimated(struct estimate);

/* The sum and the difference of two independent estimates.  Intervals are combined by the method of
   variance estimates recovery (Zou and Donner 2008, Statistics in Medicine 27:1693-1702), which
   keeps asymmetric intervals asymmetric. */
struct estimate estimate_plus(struct estimate, struct estimate);
struct estimate estimate_minus(struct estimate, struct estimate);

/* The address as the module's file counts it (offset from the start of its first mapping when the
   file offset is 0); the bare address when the place lies in no module. */
uint64_t place_offset(const struct place *);

/* After the names are known: lists the steps of every site, inlined calls as steps of their own,
   without the frames that the profile asks to drop. */
void model_unfold(struct profile *);

/* Sets the sites' figures of lost blocks from the rows that are not suppressed. */
void model_sum_lost(struct profile *);

/* Widens `to` by what another says. */
void since_add(struct since *to, const struct since *);

/* Has a major collection run in the process? */
bool profile_collected(const struct profile *);

/* Sorts the sites by falling bytes of `measure`, then by objects, then by stack, so that equal
   profiles print equally. */
void model_sort(struct profile *, enum measure);

/* Numbers and texts of the head by a dotted path, as "totals.live.bytes". `missing` (NAN, NULL)
   when there is none. */
double head_number(const struct profile *, const char *path);
const char *head_text(const struct profile *, const char *path);

#endif
