/* basics.h: what every file of the command uses: one-line messages, memory that cannot fail,
   strings that are safe to print. SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REPORT_BASICS_H
#define GLEANER_REPORT_BASICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exit statuses of the command itself. */
enum {
    EXIT_OK = 0,
    EXIT_PROBLEM = 1,
    EXIT_USAGE = 2,
    EXIT_NOT_EXECUTABLE = 126,
    EXIT_NOT_FOUND = 127
};

/* Writes "gleaner: …" and a newline to stderr, in one write. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same, then leaves with EXIT_USAGE after pointing at `COMMAND --help` (NULL: the top level).
 */
_Noreturn void usage_error(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* As malloc and friends; on failure they say so and leave with EXIT_PROBLEM.  need_array checks the
   product for overflow and returns zeroed memory. */
void *need(size_t bytes);
void *need_array(size_t count, size_t bytes);
void *need_again(void *block, size_t count, size_t bytes);
char *need_copy(const char *text);
char *need_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A growing array: makes room for one more than `count` elements of `bytes` in `array`, whose room
 *is room.  Returns the (moved) array. */
void *need_more(void *array, size_t count, size_t *room, size_t bytes);

/* Copies `length` bytes of `text`, replacing control characters and what is not UTF-8 by '?', so
   that names out of an untrusted file can neither drive a terminal nor break JSON.  To be freed. */
char *clean_text(const char *text, size_t length);

/* "1.5 MiB", "12 B"; of a negative number too. `to` has at least 24 bytes; returns it. */
char *human_bytes(double bytes, char *to);

#endif
