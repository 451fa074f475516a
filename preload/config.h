/* config.h: the library's configuration: /etc/gleaner.conf, then GLEANER_CONF; later wins.
   A text is `key:value` (or `key=value`), separated by commas or line ends; `#` starts a comment.
   Whatever is wrong is named in one line and skipped: the program always runs.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_CONFIG_H
#define GLEANER_CONFIG_H

#include "heap/base.h"

#define CONFIG_PATH 1024 /* longest path or pattern, with its terminating zero */

enum config_leaks { LEAKS_OFF, LEAKS_EXIT, LEAKS_EVERY };
enum config_collect { COLLECT_UNSET, COLLECT_OFF, COLLECT_REPORT, COLLECT_RECLAIM };
enum config_pages { PAGES_SCAN, PAGES_PAGEMAP, PAGES_MINCORE }; /* as enum present_way */
enum config_remember { REMEMBERED_AUTO, REMEMBERED_SWEEP, REMEMBERED_TRACK }; /* as enum remember_way */
enum config_log { LOG_NONE, LOG_GC, LOG_DEBUG };

struct config {
    uint64_t sample_bytes; /* mean bytes between samples; 0: off */
    bool sample_all;
    unsigned depth; /* frames of a stack, 1 to 256 */
    enum config_leaks leaks;
    uint64_t leaks_every_ns;
    enum config_collect collect; /* unset: what leaks and requests ask for */
    uint64_t nursery_bytes;      /* 0: adaptive */
    uint64_t reclaim_delay_ns;
    uint64_t reclaim_age_ns; /* UINT64_MAX: the delay */
    unsigned reclaim_confirmations, reclaim_trial, reclaim_share;
    bool reclaim_stacks, reclaim_contents, reclaim_libraries, reclaim_anyway, reclaim_seal;
    uint64_t interval_ns; /* 0: none */
    bool exit_report, exit_profile;
    int exit_code; /* 0 to 255 */
    int signal;    /* 0: none */
    bool follow, verify, abort;
    bool snapshot; /* major collections by a snapshot child */
    enum config_pages pages;
    enum config_remember remember;
    enum config_log log;
    bool frame_pointers;
    bool fixed_seed;
    uint64_t seed;
    char output[CONFIG_PATH];
    char suppressions[CONFIG_PATH]; /* empty: none */
    char log_file[CONFIG_PATH];     /* empty: stderr */
};

/* Is the collector on from the process's start? */
static inline bool config_watches(const struct config *c)
{
    return c->collect != COLLECT_OFF && (c->collect != COLLECT_UNSET || c->leaks != LEAKS_OFF);
}

/* Sets every key to its default. */
void config_default(struct config *to);

/* Reads `bytes` of text into `to`. `where` names the text in complaints; `complain` gets one line
   each (no newline, printable), at most 9 a text, the last saying that there are more; it may be
   NULL.  Reads no further than `bytes`; stops at a zero byte. */
void config_parse(struct config *to, const char *text, size_t bytes, const char *where,
                  void (*complain)(const char *line));

/* Reads at most 64 KiB of a file in the same way.  A file that does not exist is no error; one that
   cannot be read is one complaint. */
void config_read_file(struct config *to, const char *path, void (*complain)(const char *line));

/* The value of a variable in an environment, or NULL.  Not getenv: programs and other preloaded
   libraries wrap that (jemalloc#916). */
const char *config_environment(char *const *environment, const char *name);

#endif
