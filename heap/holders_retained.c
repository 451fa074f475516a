/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/holders_retained.h"
#include "heap/os.h"
#include "heap/sort.h"

#define NONE UINT32_MAX
#define JOINED 8u /* units that become one where there are too many */

struct making {
    struct holders_retained *to;
    const struct holders_graph *graph;
    uint32_t *unit_of[2]; /* by direct: units of its lowest and highest word */
    uint32_t *order;      /* directs by unit */
    uint32_t *start;      /* by unit: where its directs begin in it */
    uint32_t *stack;
    size_t direct_bytes, start_bytes, stack_bytes;
};

static void *map_items(size_t count, size_t item, size_t *bytes)
{
    *bytes = round_up(count * item + OS_PAGE, OS_PAGE);
    void *array = os_map(*bytes);
    if (array && *bytes >= 2 * MIB) os_prefer_huge(array, *bytes);
    return array;
}

static void unmap_items(void *array, size_t bytes)
{
    if (array) os_unmap(array, bytes);
}

/* ---- units ---- */

static bool less_place(const void *a, const void *b) { return *(const uint64_t *)a < *(const uint64_t *)b; }

uint32_t holders_unit_at(const struct holders_retained *r, uint64_t place)
{
    size_t low = 0, high = r->units;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (r->unit[middle].from <= place) low = middle;
        else high = middle;
    }
    return (uint32_t)low;
}

static bool make_units(struct making *m, holders_unit_of *unit_of, void *user)
{
    const struct holders_graph *g = m->graph;
    struct holders_retained *r = m->to;
    size_t places = 3 * g->directs, bytes;
    uint64_t *place = map_items(places, sizeof *place, &bytes);
    r->unit = map_items(places, sizeof *r->unit, &r->unit_bytes);
    if (place && r->unit) {
        for (size_t i = 0; i < g->directs; i++) {
            place[3 * i] = g->direct[i].low;
            place[3 * i + 1] = g->direct[i].high;
            place[3 * i + 2] = g->direct[i].at;
        }
        sort_in_place(place, places, sizeof *place, less_place);
        for (size_t i = 0; i < places; i++) {
            struct holders_unit *last = r->units ? &r->unit[r->units - 1] : NULL;
            if (last && place[i] < last->to) continue;
            r->unit[r->units++] = unit_of(place[i], user);
        }
        for (size_t i = 0; i < g->directs; i++) {
            m->unit_of[0][i] = holders_unit_at(r, g->direct[i].low);
            m->unit_of[1][i] = holders_unit_at(r, g->direct[i].high);
        }
    }
    bool ok = place && r->unit;
    unmap_items(place, bytes);
    return ok;
}

/* ---- who reaches a block ---- */

/* Sorts the directs by unit: a counting sort. */
static void sort_directs(struct making *m, const uint32_t *unit_of)
{
    size_t units = m->to->units;
    for (size_t i = 0; i <= units; i++) m->start[i] = 0;
    for (size_t i = 0; i < m->graph->directs; i++) m->start[unit_of[i] + 1]++;
    for (size_t i = 0; i < units; i++) m->start[i + 1] += m->start[i];
    for (size_t i = 0; i < m->graph->directs; i++) m->order[m->start[unit_of[i]]++] = (uint32_t)i;
    for (size_t i = units; i > 0; i--) m->start[i] = m->start[i - 1];
    m->start[0] = 0;
}

static void mark_from(struct making *m, uint32_t *by, uint32_t block, uint32_t unit)
{
    const struct holders_graph *g = m->graph;
    size_t depth = 0;
    if (by[block] != NONE) return;
    by[block] = unit;
    m->stack[depth++] = block;
    while (depth > 0) {
        uint32_t b = m->stack[--depth];
        for (uint32_t e = g->first[b]; e < g->first[b + 1]; e++) {
            uint32_t target = g->to[e];
            if (by[target] != NONE) continue;
            by[target] = unit;
            m->stack[depth++] = target; /* each block once: the stack has room for all */
        }
    }
}

static void mark_all(struct making *m, uint32_t *by, const uint32_t *unit_of, bool highest)
{
    const struct holders_graph *g = m->graph;
    for (uint32_t i = 0; i < g->count; i++) by[i] = NONE;
    sort_directs(m, unit_of);
    for (size_t i = 0; i < g->directs; i++) {
        uint32_t d = m->order[highest ? g->directs - 1 - i : i];
        mark_from(m, by, g->direct[d].block, unit_of[d]);
    }
}

/* ---- sums ---- */

struct sums {
    struct holders_share *slot; /* open addressing; blocks 0: free */
    size_t room, used, bytes;
};

static bool sums_make(struct sums *s, size_t room)
{
    *s = (struct sums){.room = room};
    s->slot = map_items(room, sizeof *s->slot, &s->bytes);
    return s->slot != NULL;
}

static struct holders_share *sums_at(struct sums *s, uint32_t low, uint32_t high)
{
    size_t at = (size_t)((((uint64_t)low << 32 | high) * 0x9e3779b97f4a7c15u) >> 20) & (s->room - 1);
    while (s->slot[at].blocks != 0 && (s->slot[at].low != low || s->slot[at].high != high)) at = (at + 1) & (s->room - 1);
    return &s->slot[at];
}

