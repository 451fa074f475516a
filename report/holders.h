/* holders.h: what a profile says of who holds its blocks (doc/format.md, "Who holds what"), and the names of the holders.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REPORT_HOLDERS_H
#define GLEANER_REPORT_HOLDERS_H

#include "report/file.h"
#include "report/model.h"

enum area_kind { AREA_FRAMES, AREA_TLS, AREA_MODULE, AREA_MAPPING, AREA_KERNEL, AREA_IGNORED, AREA_KINDS };

/* Memory in which words lie that hold blocks. */
struct area {
    enum area_kind kind;
    const struct module *module; /* of a module's data */
    uint64_t bias;               /* its addresses less those of its file */
    int64_t tid;                 /* of frames and thread-local memory */
    const char *thread;          /* its name; NULL: not known */
    uint64_t tp;                 /* of thread-local memory: the thread pointer */
    uint64_t from, to;           /* of a mapping */
    const char *name;            /* of a mapping; NULL: it has none */
};

/* A variable.  Filled by holders_name. */
struct variable {
    const char *name; /* NULL: not known */
    uint64_t start, bytes; /* as `at` of a word in it */
};

/* A word that holds a block: or all words that are not to be told apart. */
struct unit {
    const struct area *area;
    uint64_t at, bytes;
    struct variable variable; /* that holds all of it */
};

struct share {
    const struct unit *low, *high;
    uint64_t objects, bytes;
};

/* Of a word of a thread. */
enum holder_how {
    HOW_WORD,
    HOW_REGISTER,
    HOW_LEFT /* on the stack, by a call that returned */
};

/* A block on the way, or several, each of which points to the next. */
struct way_step {
    const struct site *stack; /* where they were allocated; NULL: not known */
    uint64_t bytes;           /* of each */
    int64_t offset_low, offset_high; /* where in them the pointer lies; -1: not known */
    uint64_t least, most;     /* how many they are */
};

struct way {
    struct unit root;          /* one word */
    enum holder_how how;
    struct site *frame;        /* of a frame: a stack of its one function; NULL: not known */
    struct way_step *steps;    /* from the root on, without the block itself */
    size_t step_count;
    bool has_only;
    const struct unit *low, *high; /* the lowest and the highest of all words that the block is reached from */
    uint64_t count, exclusive; /* blocks; of them, such that are reached from nothing else */
};

/* The blocks of one call stack. */
struct held {
    const struct site *stack; /* NULL: their stacks were dropped */
    uint64_t live;            /* sampled blocks */
    uint64_t looked_at, unreached, ignored;
    struct way *ways;
    size_t way_count;
};

struct holders {
    const char *why_not; /* NULL, or why the rest is empty */
    bool complete;       /* all memory was looked at */
    uint64_t reached, reached_bytes, unreached, unreached_bytes;
    struct site *stacks;
    size_t stack_count;
    struct area *areas;
    size_t area_count;
    struct unit *units;
    size_t unit_count;
    bool has_shares;
    struct share *shares;
    size_t share_count;
    struct held *held;
    size_t held_count;
};

/* How a reader finds what the text refers to; NULL for what is not there. */
struct holders_lookup {
    struct place *(*place)(void *user, uint64_t id);
    const struct module *(*module)(void *user, uint64_t id);
    void *user;
};

/* Reads the text of the comment into profile->holders. False with the reason in `problem`. */
bool holders_parse(struct profile *, const char *text, const struct holders_lookup *, char problem[PROBLEM_BYTES]);

/* Finds the variables.  `root` as in symbols.h. */
void holders_name(struct profile *, const char *root);

/* After that: joins the ways of each call stack that start from one variable and lead through blocks of the same stacks. */
void holders_merge(struct profile *);

/* Are two words in one variable, or in what is not told apart otherwise? */
bool holders_same(const struct unit *, const struct unit *);

/* The call stacks that a user means by SITE: the number of one in the report of live blocks (from 1), the address of a frame (0x…),
   or a part of a function's name.  The profile must be sorted by live bytes. Returns how many; the array is to be freed. */
size_t holders_find_site(const struct profile *, const char *site, const struct held ***found);

/* What `root` is, in words; to be freed. */
char *holder_text(const struct unit *, enum holder_how, const struct site *frame);

/* What is reached from one holder alone, or from two, and perhaps from others between them. */
struct retained {
    const struct unit *low, *high;
    bool one;                   /* both are one holder */
    bool low_alone, high_alone; /* else: it is that variable in all of them; not so: several of its area */
    uint64_t objects, bytes;
};

/* Every block is in one of them.  By falling bytes; to be freed. */
struct retained *holders_retained(const struct holders *, size_t *count);

#endif
