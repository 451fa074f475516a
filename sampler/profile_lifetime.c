/* profile_lifetime.c: lifetimes by site, as comments of the profile that other readers do not show (doc/format.md).  A row is a list of numbers that names its
   sample by the label `site`; a comment holds so many that it can be handed on before the next is begun.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/collect.h"
#include "heap/print.h"
#include "sampler/deaths.h"
#include "sampler/lifetime_live.h"
#include "sampler/profile_writer.h"
#include "sampler/site.h"

#include <string.h>

#define COMMENT_BYTES (256 * KIB)

struct rows {
    struct writer *w;
    struct lifetime_live live;
    struct lifetime_stats stats;
    struct deaths_pending pending;
    size_t begun; /* of the comment's string */
    bool open, any;
};

static void text(struct rows *r, const char *s)
{
    protobuf_raw(&r->w->strings, s, strlen(s));
}

static void number(struct rows *r, uint64_t n)
{
    char line[24];
    protobuf_raw(&r->w->strings, line, print_to(line, sizeof line, "%lu", (unsigned long)n));
}

static void pair(struct rows *r, const char *before, uint64_t a, uint64_t b, const char *after)
{
    text(r, before);
    number(r, a);
    text(r, ",");
    number(r, b);
    text(r, after);
}

static void open_comment(struct rows *r)
{
    protobuf_uint(&r->w->out, PROFILE_COMMENT, r->w->string_count);
    r->begun = protobuf_begin(&r->w->strings, PROFILE_STRING);
    pair(r, "#gleaner-lifetimes:{\"version\":1,\"steps\":[", LIFETIME_TICKS, LIFETIME_UNIT, "],");
    pair(r, "\"observed\":[", r->stats.observed_ticks, r->stats.observed_units, "],");
    text(r, "\"dropped\":");
    number(r, r->stats.dropped);
    text(r, ",\"sites\":[");
    r->open = true;
    r->any = false;
}

static void close_comment(struct rows *r)
{
    text(r, "]}");
    protobuf_end(&r->w->strings, r->begun);
    r->w->string_count++;
    r->open = false;
    profile_flush_strings(r->w);
}

/* A histogram as its steps that are not empty, each followed by its weight. */
static void steps(struct rows *r, _Atomic uint64_t *weight, unsigned count)
{
    bool first = true;
    text(r, ",[");
    for (unsigned i = 0; weight && i < count; i++) {
        uint64_t n = atomic_load_explicit(&weight[i], memory_order_relaxed);
        if (n) pair(r, first ? "" : ",", i, n, "");
        first &= n == 0;
    }
    text(r, "]");
}

static void live_steps(struct rows *r, const struct lifetime_cell *cells, size_t count, unsigned from, unsigned to)
{
    bool first = true;
    text(r, ",[");
    for (size_t i = 0; i < count; i++) {
        unsigned what = cells[i].key & 0xff;
        if (what < from || what >= to) continue;
        pair(r, first ? "" : ",", what - from, cells[i].weight, "");
        first = false;
    }
    text(r, "]");
}

static uint64_t load(_Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void row(const struct site_view *v, void *user)
{
    struct rows *r = user;
    struct lifetime sum, *l = lifetime_sum(v->site, &r->pending, &sum) ? &sum : NULL;
    const struct lifetime_cell *cells;
    size_t count = lifetime_live_of(&r->live, v->site, &cells);
    if (r->w->error || (!l && count == 0)) return;
    if (!r->open) open_comment(r);
    uint64_t died = 0, old = l ? load(&l->old) : 0, live_old = 0;
    for (unsigned i = 0; l && i < LIFETIME_TIMES; i++) died += load(&l->time[i]);
    for (size_t i = 0; i < count; i++)
        if ((cells[i].key & 0xff) == LIFETIME_CELL_OLD) live_old = cells[i].weight;
    uint64_t inherited[2] = {l ? load(&l->inherited_young) : 0, l ? load(&l->inherited_old) : 0};
    pair(r, r->any ? ",[" : "[", profile_site_number(v->site), (died > old ? died - old : 0) + inherited[0], ",");
    pair(r, "", old + inherited[1], l ? load(&l->elsewhere) : 0, ",");
    number(r, live_old);
    steps(r, l ? l->time : NULL, LIFETIME_TIMES);
    steps(r, l ? l->span : NULL, LIFETIME_SPANS);
    live_steps(r, cells, count, 0, LIFETIME_TIMES);
    live_steps(r, cells, count, LIFETIME_CELL_SPAN, LIFETIME_CELL_OLD);
    text(r, "]");
    r->any = true;
    if (r->w->strings.used >= COMMENT_BYTES) close_comment(r);
}

void profile_lifetime(struct writer *w)
{
    struct rows r = {.w = w};
    struct collections collected;
    if (w->interval == 0) return;
    lifetime_stats(&r.stats);
    deaths_pending(&r.pending);
    collections(&collected);
    /* A child has old blocks of its parent's. */
    bool old = collected.minor + collected.major > 0 || r.stats.since > 0;
    if (!lifetime_live_make(&r.live, &r.stats, old)) return; /* the rest of the profile is worth having without */
    r.stats.dropped += r.live.lost;
    site_each(row, &r);
    if (r.open) close_comment(&r);
    lifetime_live_free(&r.live);
}
