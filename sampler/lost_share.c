/* lost_share.c: to which stacks do the lost blocks belong that were not tracked?

   1. A lost block that is tracked has its stack.  Of the others only the caller is known, or
      nothing; the number of them is exact all the same.  So blocks are put into groups in which the tracked ones are a fair
      sample: those with the same caller, or, where no callers were kept, those of one area of the heap (small, medium, large).
      Then, within a group, from the finest division that has a tracked block to the coarsest:

          same size, same kind    tracked and other blocks were sampled with the same probability, so the others are shared out
                                  in proportion to the tracked ones: post-stratification
          same size               as before; their kind is known and kept
          same group              in proportion to the sample points, that is, to estimated bytes

      A group without any tracked block stays what it is: a caller, or nowhere, with exact figures.  Where all blocks of a
      division are tracked nothing is shared out and the figures are exact.
   2. Limits.  b of a division's N blocks were tracked, b_i of them at place i: the share b_i / b has estimate_share's
      interval, drawn together by sqrt((N - b) / (N - 1)) because the sample is of a finite number without
      repetition (Cochran, Sampling Techniques, 1977, section 3.3), and what was seen was there.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/caller.h"
#include "heap/os.h"
#include "heap/sizeclass.h"
#include "heap/sort.h"
#include "sampler/estimate.h"
#include "sampler/lost_table.h"
#include "sampler/site.h"
#include "sampler/stack.h"

/* A record in the order of groups, sizes, kinds. */
struct order {
    uint64_t group, given;
    uint32_t kind, number;
    uint32_t to; /* scratch of share */
};

static bool before(const void *one, const void *other)
{
    const struct order *a = one, *b = other;
    if (a->group != b->group) return a->group < b->group;
    if (a->given != b->given) return a->given < b->given;
    if (a->kind != b->kind) return a->kind < b->kind;
    return a->number < b->number;
}

static uint64_t part_of(uint64_t whole, uint64_t part, uint64_t of)
{
    return of ? (uint64_t)((unsigned __int128)whole * part / of) : 0;
}

/* In which group a record's blocks are; false: in none. */
static bool group_of(const struct lost_site *s, bool callers, uint64_t *group)
{
    struct stack_frame frame;
    if (s->place.where == LOST_AT_SITE && s->place.number == SITE_DROPPED) return false;
    if (!callers) {
        *group = s->given <= SMALL_MAX ? 0 : s->given <= MEDIUM_MAX ? 1 : 2;
        return s->place.where != LOST_AT_CALLER;
    }
    if (s->place.where == LOST_AT_CALLER)
        *group = caller_address(s->place.number);
    else if (s->place.where == LOST_AT_SITE && stack_frame(site_stack(s->place.number), &frame))
        *group = frame.address;
    else
        return false;
    return true;
}

/* Adds a record without a stack to what is to be shared out. */
static void take(struct lost_sites *l, struct lost_site *to, const struct order *from)
{
    struct lost_site *s = &l->records[from->number].is;
    to->kind = s->kind;
    to->objects += s->objects;
    to->bytes += s->bytes;
    to->hangs += s->hangs;
    to->hangs_bytes += s->hangs_bytes;
    to->rules |= s->rules;
    lost_table_times(to, s->last_reached, s->first_missed, s->last_missed, s->misses);
    s->objects = 0; /* lost_sites_each passes it by */
}

/* How the blocks are shared out: see 1. */
enum level { SAME_KIND, SAME_SIZE, SAME_GROUP };

/* Limits of `share` of `all` blocks, from `tracked` ones; see 2.  `of_it`: those of the tracked that are part of the share, where
   they are some of `all`; else negative. */
static struct lost_limits limits_of(double share, uint64_t tracked, uint64_t all, int64_t of_it)
{
    struct estimate e = estimate_share(share, (double)tracked);
    double n = (double)all, closer = 1;
    if (of_it >= 0) closer = n > 1 ? estimate_square_root((n - (double)tracked) / (n - 1)) : 0;
    double low = (share - (share - e.lo) * closer) * n,
           high = (share + (e.hi - share) * closer) * n;
    struct lost_limits l = {low > 0 ? (uint64_t)low : 0,
                            (uint64_t)high + ((double)(uint64_t)high < high)};
    uint64_t least = of_it >= 0 ? (uint64_t)of_it : 0,
             most = of_it >= 0 ? all - (tracked - least) : all;
    if (l.low < least) l.low = least;
    if (l.high > most) l.high = most;
    return l;
}

static void set_limits(struct lost_site *s, struct lost_limits l)
{
    if (l.low > s->objects) l.low = s->objects;
    if (l.high < s->objects) l.high = s->objects;
    s->estimated = true;
    s->objects_limits = l;
    s->bytes_limits = (struct lost_limits){part_of(s->bytes, l.low, s->objects),
                                           part_of(s->bytes, l.high, s->objects)};
}

/* The part of `what` that lies between its blocks `from` and `to`, in proportion. */
static void give(struct lost_site *s, const struct lost_site *what, uint64_t from, uint64_t to)
{
    s->objects += to - from;
    s->bytes += part_of(what->bytes, to, what->objects) - part_of(what->bytes, from, what->objects);
    s->hangs += part_of(what->hangs, to, what->objects) - part_of(what->hangs, from, what->objects);
    s->hangs_bytes += part_of(what->hangs_bytes, to, what->objects) -
                      part_of(what->hangs_bytes, from, what->objects);
}

