/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/contents.h"
#include "heap/present.h"

struct list {
    struct contents *contents;
    struct present present;
};

/* What may be a guard region must not be loaded from: it is taken for empty. */
static void add_part(uintptr_t from, uintptr_t to, void *user)
{
    struct list *l = user;
    if (!l->present.swapped) ranges_add(&l->contents->part, from, to);
}

bool contents_make(struct contents *c, const struct white *white)
{
    *c = (struct contents){.white = white};
    const struct white_area *a = &white->area[AREA_LARGE];
    struct list list = {.contents = c};
    bool started = false;
    for (size_t i = 0; i < (a->granules + 63) / 64; i++)
        for (uint64_t bits = a->bits[i]; bits != 0; bits &= bits - 1) {
            struct white_block b;
            white_block_of(white, AREA_LARGE, i * 64 + (unsigned)__builtin_ctzll(bits), &b);
            if (b.bytes < CONTENTS_LARGE) continue;
            if (!started) present_start(&list.present, PRESENT_SCAN);
            started = true;
            size_t before = c->part.count;
            if (present_each(&list.present, b.start, b.start + b.bytes, PRESENT_ALL, add_part,
                             &list))
                continue;
            c->part.count = before;
            ranges_add(&c->part, b.start, b.start + b.bytes);
        }
    if (started) present_end(&list.present);
    if (!c->part.incomplete) return true;
    contents_free(c);
    return false;
}

void contents_free(struct contents *c)
{
    ranges_free(&c->part);
    *c = (struct contents){0};
}

uintptr_t contents_ask(const struct contents *c, const struct white_block *b, uintptr_t *at)
{
    uintptr_t end = b->start + b->bytes;
    while (*at < end) {
        uintptr_t to = end;
        if (b->bytes >= CONTENTS_LARGE) {
            const struct cut_range *part = ranges_from(&c->part, *at);
            if (!part || part->from >= end) return 0;
            if (part->from > *at) *at = part->from;
            if (part->to < to) to = part->to;
        }
        const struct cut_range *blind = c->white->blind ? ranges_from(c->white->blind, *at) : NULL;
        if (!blind || blind->from >= to) return to;
        if (blind->from > *at) return blind->from;
        *at = blind->to;
    }
    return 0;
}
