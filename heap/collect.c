/* collect.c: see collect.h.  A major collection marks from the roots of the cut; what stays white is grouped, vetted and written down.
   A minor one asks only for young blocks, from the same roots and the old memory that may point to them (remember.h).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/collect.h"
#include "heap/arenas_mark.h"
#include "heap/groups.h"
#include "heap/islands.h"
#include "heap/load_all.h"
#include "heap/lost_hash.h"
#include "heap/mark.h"
#include "heap/os.h"
#include "heap/reclaim.h"
#include "heap/registers.h"
#include "heap/remember.h"
#include "heap/roots.h"
#include "heap/seal.h"
#include "heap/syscall.h"
#include "heap/vet.h"
#include "heap/white.h"

#include <time.h>

uint64_t collect_clock(void)
{
    struct timespec ts;
    raw_syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* ---- marking ---- */

static void mark_root(const uintptr_t *from, const uintptr_t *to, enum root_kind kind, void *user)
{
    mark_words(user, from, to);
    mark_drain(user); /* so that the stack stays short */
}

static void mark_ignored(uintptr_t start, size_t bytes, void *user)
{
    mark_block(user, start, bytes);
    mark_drain(user);
}

static void mark_all_roots(struct marker *m, struct roots *roots, const struct cut *cut)
{
    mark_words(m, cut->word, cut->word + cut->words);
    mark_drain(m);
    roots_each_words(roots, mark_root, m);
    mark_pieces(m);
    white_each_ignored(mark_ignored, m);
    mark_drain(m);
}

/* ---- what is lost ---- */

/* 0: it cannot be looked at. */
static uint64_t hash_of_block(struct present *present, const struct white *white, const struct white_block *b)
{
    return white_is_blind(white, b->start, b->bytes) ? 0 : lost_hash_of(present, b->start, b->bytes);
}

static void write_down(struct verdict *v, const struct white *white, const struct groups *groups, const struct vet_result *vetted,
                       const struct islands *islands, struct present *present)
{
    for (size_t i = 0; i < groups->count; i++) {
        const struct group_block *g = &groups->block[i];
        unsigned why = vetted->why ? vetted->why[i] : VET_NONE;
        unsigned kind = why != VET_NONE ? LOST_POSSIBLE : g->head == i ? LOST_DIRECT : LOST_INDIRECT;
        if (kind == LOST_POSSIBLE) {
            v->possible++;
            v->possible_bytes += g->block.bytes;
        } else {
            v->lost++;
            v->lost_bytes += g->block.bytes;
        }
        if (v->count == v->room) {
            uint64_t unused;
            v->truncated++;
            if (kind == LOST_POSSIBLE || lost_hash(g->block.start, &unused)) continue;
            v->unlisted++;
            v->unlisted_bytes += g->block.bytes;
            continue;
        }
        uint64_t hash = hash_of_block(present, white, &g->block), before;
        bool written = lost_hash(g->block.start, &before) && before != hash && before != 0 && hash != 0;
        v->block[v->count++] = (struct verdict_block){
            .block = g->block.start | (uint64_t)kind << 48 | (uint64_t)why << 52 | (written ? VERDICT_WRITTEN : 0) |
                     (vetted->freed && vetted->freed[i] != VET_NONE ? VERDICT_FREED : 0),
            .hash = hash,
            .hangs_bytes = g->hangs_bytes,
            .head = g->head,
            .hangs = g->hangs,
            .island = v->islands ? islands->of[i] : (uint32_t)i,
            .island_blocks = v->islands ? islands->blocks[islands->of[i]] : 0,
        };
    }
}

static void find_lost(struct verdict *v, const struct cut *cut, const struct white *white, struct roots *roots,
                      struct present *present, const struct collect_options *options)
{
    struct groups groups = {0};
    struct vet_result vetted = {0};
    struct islands islands = {0};
    if (!groups_find(&groups, white, cut->pointer_guard) && groups.count == 0 && white->blocks > v->marked) {
        v->complete = false;
        v->why_not = "no memory to group the lost blocks";
        return;
    }
    enum vet_freed freed = options->reclaim ? VET_FREED_APART : VET_NOT_FREED;
    if (options->vet && groups.count > 0 && !vet(&vetted, white, &groups, roots, cut, freed)) {
        v->complete = false;
        v->why_not = "no memory to vet the lost blocks";
    } else {
        v->islands = options->reclaim && groups.count > 0 && islands_find(&islands, &groups, white, cut->pointer_guard);
        write_down(v, white, &groups, &vetted, &islands, present);
        islands_free(&islands);
    }
    vet_free(&vetted);
    groups_free(&groups);
}

static const char no_memory[] = "no memory for the collector's tables";

static const char *why_not(const struct roots *r, const char *otherwise)
{
    return r->no_memory ? no_memory : otherwise;
}

/* ---- what reclaim asks for beside it ---- */

static void add_register(const uintptr_t *from, const uintptr_t *to, void *user)
{
    uint64_t *h = user;
    for (; from < to; from++) *h = (*h ^ *from) * 0xbf58476d1ce4e5b9u >> 1;
}