static bool sums_add(struct sums *s, uint32_t low, uint32_t high, uint64_t blocks, uint64_t bytes)
{
    if (s->used * 2 >= s->room) {
        struct sums larger;
        if (!sums_make(&larger, s->room * 2)) return false;
        for (size_t i = 0; i < s->room; i++)
            if (s->slot[i].blocks != 0) *sums_at(&larger, s->slot[i].low, s->slot[i].high) = s->slot[i];
        larger.used = s->used;
        unmap_items(s->slot, s->bytes);
        *s = larger;
    }
    struct holders_share *at = sums_at(s, low, high);
    if (at->blocks == 0) s->used++;
    *at = (struct holders_share){low, high, at->blocks + blocks, at->bytes + bytes};
    return true;
}

/* Moves what is used to the front. */
static void take_sums(struct holders_retained *r, struct sums *s)
{
    unmap_items(r->share, r->share_bytes);
    r->shares = 0;
    for (size_t i = 0; i < s->room; i++)
        if (s->slot[i].blocks != 0) s->slot[r->shares++] = s->slot[i];
    r->share = s->slot;
    r->share_bytes = s->bytes;
}

static bool sum_blocks(struct making *m)
{
    struct holders_retained *r = m->to;
    struct sums s;
    if (!sums_make(&s, 4096)) return false;
    for (uint32_t i = 0; i < m->graph->count; i++)
        if (!sums_add(&s, r->low[i], r->high[i], 1, holders_graph_block(m->graph, i).bytes)) {
            unmap_items(s.slot, s.bytes);
            return false;
        }
    take_sums(r, &s);
    return true;
}

/* Joins units of an area, JOINED by JOINED.  The order of units stays, so the lowest of a block stays its lowest.  False without memory. */
static bool join_units(struct making *m, bool *joined)
{
    struct holders_retained *r = m->to;
    uint32_t *becomes = m->start; /* has room for all units */
    size_t units = 0, members = 0;
    for (size_t i = 0; i < r->units; i++) {
        struct holders_unit *last = units ? &r->unit[units - 1] : NULL;
        const struct holders_unit u = r->unit[i];
        if (last && u.joins && last->joins && last->area == u.area && members < JOINED) {
            last->to = u.to;
            members++;
        } else {
            r->unit[units++] = u;
            members = 1;
        }
        becomes[i] = (uint32_t)(units - 1);
    }
    *joined = units < r->units;
    r->units = units;
    struct sums s;
    if (!sums_make(&s, 4096)) return false;
    for (size_t i = 0; i < r->shares; i++) {
        const struct holders_share *a = &r->share[i];
        if (sums_add(&s, becomes[a->low], becomes[a->high], a->blocks, a->bytes)) continue;
        unmap_items(s.slot, s.bytes);
        return false;
    }
    for (uint32_t i = 0; i < m->graph->count; i++) {
        r->low[i] = becomes[r->low[i]];
        r->high[i] = becomes[r->high[i]];
    }
    take_sums(r, &s);
    return true;
}

/* ---- the whole ---- */

static void forget_shares(struct holders_retained *r)
{
    unmap_items(r->low, r->number_bytes);
    unmap_items(r->high, r->number_bytes);
    unmap_items(r->share, r->share_bytes);
    r->low = r->high = NULL;
    r->share = NULL;
    r->shares = 0;
}

static bool find_shares(struct making *m, size_t most)
{
    struct holders_retained *r = m->to;
    if (m->graph->no_pointers || !m->graph->first) return false;
    m->start = map_items(r->units + 2, sizeof *m->start, &m->start_bytes);
    m->stack = map_items(m->graph->count, sizeof *m->stack, &m->stack_bytes);
    r->low = map_items(m->graph->count, sizeof *r->low, &r->number_bytes);
    r->high = map_items(m->graph->count, sizeof *r->high, &r->number_bytes);
    if (!m->start || !m->stack || !r->low || !r->high) return false;
    mark_all(m, r->low, m->unit_of[0], false);
    mark_all(m, r->high, m->unit_of[1], true);
    bool ok = sum_blocks(m);
    for (bool joined = true; ok && joined && r->shares > most;) ok = join_units(m, &joined);
    return ok;
}

bool holders_retained_make(struct holders_retained *r, const struct holders_graph *g, holders_unit_of *unit_of, void *user,
                           size_t most_shares)
{
    *r = (struct holders_retained){0};
    struct making m = {.to = r, .graph = g};
    m.unit_of[0] = map_items(g->directs, sizeof(uint32_t), &m.direct_bytes);
    m.unit_of[1] = map_items(g->directs, sizeof(uint32_t), &m.direct_bytes);
    m.order = map_items(g->directs, sizeof(uint32_t), &m.direct_bytes);
    bool ok = m.unit_of[0] && m.unit_of[1] && m.order && make_units(&m, unit_of, user);
    if (ok && !find_shares(&m, most_shares)) forget_shares(r);
    unmap_items(m.unit_of[0], m.direct_bytes);
    unmap_items(m.unit_of[1], m.direct_bytes);
    unmap_items(m.order, m.direct_bytes);
    unmap_items(m.start, m.start_bytes);
    unmap_items(m.stack, m.stack_bytes);
    if (!ok) holders_retained_free(r);
    return ok;
}

void holders_retained_free(struct holders_retained *r)
{
    unmap_items(r->unit, r->unit_bytes);
    forget_shares(r);
    *r = (struct holders_retained){0};
}
