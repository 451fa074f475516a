/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/remember_check.h"
#include "heap/lost_hash.h"
#include "heap/meta.h"
#include "heap/remember_ranges.h"
#include "heap/remember_track.h"

#define UNIT_PAGES (((size_t)1 << RANGE_UNIT_SHIFT) / OS_PAGE)

static uint64_t *notes[RANGE_UNITS]; /* of each unit's pages: their hash, 0: not noted */

static uint64_t *note_of(uintptr_t page)
{
    return &notes[range_unit(page)][(page - window_base) / OS_PAGE % UNIT_PAGES];
}

static bool may_load(uintptr_t page, const struct present *p, const struct ranges *blind)
{
    return !p->absent && !p->swapped && !(blind && ranges_meet(blind, page, page + OS_PAGE));
}

void check_note(uintptr_t from, uintptr_t to, const struct present *p, const struct ranges *blind)
{
    uint64_t **unit = &notes[range_unit(from)];
    if (!*unit && !(*unit = meta_alloc(UNIT_PAGES * sizeof **unit))) return;
    for (uintptr_t page = from; page < to; page += OS_PAGE)
        *note_of(page) = may_load(page, p, blind) ? lost_hash_of(NULL, page, OS_PAGE) : 0;
}

struct check {
    struct present *present;
    const struct ranges *blind;
    struct check_found *found;
};

static void check_pages(uintptr_t from, uintptr_t to, void *user)
{
    struct check *c = user;
    for (uintptr_t page = from; page < to; page += OS_PAGE) {
        uint64_t before = *note_of(page);
        if (before == 0 || !may_load(page, c->present, c->blind) || lost_hash_of(NULL, page, OS_PAGE) == before ||
            track_is_written(c->present, page))
            continue;
        if (c->found->pages++ == 0) c->found->first = page;
    }
}

void check_range(uintptr_t from, uintptr_t to, struct present *p, const struct ranges *blind, struct check_found *found)
{
    struct check c = {p, blind, found};
    if (notes[range_unit(from)]) present_each(p, from, to, PRESENT_ANONYMOUS, check_pages, &c);
}
