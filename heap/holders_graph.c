/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/holders_graph.h"
#include "heap/edges.h"
#include "heap/grow.h"
#include "heap/os.h"

#include <sys/mman.h>

#define FIRST_DIRECTS 4096u
#define FIRST_POINTERS (MIB / sizeof(uint32_t))
#define AHEAD 8u    /* blocks whose first lines are fetched before they are looked at */
#define WAITING 16u /* words, and targets, see struct pending */

/* ---- memory ---- */

static size_t array_bytes(const struct holders_graph *g, size_t item)
{
    return round_up(((size_t)g->rank.count + 2) * item, OS_PAGE);
}

/* One item a live block: only as much is touched as there are blocks that were reached. */
static void *map_array(struct holders_graph *g, size_t item)
{
    size_t bytes = array_bytes(g, item);
    void *array = os_map(bytes);
    if (array && bytes >= 2 * MIB) os_prefer_huge(array, bytes);
    return array;
}

static void free_array(const struct holders_graph *g, void *array, size_t item)
{
    if (array) os_unmap(array, array_bytes(g, item));
}

bool holders_graph_make(struct holders_graph *g, const struct white *white, uintptr_t guard)
{
    *g = (struct holders_graph){.white = white, .guard = guard};
    if (!rank_make(&g->rank, white)) return false;
    g->number_of = map_array(g, sizeof *g->number_of);
    g->where = map_array(g, sizeof *g->where);
    g->from = map_array(g, sizeof *g->from);
    g->word = map_array(g, sizeof *g->word);
    g->direct_of = os_map(array_bytes(g, sizeof *g->direct_of)); /* few are used: no huge pages */
    g->first = map_array(g, sizeof *g->first);
    if (g->number_of && g->where && g->from && g->word && g->direct_of && g->first && contents_make(&g->contents, white))
        return true;
    holders_graph_free(g);
    return false;
}

void holders_graph_forget_pointers(struct holders_graph *g)
{
    free_array(g, g->first, sizeof *g->first);
    if (g->to) os_unmap(g->to, grow_bytes(g->pointer_room, sizeof *g->to));
    g->first = g->to = NULL;
    g->pointers = g->pointer_room = 0;
}

void holders_graph_free(struct holders_graph *g)
{
    holders_graph_forget_pointers(g);
    free_array(g, g->number_of, sizeof *g->number_of);
    free_array(g, g->where, sizeof *g->where);
    free_array(g, g->from, sizeof *g->from);
    free_array(g, g->word, sizeof *g->word);
    free_array(g, g->direct_of, sizeof *g->direct_of);
    grow_free(g->direct, g->direct_room, sizeof *g->direct);
    contents_free(&g->contents);
    rank_free(&g->rank);
    *g = (struct holders_graph){0};
}

/* ---- blocks ---- */

struct white_block holders_graph_block(const struct holders_graph *g, uint32_t number)
{
    uint64_t where = g->where[number];
    uintptr_t offset = (uintptr_t)(where >> 8);
    struct white_block b = {.start = window_base + offset, .class = where & 0xff};
    b.area = offset >= WINDOW_LARGE_OFFSET ? AREA_LARGE : offset >= WINDOW_MEDIUM_OFFSET ? AREA_MEDIUM : AREA_SMALL;
    b.granule = (b.start - g->white->area[b.area].base) >> g->white->area[b.area].shift;
    b.bytes = b.area == AREA_LARGE ? atomic_load(&large_record_of((uint32_t)b.granule)->bytes) : class_size[b.class];
    return b;
}

uint32_t holders_graph_number(const struct holders_graph *g, uintptr_t start)
{
    struct white_block b;
    if (!white_find(g->white, start, &b) || b.start != start || !white_is(g->white, &b)) return HOLDERS_NO_BLOCK;
    return g->number_of[rank_of(&g->rank, b.area, b.granule)] - 1;
}

/* The number of a live block of this rank; a new one where it was not reached before (*fresh). */
static ALWAYS_INLINE uint32_t reach(struct holders_graph *g, const struct white_block *b, uint32_t rank, bool *fresh)
{
    *fresh = g->number_of[rank] == 0;
    if (!*fresh) return g->number_of[rank] - 1;
    uint32_t number = g->count++;
    g->number_of[rank] = number + 1;
    g->where[number] = (uint64_t)(b->start - window_base) << 8 | b->class;
    g->bytes += b->bytes;
    return number;
}

/* ---- words outside ---- */

static void point_to(struct holders_graph *g, uint32_t number, uint64_t at, uint32_t kind)
{
    if (g->direct_of[number] != 0) {
        struct holders_direct *d = &g->direct[g->direct_of[number] - 1];
        if (at < d->low) d->low = at;
        if (at > d->high) d->high = at;
        return;
    }
    if (g->directs == g->direct_room) {
        void *more = grow(g->direct, g->directs, &g->direct_room, sizeof *g->direct, FIRST_DIRECTS);
        if (!more) {
            g->failed = true;
            return;
        }
        g->direct = more;
    }
    g->direct[g->directs++] = (struct holders_direct){at, at, at, number, kind};
    g->direct_of[number] = (uint32_t)g->directs;
}

void holders_graph_words(struct holders_graph *g, const uintptr_t *from, const uintptr_t *to, uint64_t at, uint32_t kind)
{
    for (const uintptr_t *p = from; p < to; p++)
        for (unsigned forms = edge_forms(*p, g->guard); unlikely(forms != 0); forms &= forms - 1) {
            struct white_block b;
            uint32_t rank;
            bool fresh;
            if (!edge_target(&g->rank, *p, g->guard, (unsigned)__builtin_ctz(forms), &b, &rank)) continue;
            uint32_t number = reach(g, &b, rank, &fresh);
            if (number < g->round_first) continue;
            if (fresh) g->from[number] = HOLDERS_NO_BLOCK;
            point_to(g, number, at + (uint64_t)(p - from) * sizeof *p, kind);
        }
}

