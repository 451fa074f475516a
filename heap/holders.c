/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/holders.h"
#include "heap/heap.h"
#include "heap/load_all.h"
#include "heap/os.h"
#include "heap/tag.h"

/* ---- words outside ---- */

enum round { ROUND_LASTING, ROUND_FRAMES, ROUND_LEFT, ROUNDS };

struct looking {
    struct holders *holders;
    enum round round;
};

/* What an address in private memory is, and how far that goes; `i` is the thread whose frames come next, or are there. */
static enum round round_at(const struct holders_threads *t, size_t *i, uintptr_t at, uintptr_t *to)
{
    while (*i < t->count && t->by_frames[*i].frames_end <= at) ++*i;
    const struct holders_thread *thread = *i < t->count ? &t->by_frames[*i] : NULL;
    *to = !thread ? UINTPTR_MAX : at < thread->frames ? thread->frames : at < thread->used ? thread->used : thread->frames_end;
    return !thread || at < thread->frames ? ROUND_LASTING : at < thread->used ? ROUND_LEFT : ROUND_FRAMES;
}

static void words_of_memory(struct looking *l, const uintptr_t *from, const uintptr_t *to, uintptr_t at, enum root_kind kind)
{
    const struct holders_threads *t = &l->holders->threads;
    size_t i = holders_frames_from(t, at), n;
    for (uintptr_t end; from < to; from += n, at += n * sizeof *from) {
        enum round round = round_at(t, &i, at, &end);
        n = (size_t)(to - from);
        if ((end - at) / sizeof *from < n) n = (end - at + sizeof *from - 1) / sizeof *from;
        if (round == l->round) holders_graph_words(&l->holders->graph, from, from + n, at, round == ROUND_LASTING ? kind : ROOT_STACK);
    }
}

/* The cut's words: each of them from somewhere else. */
static void words_of_cut(struct holders *h, const uintptr_t *from, const uintptr_t *to)
{
    const struct cut *cut = h->cut;
    for (const uintptr_t *p = from; p < to; p++) {
        size_t index = (size_t)(p - cut->word);
        uintptr_t at = cut->word_at && index < cut->words ? cut->word_at[index] : CUT_UNKNOWN;
        bool memory = at % sizeof at == 0;
        holders_graph_words(&h->graph, p, p + 1, memory ? at : HOLDERS_KERNEL + at, memory ? ROOT_SHARED : ROOT_KERNEL);
    }
}

static void root_words(const uintptr_t *from, const uintptr_t *to, enum root_kind kind, void *user)
{
    struct looking *l = user;
    struct holders *h = l->holders;
    if (kind == ROOT_STACK || kind == ROOT_PRIVATE) words_of_memory(l, from, to, h->roots.at, ROOT_PRIVATE);
    else if (l->round != (kind == ROOT_REGISTERS ? ROUND_FRAMES : ROUND_LASTING)) return;
    else if (kind == ROOT_KERNEL) words_of_cut(h, from, to);
    else holders_graph_words(&h->graph, from, to, h->roots.at, kind);
}

static void ignored_part(uintptr_t from, uintptr_t to, void *user)
{
    struct holders *h = user;
    holders_graph_words(&h->graph, (const uintptr_t *)from, (const uintptr_t *)to, from, HOLDERS_IGNORED);
}

static void ignored(uintptr_t start, size_t bytes, void *user)
{
    struct holders *h = user;
    if (white_is_blind(&h->white, start, bytes)) ranges_each_gap(h->white.blind, start, start + bytes, ignored_part, h);
    else ignored_part(start, start + bytes, h);
}

static bool look(struct holders *h)
{
    struct looking l = {.holders = h};
    for (; l.round < ROUNDS; l.round++) {
        roots_each_words(&h->roots, root_words, &l);
        if (l.round == ROUND_LASTING) white_each_ignored(ignored, h);
        if (!holders_graph_spread(&h->graph)) return false;
    }
    return true;
}

/* ---- the whole ---- */

static const char no_memory[] = "no memory for the table of blocks";