/* Which record gets what falls to a tracked one: of another kind, or of mixed sizes, it is one of its own. */
static uint32_t receiver(struct lost_sites *l, uint32_t number, enum lost_kind kind,
                         enum level level)
{
    if (level == SAME_KIND) return number;
    const struct lost_site *s = &l->records[number].is;
    struct lost_site key = {
        .place = s->place, .kind = kind, .given = level == SAME_SIZE ? s->given : 0};
    return lost_table_find(l, &key);
}

/* Shares `what` out among the tracked records at `item`, of which there are n. */
static void share(struct lost_sites *l, struct order *item, size_t n, const struct lost_site *what,
                  enum level level)
{
    uint64_t weights = 0, tracked = 0, upto = 0, given = 0;
    for (size_t i = 0; i < n; i++) {
        item[i].to = receiver(l, item[i].number, what->kind, level);
        const struct record *from = &l->records[item[i].number];
        uint64_t weight = level == SAME_GROUP ? from->points : from->tracked;
        l->records[item[i].to].weight += weight;
        weights += weight;
        tracked += from->tracked;
    }
    for (size_t i = 0; i < n; i++) {
        struct record *r = &l->records[item[i].to];
        uint64_t weight = r->weight, before = given;
        if (!weight) continue; /* of two at one site the second has nothing left to do */
        r->weight = 0;
        r->is.rules |= what->rules;
        upto += weight;
        given = part_of(what->objects, upto, weights);
        give(&r->is, what, before, given);
        if (n == 1 || level != SAME_KIND)
            lost_table_times(&r->is, what->last_reached, what->first_missed, what->last_missed,
                             what->misses);
        if (item[i].to < LOST_KINDS || !r->is.objects) continue;
        double part = (double)weight / (double)weights;
        if (level == SAME_KIND) {
            r->is.asked = part_of(r->is.asked, r->is.objects, r->tracked);
            set_limits(&r->is,
                       limits_of(part, tracked, what->objects + tracked, (int64_t)r->tracked));
        } else {
            set_limits(&r->is, limits_of(part, tracked, what->objects, -1));
        }
    }
}

/* The end of the run of equal groups (and sizes, and kinds) that begins at `from`. */
static size_t run(const struct order *o, size_t from, size_t n, bool by_size, bool by_kind)
{
    size_t to = from + 1;
    while (to < n && o[to].group == o[from].group && (!by_size || o[to].given == o[from].given) &&
           (!by_kind || o[to].kind == o[from].kind))
        to++;
    return to;
}

/* Shares one group out: `loose` are its records without a stack, `item` those with one. */
static void share_group(struct lost_sites *l, struct order *item, size_t items,
                        const struct order *loose, size_t n)
{
    struct lost_site rest[LOST_KINDS] = {{.objects = 0}};
    size_t at = 0;
    for (size_t i = 0, end; i < n; i = end) {
        end = run(loose, i, n, true, true);
        while (at < items && item[at].given < loose[i].given) at++;
        size_t size_end =
            at < items && item[at].given == loose[i].given ? run(item, at, items, true, false) : at;
        size_t kind = at;
        while (kind < size_end && item[kind].kind < loose[i].kind) kind++;
        size_t kind_end = kind;
        while (kind_end < size_end && item[kind_end].kind == loose[i].kind) kind_end++;
        struct lost_site sum = {.objects = 0}, *to = size_end > at ? &sum : &rest[loose[i].kind];
        for (size_t j = i; j < end; j++) take(l, to, &loose[j]);
        if (kind_end > kind)
            share(l, item + kind, kind_end - kind, &sum, SAME_KIND);
        else if (size_end > at)
            share(l, item + at, size_end - at, &sum, SAME_SIZE);
    }
    for (unsigned k = 0; k < LOST_KINDS; k++)
        if (rest[k].objects) share(l, item, items, &rest[k], SAME_GROUP);
}

void lost_share(struct lost_sites *l)
{
    bool callers = caller_limit() > 1;
    uint32_t count = l->count;
    size_t bytes = round_up(count * sizeof(struct order), OS_PAGE), items = 0, n = 0;
    struct order *item = os_map(bytes), *loose = os_map(bytes);
    if (item && loose) {
        for (uint32_t i = LOST_KINDS; i < count; i++) {
            const struct lost_site *s = &l->records[i].is;
            struct order o = {.given = s->given, .kind = (uint32_t)s->kind, .number = i};
            if (!group_of(s, callers, &o.group)) continue;
            if (s->place.where == LOST_AT_SITE)
                item[items++] = o;
            else
                loose[n++] = o;
        }
        sort_in_place(item, items, sizeof *item, before);
        sort_in_place(loose, n, sizeof *loose, before);
        for (size_t i = 0, j = 0, end, last; i < n; i = end) {
            end = run(loose, i, n, false, false);
            while (j < items && item[j].group < loose[i].group) j++;
            if (j == items || item[j].group != loose[i].group) continue;
            last = run(item, j, items, false, false);
            share_group(l, item + j, last - j, loose + i, end - i);
            j = last;
        }
    }
    if (item) os_unmap(item, bytes);
    if (loose) os_unmap(loose, bytes);
}