/* ---- pointers between blocks ---- */

/* A word that points into the window waits until what tells its target is in the cache, and the target until its number is: two
   first-in-first-out rings as the marker's (mark.c), which also keep each block's pointers together. */
struct pending {
    uintptr_t word;
    uint32_t holder, index;
    uint32_t form;
};

struct target {
    struct white_block block;
    uint32_t rank, holder, index;
};

struct spread {
    struct holders_graph *g;
    struct pending word[WAITING];
    struct target target[WAITING];
    unsigned word_at, words;
    unsigned target_at, targets;
};

static bool more_pointers(struct holders_graph *g)
{
    if (g->pointers >= UINT32_MAX - 1) return false;
    if (!g->to) {
        g->to = os_map(grow_bytes(FIRST_POINTERS, sizeof *g->to));
        g->pointer_room = g->to ? FIRST_POINTERS : 0;
        return g->to != NULL;
    }
    size_t bytes = grow_bytes(g->pointer_room, sizeof *g->to);
    long at = os_move(g->to, bytes, 2 * bytes, MREMAP_MAYMOVE, NULL);
    if (at < 0 && at > -4096) return false;
    g->to = (uint32_t *)at;
    g->pointer_room *= 2;
    if (bytes >= 2 * MIB) os_prefer_huge(g->to, 2 * bytes);
    return true;
}

static void add_pointer(struct holders_graph *g, uint32_t holder, uint32_t target)
{
    while (g->next_first <= holder) g->first[g->next_first++] = (uint32_t)g->pointers;
    if (g->no_pointers || target == holder || target < g->round_first) return;
    if (g->pointers > g->first[holder] && g->to[g->pointers - 1] == target) return; /* as the word before */
    if (g->pointers == g->pointer_room && !more_pointers(g)) {
        g->no_pointers = true;
        return;
    }
    g->to[g->pointers++] = target;
}

static ALWAYS_INLINE void settle(struct holders_graph *g, const struct target *t)
{
    bool fresh;
    uint32_t number = reach(g, &t->block, t->rank, &fresh);
    if (fresh) {
        g->from[number] = t->holder;
        g->word[number] = t->index;
    }
    add_pointer(g, t->holder, number);
}

static ALWAYS_INLINE void resolve(struct spread *s, const struct pending *p)
{
    struct holders_graph *g = s->g;
    struct target t = {.holder = p->holder, .index = p->index};
    if (!edge_target(&g->rank, p->word, g->guard, p->form, &t.block, &t.rank)) return;
    __builtin_prefetch(&g->number_of[t.rank], 1);
    struct target *slot = &s->target[s->target_at++ % WAITING];
    if (s->targets == WAITING) settle(g, slot);
    else s->targets++;
    *slot = t;
}

static ALWAYS_INLINE void wait_for(struct spread *s, uintptr_t address, const struct pending *p)
{
    const struct white *white = s->g->white;
    uintptr_t offset = address - window_base;
    unsigned area = offset >= WINDOW_LARGE_OFFSET ? AREA_LARGE : offset >= WINDOW_MEDIUM_OFFSET ? AREA_MEDIUM : AREA_SMALL;
    size_t word = ((address - white->area[area].base) >> white->area[area].shift) / 64;
    if (word * 64 < white->area[area].granules) {
        __builtin_prefetch(&white->area[area].bits[word]);
        __builtin_prefetch(&s->g->rank.before[area][word]);
    }
    struct pending *slot = &s->word[s->word_at++ % WAITING];
    if (s->words == WAITING) resolve(s, slot);
    else s->words++;
    *slot = *p;
}

static void flush(struct spread *s)
{
    for (; s->words > 0; s->words--) resolve(s, &s->word[(s->word_at - s->words) % WAITING]);
    for (; s->targets > 0; s->targets--) settle(s->g, &s->target[(s->target_at - s->targets) % WAITING]);
}

static void look_at(struct spread *s, uint32_t holder)
{
    struct holders_graph *g = s->g;
    const struct white_block b = holders_graph_block(g, holder);
    uintptr_t at = b.start, to;
    for (; (to = contents_next(&g->contents, &b, &at)) != 0; at = to)
        for (const uintptr_t *p = (const uintptr_t *)at; p < (const uintptr_t *)to; p++)
            for (unsigned forms = edge_forms(*p, g->guard); unlikely(forms != 0); forms &= forms - 1) {
                unsigned form = (unsigned)__builtin_ctz(forms);
                size_t index = (size_t)((uintptr_t)p - b.start) / sizeof *p;
                wait_for(s, form == 0 ? mark_plain(*p) : mark_demangled(*p, g->guard),
                         &(struct pending){*p, holder, index < UINT32_MAX ? (uint32_t)index : UINT32_MAX, form});
            }
}

bool holders_graph_spread(struct holders_graph *g)
{
    struct spread s = {.g = g};
    while (g->scanned < g->count && !g->failed) {
        if (g->scanned + AHEAD < g->count)
            __builtin_prefetch((const void *)(window_base + (uintptr_t)(g->where[g->scanned + AHEAD] >> 8)));
        look_at(&s, g->scanned++);
        if (g->scanned == g->count) flush(&s);
    }
    g->round_first = g->count;
    while (g->next_first <= g->count) g->first[g->next_first++] = (uint32_t)g->pointers;
    return !g->failed;
}
