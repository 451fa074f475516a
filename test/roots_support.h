/* roots_support.h: for the suites of the roots: words that are hidden somewhere, and a look at whether they are found.

   A word is kept as its complement everywhere but in the place where it is hidden, so that it is nowhere else.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_TEST_ROOTS_SUPPORT_H
#define GLEANER_TEST_ROOTS_SUPPORT_H

#include "heap/roots.h"

#include <check.h>

#define PAGE ((size_t)4096)

/* Not a constant: instructions and tables would hold the word then. */
static volatile uint64_t complement_of_0 = UINT64_C(0x5c3a96e1d2b40000);

/* Hides word number `n` at an address. */
static inline void hide(volatile void *at, uint64_t n)
{
    *(volatile uint64_t *)at = ~(complement_of_0 + n);
}

struct hunt {
    uint64_t complement;
    size_t hits;
    enum root_kind kind; /* of the latest hit */
};

__attribute__((no_sanitize("address"))) static inline void
hunt_in(const uintptr_t *from, const uintptr_t *to, enum root_kind kind, void *user)
{
    struct hunt *h = user;
    for (; from < to; from++) {
        if (~*from != h->complement) continue;
        h->hits++;
        h->kind = kind;
    }
}

/* How often the roots deliver word number `n`; `kind`, where not NULL, of the last. */
static inline size_t delivered(struct roots *r, uint64_t n, enum root_kind *kind)
{
    struct hunt h = {.complement = complement_of_0 + n};
    roots_each_words(r, hunt_in, &h);
    if (kind) *kind = h.kind;
    return h.hits;
}

/* The root that an address lies in; NULL if none. */
static inline const struct root *root_at(const struct roots *r, const volatile void *address)
{
    for (size_t i = 0; i < r->count; i++) {
        if (r->root[i].from <= (uintptr_t)address && (uintptr_t)address < r->root[i].to)
            return &r->root[i];
    }
    return NULL;
}

/* Both at once: it is found there, once, with this kind. */
#define ck_found(roots, n, at, expected_kind)                                                      \
    do {                                                                                           \
        enum root_kind kind_;                                                                      \
        ck_assert_msg(root_at(roots, at) != NULL, "%p is in no root", (void *)(uintptr_t)(at));    \
        ck_assert_uint_ge(delivered(roots, n, &kind_), 1);                                         \
        ck_assert_int_eq(kind_, expected_kind);                                                    \
    } while (0)

#define ck_not_found(roots, n, at)                                                                 \
    do {                                                                                           \
        ck_assert_msg(root_at(roots, at) == NULL, "%p is in a root", (void *)(uintptr_t)(at));     \
        ck_assert_uint_eq(delivered(roots, n, NULL), 0);                                           \
    } while (0)

/* The roots of this process, whose only thread has called this: what it has left below its stack pointer does not
   count. */
static __attribute__((noinline, unused)) void find(struct roots *to, const struct cut *cut,
                                                   const struct roots_options *options)
{
    struct cut_thread self = {.sp = (uintptr_t)__builtin_frame_address(0)};
    struct cut with_self = *cut;
    with_self.thread = &self;
    with_self.threads = 1;
    roots_find(to, &with_self, options);
}

static __attribute__((noinline, unused)) void find_all(struct roots *to, enum roots_part part,
                                                       enum present_way way)
{
    const struct cut cut = {0};
    const struct roots_options options = {.part = part, .at_best = way, .shared_most = SIZE_MAX};
    find(to, &cut, &options);
    ck_assert(to->complete);
}

#endif
