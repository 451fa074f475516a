/* model.h: what the command knows of a profile: modules, places, call stacks with their figures,
   and the exact totals that came with them.  Readers fill it, symbols.c names its places, writers
   print it.

   A `place` is one address of code (pprof's location); a `frame` is one function at it, more than
   one where calls were inlined.  A `site` is one call stack with everything that was allocated
   there. SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REPORT_MODEL_H
#define GLEANER_REPORT_MODEL_H

#include "report/arena.h"
#include "sampler/estimate.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum measure { MEASURE_ALLOC, MEASURE_LIVE, MEASURE_PEAK, MEASURE_LOST, MEASURES };

/* "alloc", "live", "peak", "lost": as --show spells them. */
extern const char *const measure_names[MEASURES];

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

struct site {
    struct place **stack; /* the leaf first */
    size_t depth;
    struct step *steps; /* filled by model_unfold */
    size_t step_count;
    const char *source;     /* malloc, realloc …; NULL when unknown, "mixed" when several */
    const char *stack_note; /* "early": one frame only, from before the start; "dropped"; or NULL */
    struct figure figures[MEASURES];
    const struct figure *before; /* in a difference: the figures of the older profile, else NULL */
    const struct figure *after;  /* and of the newer one */
};

/* One sample as the file had it: a site's blocks of one size.  Kept so that writing pprof loses
 * nothing. */
struct part {
    struct place **stack; /* the site's */
    size_t depth;
    int64_t values[MEASURES][2]; /* objects, bytes */
    int64_t size;                /* bytes of each block, 0 when not known */
    int64_t points[MEASURES];    /* sample points, -1 when not known */
    const char *source, *stack_note;
};

struct profile {
    struct arena arena; /* owns everything below but `head` */
    const char *path;   /* as the user named it, for messages */
    bool ours;          /* written by Gleaner */
    bool exact;         /* every block was sampled */
    bool has[MEASURES];
    bool relative; /* a difference of two profiles */
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

/* Sorts the sites by falling bytes of `measure`, then by objects, then by stack, so that equal
   profiles print equally. */
void model_sort(struct profile *, enum measure);

/* Numbers and texts of the head by a dotted path, as "totals.live.bytes". `missing` (NAN, NULL)
   when there is none. */
double head_number(const struct profile *, const char *path);
const char *head_text(const struct profile *, const char *path);

#endif
