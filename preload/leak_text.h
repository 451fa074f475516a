/* leak_text.h: what is lost now, as a text in the shape of LeakSanitizer's.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_LEAK_TEXT_H
#define GLEANER_LEAK_TEXT_H

#include "sampler/suppressions.h"

struct leak_text_options {
    int fd;                 /* negative: no text, only the totals */
    uint32_t most;          /* call stacks shown; 0: all */
    bool objects;           /* addresses, too */
    bool show_suppressions; /* the table of those that matched */
};

struct leak_totals {
    uint64_t blocks, bytes; /* directly and indirectly lost, no suppression names them */
    uint64_t unrecorded, unrecorded_bytes; /* lost, too, by the latest collection, which had no memory to record them: whose they are
                                              is not known, so that no suppression can name them */
};

/* Sums up what complete collections have found lost by now, takes away what a suppression names with all that hangs on it,
   and writes the rest, where there is any: by call stack, direct before indirect, most bytes first.  Names are those of exported
   functions and files of modules.  False without memory (nothing is counted or written then).  Any thread, one at
   a time; no lock, no malloc. */
bool leak_text(struct suppressions *, const struct leak_text_options *, struct leak_totals *);

#endif
