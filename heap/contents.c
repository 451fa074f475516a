/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/contents.h"
#include "heap/os.h"
#include "heap/present.h"

static void add_part(uintptr_t from, uintptr_t to, void *user)
{
    struct contents *c = user;
    if (c->no_room) return;
    if (c->parts == c->room) {
        size_t room = c->room ? 2 * c->room : OS_PAGE / sizeof *c->part;
        struct cut_range *more = os_map(room * sizeof *more);
        if (!more) {
            c->no_room = true;
            return;
        }
        if (c->part) {
            __builtin_memcpy(more, c->part, c->parts * sizeof *more);
            os_unmap(c->part, c->room * sizeof *more);
        }
        c->part = more;
        c->room = room;
    }
    c->part[c->parts++] = (struct cut_range){from, to};
}

bool contents_make(struct contents *c, const struct white *white, const struct maps *maps)
{
    *c = (struct contents){0};
    if (!holes_find(&c->holes, maps)) return false;
    const struct white_area *a = &white->area[AREA_LARGE];
    struct present present;
    bool started = false;
    for (size_t i = 0; i < (a->granules + 63) / 64; i++)
        for (uint64_t bits = a->bits[i]; bits != 0; bits &= bits - 1) {
            struct white_block b;
            white_block_of(white, AREA_LARGE, i * 64 + (unsigned)__builtin_ctzll(bits), &b);
            if (b.bytes < CONTENTS_LARGE) continue;
            if (!started) present_start(&present, PRESENT_SCAN);
            started = true;
            size_t before = c->parts;
            if (present_each(&present, b.start, b.start + b.bytes, false, add_part, c)) continue;
            c->parts = before;
            add_part(b.start, b.start + b.bytes, c);
        }
    if (started) present_end(&present);
    if (!c->no_room) return true;
    contents_free(c);
    return false;
}

void contents_free(struct contents *c)
{
    holes_free(&c->holes);
    if (c->part) os_unmap(c->part, c->room * sizeof *c->part);
    *c = (struct contents){0};
}

/* The first part that ends behind an address, or parts. */
static size_t part_from(const struct contents *c, uintptr_t address)
{
    size_t low = 0, high = c->parts;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (c->part[middle].to > address) high = middle;
        else low = middle + 1;
    }
    return low;
}

uintptr_t contents_ask(const struct contents *c, const struct white_block *b, uintptr_t *at)
{
    uintptr_t end = b->start + b->bytes;
    while (*at < end) {
        uintptr_t to = end;
        if (b->bytes >= CONTENTS_LARGE) {
            size_t i = part_from(c, *at);
            if (i == c->parts || c->part[i].from >= end) return 0;
            if (c->part[i].from > *at) *at = c->part[i].from;
            if (c->part[i].to < to) to = c->part[i].to;
        }
        if (holes_cut(&c->holes, *at, &to)) return to;
        *at = to;
    }
    return 0;
}