uint32_t collect_stacks_state(const struct cut *cut)
{
    uint64_t h = cut->threads;
    for (size_t i = 0; i < cut->threads; i++) {
        const struct cut_thread *t = &cut->thread[i];
        if (t->context) registers_each(t->context, add_register, &h);
        else add_register(&t->sp, &t->sp + 1, &h);
    }
    return (uint32_t)(h ^ h >> 32);
}

static bool has_rings(const struct maps *maps)
{
    for (size_t i = 0; i < maps->count; i++)
        if (maps->map[i].kind == MAP_KIND_RING) return true;
    return false;
}

static void mark_and_find(struct verdict *v, const struct cut *cut, const struct collect_options *options)
{
    uint64_t began = collect_clock();
    struct load_all load;
    load_all_begin(&load);
    struct present present;
    struct white white;
    struct roots roots = {0};
    struct marker *m = NULL;
    present_start(&present, options->at_best);
    v->complete = false;
    v->why_not = no_memory;
    const struct roots_options which = {.part = options->frozen ? ROOTS_FROZEN : ROOTS_ALL, .at_best = options->at_best,
                                        .shared_most = COLLECT_SHARED_MOST, .maps = options->maps,
                                        .unfrozen = options->unfrozen, .n_unfrozen = options->n_unfrozen,
                                        .pieces = options->pieces};
    roots_find(&roots, cut, &which); /* before anything of ours is mapped */
    v->roots_ns = collect_clock() - began;
    v->root_bytes = roots.bytes;
    v->rings = has_rings(&roots.maps);
    if (!roots.complete) {
        v->why_not = why_not(&roots, "not all roots could be looked at");
        goto done_roots;
    }
    if (!white_make(&white, WHITE_LIVE)) goto done_roots;
    if (white.moving) {
        v->why_not = "a large block was being moved";
        goto done_white;
    }
    white.blind = &roots.blind;
    white.pieces = options->pieces;
    if (white.pieces && !pieces_look(white.pieces, &present)) {
        v->why_not = "not all memory of arenas could be looked at";
        goto done_white;
    }
    if (!(m = mark_start(&white, cut->pointer_guard, &present))) goto done_white;
    v->complete = true;
    v->why_not = NULL;
    uint64_t marking = collect_clock();
    struct mark_team *team = mark_team_start(m, options->helpers, options->start_helper);
    mark_all_roots(m, &roots, cut);
    mark_team_end(team);
    struct mark_stats stats;
    mark_stats(m, &stats);
    v->marked = stats.blocks;
    v->marked_bytes = stats.bytes;
    v->mark_ns = collect_clock() - marking;
    uint64_t sweeping = collect_clock();
    if (!mark_complete(m) || !roots.complete) {
        v->complete = false;
        v->why_not = why_not(&roots, "not all memory could be looked at");
    } else find_lost(v, cut, &white, &roots, &present, options);
    v->sweep_ns = collect_clock() - sweeping;
    mark_end(m);
done_white:
    white_free(&white);
done_roots:
    roots_free(&roots);
    present_end(&present);
    load_all_end(&load);
}

void collect_major(struct verdict *v, const struct cut *cut, const struct collect_options *options)
{
    if (!options->frozen) seal_look(options->at_best);
    seal_lift();
    mark_and_find(v, cut, options);
    if (!options->frozen) seal_lower(options->at_best);
    atomic_store(&v->done, 1);
}

/* ---- verifying ---- */

/* Marks all live blocks, or the young ones from all old words, in tables of its own; false without memory. */
static bool mark_again(enum white_what what, struct white *white, const struct cut *cut, struct roots *roots, struct present *present)
{
    struct marker *m;
    if (!white_make(white, what)) return false;
    white->blind = &roots->blind;
    bool ok = (m = mark_start(white, cut->pointer_guard, present)) != NULL;
    if (ok) mark_all_roots(m, roots, cut);
    if (ok && what == WHITE_YOUNG) ok = remember_all_words(m, white, cut->pointer_guard, present);
    if (ok) mark_drain(m);
    if (m) mark_end(m);
    if (!ok) white_free(white);
    return ok;
}

struct wrong {
    const struct white *all, *swept; /* `swept` NULL: all is wrong that `all` has not */
    uint64_t n;
    uintptr_t first;
};

static void check_white(const struct white_block *b, void *user)
{
    struct wrong *wrong = user;
    if (white_is(wrong->all, b) || (wrong->swept && !white_is(wrong->swept, b))) return;
    if (wrong->n++ == 0) wrong->first = b->start;
}

/* Whatever a full mark of the same cut reaches, the minor collection must have reached, too; but where pages are tracked, what hangs on words that are
   older than the young block need not be found: a number that is as if it were its address, or a pointer to an earlier block in
   its place.  So it is held against a sweep of all old memory then, unless a store went unseen. */
