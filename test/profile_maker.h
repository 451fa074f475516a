/* profile_maker.h: makes small pprof files for tests, with protobuf-c as the independent encoder.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef TEST_PROFILE_MAKER_H
#define TEST_PROFILE_MAKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct maker;

/* An empty profile of Gleaner's shape: its eight sample types, space/bytes, the period, no comment.
 */
struct maker *maker_new(int64_t period);
void maker_free(struct maker *);

void maker_comment(struct maker *, const char *text);
void maker_time(struct maker *, int64_t nanoseconds, int64_t duration);
void maker_drop(struct maker *, const char *expression);
/* Instead of Gleaner's eight types: "type/unit", ended by NULL. */
void maker_types(struct maker *, const char *const *types);

/* Each returns an id for the next. */
uint64_t maker_module(struct maker *, uint64_t start, uint64_t limit, uint64_t offset,
                      const char *file, const char *build_id);
uint64_t maker_place(struct maker *, uint64_t module, uint64_t address);
/* Adds a function to a place; the innermost inlined one first. */
void maker_line(struct maker *, uint64_t place, const char *function, const char *file,
                int64_t line);

struct maker_sample {
    uint64_t places[16];                     /* leaf first, ended by 0 */
    int64_t values[8];                       /* alloc, live, lost, peak: objects and bytes each */
    int64_t size, alloc_points, live_points; /* labels; 0: none */
    const char *source, *stack_note, *lost, *why; /* the label `lost`, */
    struct {                                      /* and more labels, ended by NULL */
        const char *key;
        int64_t number;
    } labels[16];
};
void maker_add(struct maker *, const struct maker_sample *);

/* The encoded profile; *length is set; from malloc. */
uint8_t *maker_bytes(struct maker *, bool gzip, size_t *length);
void maker_write(struct maker *, const char *path);

/* Gzip of some bytes; from malloc. */
uint8_t *gzip_bytes(const void *bytes, size_t length, size_t *packed_length);

#endif
