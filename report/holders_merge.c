/* holders_merge.c: which holders are one, and the ways that differ in nothing that anybody asks for.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/basics.h"
#include "report/holders.h"

#include <stdlib.h>
#include <string.h>

/* By area, and in those that have variables by variable, or else by address. */
static int compare_units(const struct unit *a, const struct unit *b)
{
    if (a->area != b->area) return a->area < b->area ? -1 : 1;
    if (a->area->kind != AREA_MODULE && a->area->kind != AREA_TLS) return 0;
    bool named = a->variable.name, other = b->variable.name;
    if (named != other) return named ? -1 : 1;
    uint64_t left = named ? a->variable.start : a->at, right = named ? b->variable.start : b->at;
    return (left > right) - (left < right);
}

bool holders_same(const struct unit *a, const struct unit *b)
{
    return !compare_units(a, b);
}

static int compare_pointers(const void *a, const void *b)
{
    return (a > b) - (a < b);
}

/* The functions of two frames. */
static int compare_frames(const struct site *a, const struct site *b)
{
    if (!a || !b) return (a != NULL) - (b != NULL);
    const struct frame *left = a->step_count ? a->steps[0].frame : NULL, *right = b->step_count ? b->steps[0].frame : NULL;
    if (!left || !right || !left->function || !right->function) return compare_pointers(a->stack[0], b->stack[0]);
    return strcmp(left->function, right->function);
}

/* Of what the kernel holds: epoll descriptors, and timers; not what is registered at one. */
static int compare_kernel(const struct unit *a, const struct unit *b)
{
    enum { DESCRIPTOR_AND_KIND = 27 };
    uint64_t mask = (1 << DESCRIPTOR_AND_KIND) - 1, left = a->at & mask, right = b->at & mask;
    return a->area->kind == AREA_KERNEL ? (left > right) - (left < right) : 0;
}

static int compare_ways(const void *a, const void *b)
{
    const struct way *left = a, *right = b;
    int order = compare_units(&left->root, &right->root);
    if (!order) order = compare_kernel(&left->root, &right->root);
    if (!order) order = (int)left->how - (int)right->how;
    if (!order) order = compare_frames(left->frame, right->frame);
    if (!order) order = (left->step_count > right->step_count) - (left->step_count < right->step_count);
    for (size_t i = 0; !order && i < left->step_count; i++) {
        const struct way_step *l = &left->steps[i], *r = &right->steps[i];
        order = compare_pointers(l->stack, r->stack);
        if (!order) order = (l->bytes > r->bytes) - (l->bytes < r->bytes);
    }
    return order;
}

static void join(struct way *to, const struct way *from)
{
    if (from->root.at < to->root.at) {
        to->root.bytes += to->root.at - from->root.at;
        to->root.at = from->root.at;
    } else if (from->root.at + from->root.bytes > to->root.at + to->root.bytes) {
        to->root.bytes = from->root.at + from->root.bytes - to->root.at;
    }
    for (size_t i = 0; i < to->step_count; i++) {
        struct way_step *t = &to->steps[i];
        const struct way_step *f = &from->steps[i];
        if (f->offset_low < t->offset_low) t->offset_low = f->offset_low;
        if (f->offset_high > t->offset_high) t->offset_high = f->offset_high;
        if (f->least < t->least) t->least = f->least;
        if (f->most > t->most) t->most = f->most;
    }
    to->count += from->count;
    to->exclusive += from->exclusive;
}

/* Most blocks first; then the shorter way. */
static int compare_counts(const void *a, const void *b)
{
    const struct way *left = a, *right = b;
    if (left->count != right->count) return left->count < right->count ? 1 : -1;
    if (left->step_count != right->step_count) return left->step_count > right->step_count ? 1 : -1;
    return (left->root.at > right->root.at) - (left->root.at < right->root.at);
}

void holders_merge(struct profile *profile)
{
    struct holders *h = profile->holders;
    for (size_t i = 0; h && i < h->held_count; i++) {
        struct held *held = &h->held[i];
        size_t kept = 0;
        for (size_t j = 0; j < held->way_count; j++) {
            struct way *way = &held->ways[j];
            way->exclusive = way->has_only && holders_same(way->low, way->high);
        }
        qsort(held->ways, held->way_count, sizeof *held->ways, compare_ways);
        for (size_t j = 0; j < held->way_count; j++) {
            if (kept && !compare_ways(&held->ways[kept - 1], &held->ways[j])) join(&held->ways[kept - 1], &held->ways[j]);
            else held->ways[kept++] = held->ways[j];
        }
        held->way_count = kept;
        qsort(held->ways, held->way_count, sizeof *held->ways, compare_counts);
    }
}

/* -- what is retained ---------------------------------------------------------------------------
 */

/* Those of one holder by holder; then the others by their two areas. */
static int compare_shares(const void *a, const void *b)
{
    const struct share *left = a, *right = b;
    bool one = holders_same(left->low, left->high), other = holders_same(right->low, right->high);
    if (one != other) return one ? -1 : 1;
    if (one) return compare_units(left->low, right->low);
    int order = compare_pointers(left->low->area, right->low->area);
    return order ? order : compare_pointers(left->high->area, right->high->area);
}

static int compare_retained(const void *a, const void *b)
{
    const struct retained *left = a, *right = b;
    if (left->bytes != right->bytes) return left->bytes < right->bytes ? 1 : -1;
    return compare_pointers(left->low, right->low);
}

struct retained *holders_retained(const struct holders *h, size_t *count)
{
    struct share *shares = need_array(h->share_count, sizeof *shares);
    struct retained *retained = need_array(h->share_count, sizeof *retained);
    if (h->share_count) memcpy(shares, h->shares, h->share_count * sizeof *shares);
    qsort(shares, h->share_count, sizeof *shares, compare_shares);
    *count = 0;
    for (size_t i = 0; i < h->share_count; i++) {
        const struct share *share = &shares[i];
        if (!i || compare_shares(&shares[i - 1], share))
            retained[(*count)++] =
                (struct retained){share->low, share->high, holders_same(share->low, share->high), true, true, 0, 0};
        struct retained *to = &retained[*count - 1];
        to->low_alone &= holders_same(to->low, share->low);
        to->high_alone &= holders_same(to->high, share->high);
        to->objects += share->objects;
        to->bytes += share->bytes;
    }
    free(shares);
    qsort(retained, *count, sizeof *retained, compare_retained);
    return retained;
}
