/* profile_writer.h: what the parts of the profile's writer share: profile.c, profile_lost.c, profile_lifetime.c.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_PROFILE_WRITER_H
#define GLEANER_PROFILE_WRITER_H

#include "heap/eligible.h"
#include "heap/hooks.h"
#include "sampler/gzip.h"
#include "sampler/lost_sites.h"
#include "sampler/profile.h"
#include "sampler/profile_table.h"
#include "sampler/protobuf.h"

/* Field numbers of profile.proto (github.com/google/pprof, proto/profile.proto). */
enum {
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLE = 2,
    PROFILE_MAPPING = 3,
    PROFILE_LOCATION = 4,
    PROFILE_FUNCTION = 5,
    PROFILE_STRING = 6,
    PROFILE_DROP_FRAMES = 7,
    PROFILE_TIME = 9,
    PROFILE_DURATION = 10,
    PROFILE_PERIOD_TYPE = 11,
    PROFILE_PERIOD = 12,
    PROFILE_COMMENT = 13,
    PROFILE_DEFAULT_TYPE = 14,

    VALUE_TYPE = 1,
    VALUE_UNIT = 2,

    SAMPLE_LOCATION = 1,
    SAMPLE_VALUE = 2,
    SAMPLE_LABEL = 3,

    LABEL_KEY = 1,
    LABEL_STRING = 2,
    LABEL_NUMBER = 3,
    LABEL_UNIT = 4,

    MAPPING_ID = 1,
    MAPPING_START = 2,
    MAPPING_LIMIT = 3,
    MAPPING_OFFSET = 4,
    MAPPING_FILE = 5,
    MAPPING_BUILD_ID = 6,

    LOCATION_ID = 1,
    LOCATION_MAPPING = 2,
    LOCATION_ADDRESS = 3,
    LOCATION_LINE = 4,

    LINE_FUNCTION = 1,

    FUNCTION_ID = 1,
    FUNCTION_NAME = 2,
};

/* The strings that every profile has, by their place in its table. */
enum {
    S_EMPTY,
    S_ALLOC_OBJECTS,
    S_ALLOC_SPACE,
    S_INUSE_OBJECTS,
    S_INUSE_SPACE,
    S_LOST_OBJECTS,
    S_LOST_SPACE,
    S_PEAK_OBJECTS,
    S_PEAK_SPACE,
    S_COUNT,
    S_BYTES,
    S_SPACE,
    S_SOURCE,
    S_MALLOC,
    S_CALLOC,
    S_REALLOC,
    S_ALIGNED,
    S_ALLOC_SAMPLES,
    S_INUSE_SAMPLES,
    S_STACK,
    S_EARLY,
    S_DROPPED,
    S_DROPPED_STACKS,
    S_DROP_FRAMES,
    S_UNRECORDED,
    S_NOT_RECORDED,
    S_CALLER,
    S_LOST,
    S_DIRECT,
    S_INDIRECT,
    S_POSSIBLE,
    S_FALSE,
    S_LOST_BYTES,
    S_OBJECTS_LOW,
    S_OBJECTS_HIGH,
    S_BYTES_LOW,
    S_BYTES_HIGH,
    S_ASKED,
    S_HANGS_OBJECTS,
    S_HANGS_BYTES,
    S_LAST_REACHED,
    S_FIRST_MISSED,
    S_LAST_MISSED,
    S_NANOSECONDS,
    S_MISSES,
    S_SITE,
    S_HEAD,
    S_WHY,
    S_NARROW,
    S_BEFORE,
    S_PAST_END,
    S_MISALIGNED,
    S_RECLAIMED,
    S_PROOF,
    S_NOT_RECLAIMED,
    S_RULES, /* a word for each of eligible.h's rules */
    FIXED_STRINGS = S_RULES + ELIGIBLE_RULES
};

struct writer {
    int fd, error;
    struct gzip *gzip;
    struct protobuf out, strings;
    uint64_t string_count;
    struct profile_table table;
    uint64_t interval;
    bool exact, lacks_stack, lacks_record;
    struct lost_sites *lost; /* NULL without memory */
    struct protobuf holders; /* a comment: who holds what; empty: not asked */
};

/* pprof leaves samples without a location out: what has no stack gets one with a name. */
#define DROPPED_LOCATION 0x7fffffffu
#define UNRECORDED_LOCATION 0x7ffffffeu

/* A label of the sample that is being written.  A number that is 0 is left out by the format. */
void profile_number_label(struct writer *, unsigned key, uint64_t value, unsigned unit);
void profile_string_label(struct writer *, unsigned key, unsigned value);

/* The locations of a stack of stack.h, as far as there are any; and the labels that go with it. */
bool profile_stack(struct writer *, uint32_t stack);
void profile_stack_labels(struct writer *, uint32_t stack, bool any, enum heap_source);

/* Between samples: hands on what was written when it is much. */
void profile_flush(struct writer *);
/* The same between strings. */
void profile_flush_strings(struct writer *);

/* The label `site` of the samples of a site, by which other parts of the profile name it; never 0. */
uint64_t profile_site_number(uint32_t site);

/* Fills `holders`. */
void profile_holders(struct writer *, const struct profile_about *);

/* The samples of what is lost and of what was called so falsely. */
void profile_lost(struct writer *);

/* Lifetimes by site. */
void profile_lifetime(struct writer *);

#endif
