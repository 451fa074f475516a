/* large_spans.h: the free spans of an arena of big blocks (large_big.h): found by size, by neighbour and by age.

   1. Data.  A span is a run of free pages, a multiple of 64 KiB at a multiple of 64 KiB.  It is dirty when its pages may be
      there, clean when the system has them.  What is known of it stands in the records (large_table.h) of its pages:

        first   state LARGE_SPAN | LARGE_CLEAN where it is clean | arena, bytes = its length
        second  bytes = its neighbours in its bin's list
        third   bytes = dirty: the next newer and the next older span
        last    state LARGE_SPAN_END | arena, bytes = its first page

      so the spans beside a freed block are found at once (boundary tags: D. E. Knuth, "The Art of Computer
      Programming", vol. 1, section 2.5) and no memory is needed for them.
   2. Invariants.  No two spans of a kind touch.  A span is in the bin of its length; `filled` has a bit for every bin that
      is not empty; bytes[] are the sums of both kinds.
   3. Synchronisation.  All belongs to who holds the arena's lock.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_LARGE_SPANS_H
#define GLEANER_LARGE_SPANS_H

#include "heap/large_table.h"

#define SPAN_PAGES 16u
#define SPAN_BYTES (SPAN_PAGES * OS_PAGE)
#define SPAN_BINS 88u /* four a doubling, up to the area's size */

enum span_kind { SPAN_CLEAN, SPAN_DIRTY, SPAN_KINDS };

struct span {
    uint32_t page, pages; /* pages = 0: none */
    enum span_kind kind;
};

struct large_spans {
    unsigned arena;
    uint32_t bin[SPAN_KINDS][SPAN_BINS]; /* the first span's page + 1 */
    uint64_t filled[SPAN_KINDS][2];
    uint32_t newest, oldest; /* of the dirty ones, page + 1 */
    size_t bytes[SPAN_KINDS];
};

/* Takes in free pages, and makes one span of them and the neighbours of their kind.  `old`: they count as the oldest. */
void spans_add(struct large_spans *, uint32_t page, uint32_t pages, enum span_kind, bool old);

/* Takes out a span that one of the functions below has found. */
void spans_remove(struct large_spans *, struct span);

/* The span of the kind that fits `pages` best, or nearly so: of the lists at most a few are looked at. */
struct span spans_fit(struct large_spans *, uint32_t pages, enum span_kind);

/* The span that starts, or ends, at a page. */
struct span spans_starting(struct large_spans *, uint32_t page);
struct span spans_ending(struct large_spans *, uint32_t page);

/* The dirty span that has lain longest; and of the newest ones the longest that a clean one follows with which it has
   `pages`. */
struct span spans_oldest(struct large_spans *);
struct span spans_with_next(struct large_spans *, uint32_t pages);

/* Walks every structure; each violation is told to `wrong`. */
void spans_verify(struct large_spans *, void (*wrong)(const char *what, uint32_t page, void *user), void *user);

#endif