static void verify_minor(const struct cut *cut, struct roots *roots, struct present *present, const struct white *young,
                         struct collection *of)
{
    struct white all, swept;
    struct wrong wrong = {.all = &all};
    if (!mark_again(WHITE_LIVE, &all, cut, roots, present)) return;
    white_each(young, check_white, &wrong);
    if (wrong.n > 0 && remember_way() == REMEMBER_TRACK && (of->unseen = remember_unseen(present, &of->first_unseen)) == 0) {
        wrong = (struct wrong){.all = &all, .swept = &swept};
        if (mark_again(WHITE_YOUNG, &swept, cut, roots, present)) {
            white_each(young, check_white, &wrong);
            white_free(&swept);
        }
    }
    white_free(&all);
    of->missed = wrong.n;
    of->first_missed = wrong.first;
}

void collect_minor(const struct cut *cut, const struct collect_options *options, struct collection *of)
{
    uint64_t began = collect_clock();
    struct load_all load;
    load_all_begin(&load);
    struct present present;
    struct white white;
    struct roots roots = {0};
    struct marker *m = NULL;
    present_start(&present, options->at_best);
    of->complete = false;
    of->why_not = no_memory;
    const struct roots_options which = {.part = ROOTS_ALL, .at_best = options->at_best,
                                        .shared_most = COLLECT_SHARED_MOST};
    roots_find(&roots, cut, &which); /* before anything of ours is mapped */
    of->roots = collect_clock() - began;
    if (!roots.complete) {
        of->why_not = why_not(&roots, "not all roots could be looked at");
        goto done_roots;
    }
    if (!white_make(&white, WHITE_YOUNG)) goto done_roots;
    if (white.moving) {
        of->why_not = "a large block was being moved";
        goto done_white;
    }
    white.blind = &roots.blind;
    of->young = white.blocks;
    of->young_bytes = white.bytes;
    if (!(m = mark_start(&white, cut->pointer_guard, &present))) goto done_white;
    uint64_t step = collect_clock();
    mark_all_roots(m, &roots, cut);
    of->mark = collect_clock() - step;
    step = collect_clock();
    of->complete = remember_words(m, &white, cut->pointer_guard, &present) && mark_complete(m) && roots.complete;
    of->why_not = of->complete ? NULL : why_not(&roots, "the remembered set could not be read");
    of->remember = collect_clock() - step;
    step = collect_clock();
    mark_drain(m);
    of->mark += collect_clock() - step;
    if (of->complete && options->verify) verify_minor(cut, &roots, &present, &white, of);
    if (of->complete) {
        struct mark_stats stats;
        struct white_young aged;
        mark_stats(m, &stats);
        of->promoted = stats.blocks;
        of->promoted_bytes = stats.bytes;
        of->lost = white.blocks - stats.blocks; /* only candidates: a major collection decides */
        of->lost_bytes = white.bytes - stats.bytes;
        step = collect_clock();
        white_make_old(&aged, &white);
        arenas_make_old();
        remember_arm(&present);
        of->sweep = collect_clock() - step;
    }
    mark_end(m);
done_white:
    white_free(&white);
done_roots:
    roots_free(&roots);
    present_end(&present);
    load_all_end(&load);
}

void collect_age(struct collection *of)
{
    struct white_young aged;
    white_make_old(&aged, NULL);
    of->young = aged.blocks;
    of->young_bytes = aged.bytes;
    arenas_make_old();
}

/* ---- figures ---- */

/* A histogram in steps of 5 % from a microsecond: good for quantiles to 2.5 %. */
#define STEPS 480
struct histogram {
    uint32_t n[STEPS];
    uint64_t count, max;
};

static struct histogram pauses, stops, marks;
static struct collections all;

static double step_value(unsigned i)
{
    double v = 1000;
    while (i-- > 0) v *= 1.05;
    return v;
}

static void enter(struct histogram *h, uint64_t ns)
{
    unsigned i = 0;
    for (double v = 1000; v < (double)ns && i < STEPS - 1; v *= 1.05) i++;
    h->n[i]++;
    h->count++;
    if (ns > h->max) h->max = ns;
}

static double quantile(const struct histogram *h, double q)
{
    uint64_t want = (uint64_t)((double)h->count * q + 0.999999), seen = 0;
    for (unsigned i = 0; i < STEPS; i++) {
        seen += h->n[i];
        if (seen < want || seen == 0) continue;
        double v = step_value(i);
        return (v < (double)h->max ? v : (double)h->max) / 1e6;
    }
    return 0;
}

static struct collection_spread spread(const struct histogram *h)
{
    return (struct collection_spread){quantile(h, 0.5), quantile(h, 0.99), (double)h->max / 1e6};
}

void collect_count(const struct collection *c)
{
    if (!c->complete) all.incomplete++;
    if (c->kind == COLLECTION_MINOR) all.minor++;
    else all.major++;
    all.promoted_bytes += c->promoted_bytes;
    all.latest = *c;
    if (c->kind == COLLECTION_MAJOR) all.latest_major = *c;
    enter(&pauses, c->pause);
    enter(&stops, c->stop);
    enter(&marks, c->mark);
}

void collections(struct collections *to)
{
    *to = all;
    to->pause = spread(&pauses);
    to->stop = spread(&stops);
    to->mark = spread(&marks);
}

void collect_fork_child(void)
{
    all = (struct collections){0};
    pauses = stops = marks = (struct histogram){0};
    lost_fork_child();
    reclaim_fork_child();
}