const char *holders_make(struct holders *h, const struct cut *cut, const struct collect_options *options)
{
    *h = (struct holders){.cut = cut};
    const struct roots_options which = {.part = options->frozen ? ROOTS_FROZEN : ROOTS_ALL, .at_best = options->at_best,
                                        .shared_most = COLLECT_SHARED_MOST, .maps = options->maps,
                                        .unfrozen = options->unfrozen, .n_unfrozen = options->n_unfrozen};
    struct load_all load;
    const char *why_not = no_memory;
    load_all_begin(&load);
    roots_find(&h->roots, cut, &which); /* before anything of ours is mapped */
    if (white_make(&h->white, WHITE_LIVE)) {
        h->white.blind = &h->roots.blind;
        bool made = holders_threads_find(&h->threads, cut, &h->roots) &&
                    holders_graph_make(&h->graph, &h->white, cut->pointer_guard);
        if (made && look(h)) why_not = NULL;
    }
    h->complete = h->roots.complete && !h->white.moving;
    load_all_end(&load);
    if (why_not) holders_free(h);
    return why_not;
}

static size_t number_bytes(const struct holders *h)
{
    return round_up(((size_t)h->graph.count + 1) * sizeof(uint32_t), OS_PAGE);
}

void holders_free(struct holders *h)
{
    if (h->depth) os_unmap(h->depth, number_bytes(h));
    if (h->second) os_unmap(h->second, number_bytes(h));
    holders_graph_free(&h->graph);
    holders_threads_free(&h->threads);
    white_free(&h->white);
    roots_free(&h->roots);
    *h = (struct holders){0};
}

/* ---- ways ---- */

bool holders_find_ways(struct holders *h)
{
    const struct holders_graph *g = &h->graph;
    h->depth = os_map(number_bytes(h));
    h->second = os_map(number_bytes(h));
    if (!h->depth || !h->second) return false;
    for (uint32_t i = 0; i < g->count; i++) { /* who was reached from a block comes after it */
        bool outside = g->from[i] == HOLDERS_NO_BLOCK;
        h->depth[i] = outside ? 0 : h->depth[g->from[i]] + 1;
        h->second[i] = h->depth[i] == 0 ? HOLDERS_NO_BLOCK : h->depth[i] == 1 ? i : h->second[g->from[i]];
    }
    return true;
}

static uint32_t tag_of(const struct white_block *b)
{
    if (b->area == AREA_LARGE) return atomic_load(&large_record_of((uint32_t)b->granule)->entry);
    bool medium = b->area == AREA_MEDIUM;
    const struct pool *p = pool_of((const void *)b->start, medium);
    _Atomic uint32_t *tags = atomic_load(&p->entries);
    if (!tags) return 0;
    uint32_t tag = atomic_load(&tags[slot_of(p, (const void *)b->start)]);
    if (*state_of((const void *)b->start, medium) < 0) return tag;
    return heap_watches() ? tag & (TAG_CALLER | TAG_NUMBER) : 0;
}

static struct holders_step step_of(const struct holders *h, uint32_t number, uint32_t next)
{
    const struct white_block b = holders_graph_block(&h->graph, number);
    uint32_t word = h->graph.word[next];
    return (struct holders_step){b.start, b.bytes, tag_of(&b), word == UINT32_MAX ? SIZE_MAX : word * sizeof(uintptr_t)};
}

size_t holders_way(const struct holders *h, uint32_t number, struct holders_step *steps, size_t room, size_t *left_out,
                   const struct holders_direct **root)
{
    const struct holders_graph *g = &h->graph;
    size_t depth = h->depth[number], last = depth < room ? depth : room - 1, first = depth > last, n = first + last;
    uint32_t next = number, top = depth ? g->from[h->second[number]] : number;
    for (size_t i = n; i > first; i--) {
        uint32_t holder = g->from[next];
        steps[i - 1] = step_of(h, holder, next);
        next = holder;
    }
    if (first) steps[0] = step_of(h, top, h->second[number]);
    *left_out = depth - n;
    *root = &g->direct[g->direct_of[top] - 1];
    return n;
}
