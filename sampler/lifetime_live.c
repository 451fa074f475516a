/* lifetime_live.c: see lifetime_live.h.  A site's ages are few steps of many, so they are kept as cells in one table, open-addressed and at
   most half full, and not as histograms.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sampler/lifetime_live.h"
#include "heap/collect.h"
#include "heap/os.h"
#include "heap/sort.h"
#include "sampler/tracked.h"

/* So that no key is 0. */
static uint64_t key_of(uint32_t site, unsigned what)
{
    return (uint64_t)site << 8 | (what + 1);
}

static size_t place_of(const struct lifetime_live *l, uint64_t key)
{
    uint64_t h = key * 0x9e3779b97f4a7c15u;
    size_t at = (size_t)(h ^ h >> 32) & (l->room - 1);
    while (l->cells[at].key && l->cells[at].key != key) at = (at + 1) & (l->room - 1);
    return at;
}

static bool grow(struct lifetime_live *l)
{
    struct lifetime_live bigger = {.room = l->room ? l->room * 2 : 4096, .count = l->count, .lost = l->lost};
    bigger.bytes = round_up(bigger.room * sizeof *bigger.cells, OS_PAGE);
    if (!(bigger.cells = os_map(bigger.bytes))) return false;
    for (size_t i = 0; i < l->room; i++)
        if (l->cells[i].key) bigger.cells[place_of(&bigger, l->cells[i].key)] = l->cells[i];
    if (l->cells) os_unmap(l->cells, l->bytes);
    *l = bigger;
    return true;
}

static void add(struct lifetime_live *l, uint64_t key, uint64_t weight)
{
    size_t at = place_of(l, key);
    if (!l->cells[at].key) {
        if (l->count >= l->room / 2) {
            if (!grow(l)) {
                l->lost++;
                return;
            }
            at = place_of(l, key);
        }
        l->cells[at].key = key;
        l->count++;
    }
    l->cells[at].weight += weight;
}

struct walk {
    struct lifetime_live *live;
    const struct lifetime_stats *now;
    bool old;
};

static void add_block(uint32_t entry, const struct tracked_view *v, void *user)
{
    struct walk *w = user;
    (void)entry;
    uint64_t weight = lifetime_weight(v->n_samples);
    if (w->old && heap_is_old(v->block)) add(w->live, key_of(v->site, LIFETIME_CELL_OLD), weight);
    if (v->time < w->now->since) return;
    uint32_t ticks = w->now->now.ticks > v->time ? w->now->now.ticks - v->time : 0;
    uint64_t units = lifetime_units(v->clock, w->now->now.units);
    add(w->live, key_of(v->site, lifetime_time_bucket(ticks)), weight);
    add(w->live, key_of(v->site, LIFETIME_CELL_SPAN + lifetime_span_bucket(units)), weight);
}

static bool before(const void *a, const void *b)
{
    const struct lifetime_cell *left = a, *right = b;
    return left->key < right->key;
}

bool lifetime_live_make(struct lifetime_live *l, const struct lifetime_stats *now, bool old)
{
    *l = (struct lifetime_live){.room = 0};
    if (!grow(l)) return false;
    struct walk w = {l, now, old};
    tracked_each(add_block, &w);
    size_t n = 0;
    for (size_t i = 0; i < l->room; i++)
        if (l->cells[i].key) l->cells[n++] = l->cells[i];
    sort_in_place(l->cells, n, sizeof *l->cells, before);
    for (size_t i = 0; i < n; i++) l->cells[i].key--; /* as the header says */
    return true;
}

void lifetime_live_free(struct lifetime_live *l)
{
    if (l->cells) os_unmap(l->cells, l->bytes);
    *l = (struct lifetime_live){.room = 0};
}

size_t lifetime_live_of(const struct lifetime_live *l, uint32_t site, const struct lifetime_cell **first)
{
    size_t low = 0, high = l->count, n = 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (l->cells[middle].key >> 8 < site) low = middle + 1;
        else high = middle;
    }
    while (low + n < l->count && l->cells[low + n].key >> 8 == site) n++;
    *first = l->cells + low;
    return n;
}
