/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/holes.h"
#include "heap/os.h"
#include "heap/window.h"

static size_t pick(const struct maps *maps, struct cut_range *to)
{
    size_t n = 0;
    for (size_t i = 0; i < maps->count; i++) {
        const struct map *m = &maps->map[i];
        if (m->readable || m->to <= window_base || m->from >= window_base + WINDOW_TABLES_OFFSET) continue;
        if (to) to[n] = (struct cut_range){m->from, m->to};
        n++;
    }
    return n;
}

bool holes_find(struct holes *h, const struct maps *maps)
{
    *h = (struct holes){0};
    size_t n = pick(maps, NULL);
    if (n == 0) return true;
    h->bytes_mapped = round_up(n * sizeof *h->hole, OS_PAGE);
    h->hole = os_map(h->bytes_mapped);
    if (!h->hole) {
        *h = (struct holes){0};
        return false;
    }
    h->count = pick(maps, h->hole);
    return true;
}

void holes_free(struct holes *h)
{
    if (h->hole) os_unmap(h->hole, h->bytes_mapped);
    *h = (struct holes){0};
}

bool holes_cut(const struct holes *h, uintptr_t from, uintptr_t *to)
{
    size_t low = 0, high = h->count; /* the first hole that ends behind `from` */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (h->hole[middle].to > from) high = middle;
        else low = middle + 1;
    }
    if (low == h->count || h->hole[low].from >= *to) return true;
    if (h->hole[low].from > from) {
        *to = h->hole[low].from;
        return true;
    }
    if (h->hole[low].to < *to) *to = h->hole[low].to;
    return false;
}
