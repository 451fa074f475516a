/* command.h: runs programs from tests and keeps what they print; temporary folders.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef TEST_COMMAND_H
#define TEST_COMMAND_H

struct ran {
    char *out, *err;
    int status; /* exit status, or 1000 + the signal that ended it */
};

/* Runs argv[0] (looked up in PATH) to its end. TZ is UTC and DEBUGINFOD_URLS unset in it. */
struct ran run_program(const char *const *argv);
void ran_free(struct ran *);

/* A shell line, which must succeed. */
void must_run(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The command under test (environment variable GLEANER_COMMAND). */
const char *gleaner(void);

/* A fresh folder, which is removed when the test program ends. */
const char *test_folder(void);

/* "folder/name" in static storage of which there are eight. */
const char *in_folder(const char *name);

/* Fails the test unless `text` contains `part`, and prints both. */
void expect_part(const char *text, const char *part);
void expect_no_part(const char *text, const char *part);

#endif
